// Attention over parts of the keys, merged: equal to the whole and to the oracle, forward and backward.

#include "rapt/partial.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oracle/formulas.h"
#include "support/allocations.h"
#include "support/checks.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using oracle::Sizes;
using support::Buffer;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;
using support::label;

rapt::ConstView shifted(rapt::ConstView view, Int first, int axis, Int count) {
  const auto n = static_cast<std::size_t>(axis);
  view.data =
      static_cast<const char*>(view.data) + first * view.strides[n] * static_cast<Int>(rapt::size_of(view.dtype));
  view.shape[n] = count;
  return view;
}

// The results of one part; outputs have the compute type, so that nothing is rounded between part and whole.
struct Part {
  Int first, keys;
  rapt::AttendOptions options;
  rapt::Inputs inputs;
  std::vector<std::uint8_t> dense;
  Buffer out, row_max, row_sum, d_out, d_lse;
  rapt::Saved saved;

  rapt::Partial partial() const { return {out.view(), row_max.view(), row_sum.view()}; }
};

// Uneven cuts; from three parts on one of them is empty.
std::vector<Int> cuts(Int keys, int parts) {
  std::vector<Int> at = {0};
  for (int n = 1; n < parts; ++n)
    at.push_back(n == 2 ? at.back() : std::min(keys, keys * n * (n + 3) / (parts * (parts + 3))));
  at.push_back(keys);
  return at;
}

class Parts {
 public:
  Parts(const Case& c, int count, rapt::Path path) : case_(c), call_(c) {
    const oracle::Problem& p = c.problem;
    const rapt::Dtype compute = support::compute_type(c.spec.dtype);
    const std::vector<Int> at = cuts(p.keys(), count);
    rows_ = {p.batch(), p.heads(), p.queries(), 1};
    outs_ = {p.batch(), p.heads(), p.queries(), p.v[0].shape[3]};
    for (int n = 0; n < count; ++n) {
      const auto place = static_cast<std::size_t>(n);
      Part& part = *parts_.emplace_back(std::make_unique<Part>());
      part.first = at[place];
      part.keys = at[place + 1] - at[place];
      part.options = call_.options;
      part.options.path = path;
      part.options.first_key = part.first;
      part.inputs.q = call_.inputs.q;
      part.inputs.k = shifted(call_.inputs.k, part.first, 2, part.keys);
      part.inputs.v = {shifted(call_.inputs.v[0], part.first, 2, part.keys)};
      if (part.options.bias) part.options.bias = shifted(part.options.bias, part.first, 3, part.keys);
      for (Int& length : part.options.mask.key_lengths) length = std::clamp<Int>(length - part.first, 0, part.keys);
      cut_dense(part);
      // The sink is one more score of the whole row: one part has it.
      if (n > 0) part.options.normalizer_parameters.clear();
      part.out = Buffer(compute, outs_);
      part.row_max = Buffer(compute, rows_);
      part.row_sum = Buffer(compute, rows_);
      rapt::Outputs outputs;
      outputs.out = {part.out.view()};
      outputs.row_max = part.row_max.view();
      outputs.row_sum = part.row_sum.view();
      outputs.saved = &part.saved;
      rapt::attend(part.inputs, outputs, part.options);
      EXPECT_EQ(part.out.damage() + part.row_max.damage() + part.row_sum.damage(), "");
      partials_.push_back(part.partial());
    }
  }

  support::ForwardResult merge(int threads = 1) {
    const rapt::Dtype compute = support::compute_type(case_.spec.dtype);
    out_ = Buffer(case_.spec.dtype, outs_);
    row_max_ = Buffer(compute, rows_);
    row_sum_ = Buffer(compute, rows_);
    Buffer lse(compute, rows_);
    rapt::merge(partials_, {out_.view(), row_max_.view(), row_sum_.view(), lse.view()}, threads);
    support::ForwardResult r;
    for (const Buffer* buffer : {&out_, &row_max_, &row_sum_, &lse}) {
      if (r.damage.empty()) r.damage = buffer->damage();
      r.bits.insert(r.bits.end(), buffer->bytes().begin(), buffer->bytes().end());
    }
    r.out = {out_.values()};
    r.lse = lse.values();
    r.row_max = row_max_.values();
    r.row_sum = row_sum_.values();
    return r;
  }

  // The arguments of merge() alone.
  std::size_t merge_allocations() {
    out_ = Buffer(case_.spec.dtype, outs_);
    const rapt::Merged merged{out_.view(), {}, {}, {}};
    const std::size_t before = support::allocations();
    rapt::merge(partials_, merged, 1);
    return support::allocations() - before;
  }

  // After merge(): the gradients of all parts together.
  support::BackwardResult backward(int threads = 1) {
    const oracle::Problem& p = case_.problem;
    const rapt::Dtype compute = support::compute_type(case_.spec.dtype);
    std::vector<rapt::PartialGradient> gradients;
    for (const auto& part : parts_) {
      part->d_out = Buffer(compute, outs_);
      part->d_lse = Buffer(compute, rows_);
      gradients.push_back({part->d_out.view(), part->d_lse.view()});
    }
    rapt::merge_backward(partials_, {out_.view(), row_max_.view(), row_sum_.view()}, call_.grad_out[0], gradients,
                         threads);
    support::BackwardResult r;
    oracle::Gradients& sum = r.gradients;
    sum.q = Array(p.q.shape);
    sum.k = Array(p.k.shape);
    sum.v = {Array(p.v[0].shape)};
    for (const auto& [name, value] : p.parameters) sum.parameters[name] = Array(value.shape);
    for (const auto& [name, value] : p.normalizer_parameters) sum.parameters[name] = Array(value.shape);
    for (const auto& part : parts_) add_part(*part, r);
    return r;
  }

 private:
  void cut_dense(Part& part) const {
    const rapt::BoolView& whole = call_.options.mask.dense;
    if (!whole) return;
    const Int rows = whole.shape[0] * whole.shape[1] * whole.shape[2];
    for (Int r = 0; r < rows; ++r)
      for (Int j = 0; j < part.keys; ++j) part.dense.push_back(whole.data[r * whole.shape[3] + part.first + j]);
    rapt::BoolView& dense = part.options.mask.dense;
    if (part.dense.empty()) part.dense.push_back(0);
    dense.data = part.dense.data();
    dense.shape[3] = part.keys;
    dense.strides = rapt::contiguous_strides(dense.shape);
  }

  void add_part(Part& part, support::BackwardResult& r) {
    const oracle::Problem& p = case_.problem;
    const rapt::Dtype compute = support::compute_type(case_.spec.dtype);
    if (r.damage.empty()) r.damage = part.d_out.damage() + part.d_lse.damage();
    Sizes k = p.k.shape, v = p.v[0].shape;
    k[2] = v[2] = part.keys;
    Buffer dq(compute, p.q.shape), dk(compute, k), dv(compute, v);
    std::map<std::string, Buffer> parameters;
    rapt::Gradients wanted;
    wanted.q = dq.view();
    wanted.k = dk.view();
    wanted.v = {dv.view()};
    for (const auto* list : {&part.options.score.parameters, &part.options.normalizer_parameters})
      for (const rapt::NamedView& given : *list) {
        Buffer& buffer = parameters[given.name] = Buffer(compute, given.value.shape);
        wanted.parameters.push_back({given.name, buffer.view()});
      }
    rapt::attend_backward(part.inputs, {part.out.view()}, {part.d_out.view()}, &part.saved, wanted, part.options,
                          part.d_lse.view());
    if (r.damage.empty()) r.damage = dq.damage() + dk.damage() + dv.damage();
    const auto add = [](Array& to, const Array& from) {
      for (std::size_t n = 0; n < from.data.size(); ++n) to.data[n] += from.data[n];
    };
    add(r.gradients.q, dq.values());
    for (const auto& [name, buffer] : parameters) add(r.gradients.parameters.at(name), buffer.values());
    const auto place = [&](Array& to, const Array& from) {
      for (Int b = 0; b < from.shape[0]; ++b)
        for (Int h = 0; h < from.shape[1]; ++h)
          for (Int j = 0; j < from.shape[2]; ++j)
            for (Int d = 0; d < from.shape[3]; ++d) to.at(b, h, part.first + j, d) = from.at(b, h, j, d);
    };
    place(r.gradients.k, dk.values());
    place(r.gradients.v[0], dv.values());
  }

  Case case_;
  Call call_;
  Sizes rows_{}, outs_{};
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<rapt::Partial> partials_;
  Buffer out_, row_max_, row_sum_;
};

class Partial : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  static CaseSpec spec() {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.batch = 2;
    s.heads = 4;
    s.key_heads = 2;
    s.queries = 21;
    s.keys = 53;
    s.key_dim = 12;
    s.value_dims = {9};
    s.positions = support::PositionKind::last;
    return s;
  }

  static void check(const CaseSpec& spec, std::initializer_list<rapt::Path> paths = {rapt::Path::automatic}) {
    const Case c = make_case(spec);
    const support::Expected expected(c, true);
    Call whole(c);
    const support::ForwardResult all = whole.forward();
    // Two orders of the same sums.
    const double rounding = support::rounding_of(spec.dtype);
    for (rapt::Path path : paths)
      for (int count = 1; count <= 7; ++count) {
        SCOPED_TRACE(testing::Message() << describe(spec) << ", " << label(path) << ", " << count << " parts");
        Parts parts(c, count, path);
        const support::ForwardResult merged = parts.merge();
        EXPECT_TRUE(expected.matches(merged));
        EXPECT_TRUE(support::agree(merged.out[0], all.out[0], rounding, 1));
        EXPECT_TRUE(support::agree(merged.lse, all.lse, std::min(rounding, 2e-5), 1));
        const support::BackwardResult backward = parts.backward();
        EXPECT_EQ(backward.damage, "");
        EXPECT_TRUE(expected.matches(backward));
        // The same bits for any number of threads.
        for (int threads : {2, 3, 5}) EXPECT_TRUE(parts.merge(threads).bits == merged.bits) << threads;
      }
  }
};

TEST_P(Partial, PartsAreTheWhole) {
  check(spec(), {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference});
}

TEST_P(Partial, UnderEveryMask) {
  for (support::MaskKind mask : support::all_masks()) {
    CaseSpec s = spec();
    if (!combine(mask, s.positions) || mask == support::MaskKind::none) continue;
    s.mask = mask;
    check(s);
  }
}

TEST_P(Partial, WithBiasSoftcapSinkAndRotary) {
  CaseSpec s = spec();
  s.softcap = 3;
  s.normalizer = support::NormalizerKind::softmax_sink;
  s.rotary = support::RotaryKind::halves;
  s.mask = support::MaskKind::top_left;
  check(s);
}

TEST_P(Partial, TheGradientOfLseMatchesTheOracle) {
  for (support::NormalizerKind normalizer : {support::NormalizerKind::softmax, support::NormalizerKind::softmax_sink}) {
    CaseSpec s = spec();
    s.normalizer = normalizer;
    s.grad_lse = true;
    s.mask = support::MaskKind::key_lengths;
    s.bias = support::BiasKind::per_head;
    support::check_backward(s);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Partial,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16)),
                         support::mechanism_and_type);

// Infinite scores share the weight across parts as within one; NaN spoils the rows that see it, and no others.
TEST(PartialExtremes, InfinitiesAndNaN) {
  oracle::Problem p;
  p.mechanism = "dot";
  p.q = Array({1, 1, 2, 1}, {1, 0.5});
  p.k = Array({1, 1, 6, 1}, {HUGE_VAL, 5, 1, HUGE_VAL, 0, 2});
  p.v = {Array({1, 1, 6, 1}, {1, 10, 20, 3, 40, 50})};
  for (const rapt::Path path : support::kPaths)
    for (int count = 1; count <= 5; ++count) {
      SCOPED_TRACE(testing::Message() << label(path) << ", " << count << " parts");
      const support::ForwardResult r = Parts(support::make_case(p, rapt::Dtype::f64), count, path).merge();
      EXPECT_EQ(r.out[0].data, (std::vector<double>{2, 2}));
      oracle::Problem spoilt = p;
      spoilt.k.data = {1, 2, 3, 4, NAN, 0};
      spoilt.mask.causal = oracle::Causal::top_left;
      spoilt.first_query = {3};
      const support::ForwardResult s = Parts(support::make_case(spoilt, rapt::Dtype::f64), count, path).merge();
      EXPECT_TRUE(std::isfinite(s.out[0].data[0]));
      EXPECT_TRUE(std::isnan(s.out[0].data[1]));
    }
}

// merge() itself, on hand-written numbers.
Array array(const Sizes& shape, std::vector<double> values) { return Array(shape, std::move(values)); }

TEST(Merge, AllocatesNothing) {
  CaseSpec s;
  s.dtype = rapt::Dtype::f32;
  s.positions = support::PositionKind::last;
  Parts parts(support::make_case(s), 3, rapt::Path::automatic);
  EXPECT_EQ(parts.merge_allocations(), 0U);
}

TEST(Merge, RowsByHand) {
  // Row 0: equal maxima. Row 1: one part sees nothing. Row 2: neither does. Row 3: maxima far apart.
  const double inf = HUGE_VAL;
  const Buffer out_a(array({1, 1, 4, 1}, {1, 5, 0, 7}), rapt::Dtype::f64);
  const Buffer max_a(array({1, 1, 4, 1}, {2, 1, -inf, 1e30}), rapt::Dtype::f64);
  const Buffer sum_a(array({1, 1, 4, 1}, {1, 2, 0, 1.5}), rapt::Dtype::f64);
  const Buffer out_b(array({1, 1, 4, 1}, {4, 0, 0, 3}), rapt::Dtype::f64);
  const Buffer max_b(array({1, 1, 4, 1}, {2, -inf, -inf, -1e30}), rapt::Dtype::f64);
  const Buffer sum_b(array({1, 1, 4, 1}, {2, 0, 0, 3}), rapt::Dtype::f64);
  const rapt::Partial parts[] = {{out_a.view(), max_a.view(), sum_a.view()},
                                 {out_b.view(), max_b.view(), sum_b.view()}};
  Buffer out(rapt::Dtype::f64, {1, 1, 4, 1}), row_max(out), row_sum(out), lse(out);
  rapt::merge(parts, {out.view(), row_max.view(), row_sum.view(), lse.view()});
  EXPECT_EQ(out.values().data, (std::vector<double>{3, 5, 0, 7}));
  EXPECT_EQ(row_max.values().data, (std::vector<double>{2, 1, -inf, 1e30}));
  EXPECT_EQ(row_sum.values().data, (std::vector<double>{3, 2, 0, 1.5}));
  EXPECT_DOUBLE_EQ(lse.values().data[0], 2 + std::log(3.0));
  EXPECT_EQ(lse.values().data[2], -inf);

  const Buffer grad(array({1, 1, 4, 1}, {1, 1, 1, 1}), rapt::Dtype::f64);
  Buffer d_out_a(rapt::Dtype::f64, {1, 1, 4, 1}), d_lse_a(d_out_a), d_out_b(d_out_a), d_lse_b(d_out_a);
  const rapt::PartialGradient gradients[] = {{d_out_a.view(), d_lse_a.view()}, {d_out_b.view(), d_lse_b.view()}};
  rapt::merge_backward(parts, {out.view(), row_max.view(), row_sum.view()}, grad.view(), gradients);
  const auto close = [](const Buffer& got, const std::vector<double>& want) {
    EXPECT_TRUE(support::agree(got.values(), Array({1, 1, 4, 1}, want), 1e-15, 1));
  };
  close(d_out_a, {1.0 / 3, 1, 0, 1});
  close(d_out_b, {2.0 / 3, 0, 0, 0});
  close(d_lse_a, {(1.0 - 3) / 3, 0, 0, 0});
  close(d_lse_b, {2 * (4.0 - 3) / 3, 0, 0, 0});
}

TEST(Merge, MatchesTheOracleAndMayWriteOverAPart) {
  support::Random random(8);
  for (const int count : {1, 2, 3, 7})
    for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32}) {
      const Sizes outs = {2, 3, 70, 17}, rows = {2, 3, 70, 1};
      std::vector<oracle::Forward> parts;
      std::vector<std::unique_ptr<Buffer>> buffers;
      std::vector<rapt::Partial> partials;
      const auto add = [&](const Array& x) {
        buffers.push_back(std::make_unique<Buffer>(x, dtype, support::Layout::gaps));
        return rapt::ConstView(buffers.back()->view());
      };
      for (int n = 0; n < count; ++n) {
        oracle::Forward f;
        f.out = {support::random_array(outs, random, dtype)};
        f.row_max = support::random_array(rows, random, dtype, 5);
        f.row_sum = Array(rows);
        f.lse = Array(rows);
        for (double& e : f.row_sum.data) e = support::round_to(dtype, random.uniform(1, 30));
        parts.push_back(f);
        partials.push_back({add(f.out[0]), add(f.row_max), add(f.row_sum)});
      }
      const oracle::Forward want = oracle::merge(parts);
      Buffer out(dtype, outs), row_max(dtype, rows), row_sum(dtype, rows), lse(dtype, rows);
      rapt::merge(partials, {out.view(), row_max.view(), row_sum.view(), lse.view()}, 3);
      const double tolerance = dtype == rapt::Dtype::f64 ? 1e-14 : 2e-6;
      EXPECT_EQ(out.damage() + row_max.damage() + row_sum.damage() + lse.damage(), "");
      EXPECT_TRUE(support::agree(out.values(), want.out[0], tolerance));
      EXPECT_TRUE(support::agree(row_sum.values(), want.row_sum, tolerance));
      EXPECT_TRUE(support::agree(lse.values(), want.lse, tolerance));
      EXPECT_EQ(row_max.values().data, want.row_max.data);
      // Into the first part; only what is asked for.
      rapt::merge(partials, {buffers[0]->view(), {}, {}, {}});
      EXPECT_EQ(buffers[0]->values().data, out.values().data);
    }
}

}  // namespace
