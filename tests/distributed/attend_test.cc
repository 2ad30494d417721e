// One call over several processes: the oracle's numbers, and the same bits for any number of processes.

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>

#include "distributed/thread_communicator.h"
#include "rapt/distributed.h"
#include "rapt/error.h"
#include "support/checks.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using oracle::Sizes;
using rapt::Distribution;
using support::Buffer;
using support::Case;
using support::CaseSpec;
using support::Int;

// The rows that a process has: of an array along the third dimension.
std::vector<Int> rows_of(Int length, int rank, int size) {
  const rapt::Share share = rapt::share_of(length, rank, size);
  std::vector<Int> rows;
  for (Int i = share.early_begin; i < share.early_end; ++i) rows.push_back(i);
  for (Int i = share.late_begin; i < share.late_end; ++i) rows.push_back(i);
  return rows;
}

Array cut(const Array& whole, const std::vector<Int>& rows) {
  Sizes shape = whole.shape;
  shape[2] = static_cast<Int>(rows.size());
  Array part(shape);
  for (Int b = 0; b < shape[0]; ++b)
    for (Int h = 0; h < shape[1]; ++h)
      for (Int i = 0; i < shape[2]; ++i)
        for (Int d = 0; d < shape[3]; ++d) part.at(b, h, i, d) = whole.at(b, h, rows[static_cast<std::size_t>(i)], d);
  return part;
}

void put(Array& whole, const Array& part, const std::vector<Int>& rows) {
  for (Int b = 0; b < part.shape[0]; ++b)
    for (Int h = 0; h < part.shape[1]; ++h)
      for (Int i = 0; i < part.shape[2]; ++i)
        for (Int d = 0; d < part.shape[3]; ++d)
          whole.at(b, h, rows[static_cast<std::size_t>(i)], d) = part.at(b, h, i, d);
}

struct Result {
  support::ForwardResult forward;
  support::BackwardResult backward;
  std::string explanation;

  // Every number, as bits.
  std::vector<std::uint64_t> bits() const {
    std::vector<std::uint64_t> all;
    const auto add = [&](const Array& array) {
      for (const double x : array.data) all.push_back(std::bit_cast<std::uint64_t>(x));
    };
    for (const Array& out : forward.out) add(out);
    add(forward.lse);
    const oracle::Gradients& g = backward.gradients;
    add(g.q);
    add(g.k);
    for (const Array& v : g.v) add(v);
    add(g.bias);
    for (const auto& [name, value] : g.parameters) add(value);
    return all;
  }
};

struct Wants {
  Distribution distribution = Distribution::automatic;
  bool saved = true;
  int threads = 1;
};

class Processes {
 public:
  Processes(const Case& c, int size, const Wants& wants) : case_(c), whole_(c), size_(size), wants_(wants) {}

  Result run() {
    const oracle::Problem& p = case_.problem;
    result_.forward.out.clear();
    for (const Array& v : p.v) result_.forward.out.emplace_back(Sizes{p.batch(), p.heads(), p.queries(), v.shape[3]});
    result_.forward.lse = Array({p.batch(), p.heads(), p.queries(), 1});
    oracle::Gradients& g = result_.backward.gradients;
    g.q = Array(p.q.shape);
    g.k = Array(p.k.shape);
    for (const Array& v : p.v) g.v.emplace_back(v.shape);
    if (!p.bias.empty()) g.bias = Array(p.bias.shape);
    errors_ = support::run_processes(size_, [&](rapt::Communicator& communicator) { one(communicator); });
    return result_;
  }

  const std::vector<std::string>& errors() const { return errors_; }

 private:
  void one(rapt::Communicator& communicator) {
    const oracle::Problem& p = case_.problem;
    const rapt::Dtype dtype = case_.spec.dtype, compute = support::compute_type(dtype);
    const auto queries = rows_of(p.queries(), communicator.rank(), size_);
    const auto keys = rows_of(p.keys(), communicator.rank(), size_);
    const auto own = static_cast<Int>(queries.size());
    Buffer q(cut(p.q, queries), dtype), k(cut(p.k, keys), dtype);
    rapt::Inputs inputs{q.view(), k.view(), {}};
    std::vector<Buffer> v, out, grad;
    for (const Array& set : p.v) v.emplace_back(cut(set, keys), dtype);
    for (const Array& set : p.v) out.emplace_back(dtype, Sizes{p.batch(), p.heads(), own, set.shape[3]});
    for (const Array& set : case_.grad_out) grad.emplace_back(cut(set, queries), dtype);
    for (const Buffer& set : v) inputs.v.push_back(set.view());
    rapt::AttendOptions options = whole_.options;
    options.threads = wants_.threads;
    Buffer bias;
    const bool row_bias = !p.bias.empty() && p.bias.shape[2] > 1;
    if (row_bias) {
      bias = Buffer(cut(p.bias, queries), dtype);
      options.bias = std::as_const(bias).view();
    }
    std::vector<std::uint8_t> dense;
    if (!p.mask.dense.empty() && p.mask.dense.shape[2] > 1) {
      const Array part = cut(p.mask.dense, queries);
      for (const double x : part.data) dense.push_back(x != 0);
      dense.push_back(0);
      options.mask.dense = {dense.data(), part.shape, rapt::contiguous_strides(part.shape), {}};
    }
    Buffer grad_lse;
    rapt::ConstView grad_lse_view;
    if (!case_.grad_lse.empty()) {
      grad_lse = Buffer(cut(case_.grad_lse, queries), dtype);
      grad_lse_view = std::as_const(grad_lse).view();
    }
    rapt::Saved saved;
    rapt::Outputs outputs;
    for (Buffer& set : out) outputs.out.push_back(set.view());
    Buffer lse(compute, {p.batch(), p.heads(), own, 1});
    outputs.lse = lse.view();
    outputs.saved = &saved;
    std::string explanation;
    const rapt::DistributedOptions how{wants_.distribution, &explanation};
    rapt::attend(inputs, outputs, options, communicator, how);

    Buffer dq(dtype, {p.q.shape[0], p.q.shape[1], own, p.q.shape[3]});
    Buffer dk(dtype, {p.k.shape[0], p.k.shape[1], static_cast<Int>(keys.size()), p.k.shape[3]});
    std::vector<Buffer> dv;
    for (const Array& set : p.v)
      dv.emplace_back(dtype, Sizes{set.shape[0], set.shape[1], static_cast<Int>(keys.size()), set.shape[3]});
    rapt::Gradients gradients;
    gradients.q = dq.view();
    gradients.k = dk.view();
    for (Buffer& set : dv) gradients.v.push_back(set.view());
    Buffer dbias;
    if (options.bias) {
      dbias = Buffer(dtype, row_bias ? Sizes{p.bias.shape[0], p.bias.shape[1], own, p.bias.shape[3]} : p.bias.shape);
      gradients.bias = dbias.view();
    }
    std::map<std::string, Buffer> parameters;
    for (const auto* list : {&options.score.parameters, &options.normalizer_parameters})
      for (const rapt::NamedView& given : *list) parameters[given.name] = Buffer(dtype, given.value.shape);
    for (auto& [name, buffer] : parameters) gradients.parameters.push_back({name, buffer.view()});
    std::vector<rapt::ConstView> out_views, grad_views;
    for (const Buffer& set : out) out_views.push_back(set.view());
    for (const Buffer& set : grad) grad_views.push_back(set.view());
    rapt::attend_backward(inputs, out_views, grad_views, wants_.saved ? &saved : nullptr, gradients, options,
                          communicator, {wants_.distribution, nullptr}, grad_lse_view);

    const std::lock_guard lock(mutex_);
    result_.explanation = explanation;
    std::string& damage = result_.backward.damage;
    const auto take = [&](Array& to, const Buffer& from, const std::vector<Int>& rows) {
      if (own > 0 && damage.empty()) damage = from.damage();
      put(to, from.values(), rows);
    };
    for (std::size_t s = 0; s < out.size(); ++s) take(result_.forward.out[s], out[s], queries);
    take(result_.forward.lse, lse, queries);
    oracle::Gradients& g = result_.backward.gradients;
    take(g.q, dq, queries);
    take(g.k, dk, keys);
    for (std::size_t s = 0; s < dv.size(); ++s) take(g.v[s], dv[s], keys);
    if (row_bias) take(g.bias, dbias, queries);
    else if (options.bias) same(g.bias, dbias.values(), first_);
    for (auto& [name, buffer] : parameters) {
      Array value = buffer.values();
      for (const auto* list : {&p.parameters, &p.normalizer_parameters})
        if (const auto found = list->find(name); found != list->end()) value.shape = found->second.shape;
      same(g.parameters[name], value, first_);
    }
    first_ = false;
  }

  // What everybody gets must be the same for all.
  static void same(Array& to, const Array& got, bool first) {
    if (!first) {
      EXPECT_EQ(to.data, got.data);
    }
    to = got;
  }

  Case case_;
  support::Call whole_;
  int size_;
  Wants wants_;
  std::mutex mutex_;
  bool first_ = true;
  Result result_;
  std::vector<std::string> errors_;
};

Result run(const Case& c, int size, const Wants& wants = {}) {
  Processes processes(c, size, wants);
  Result result = processes.run();
  for (const std::string& error : processes.errors()) EXPECT_EQ(error, "");
  EXPECT_EQ(result.backward.damage, "");
  return result;
}

void check(const CaseSpec& spec, std::initializer_list<int> sizes = {1, 2, 3, 4, 8}) {
  SCOPED_TRACE(describe(spec));
  const Case c = make_case(spec);
  const support::Expected expected(c, true);
  const bool softmax =
      spec.normalizer == support::NormalizerKind::softmax || spec.normalizer == support::NormalizerKind::softmax_sink;
  std::vector<std::uint64_t> first;
  for (const int size : sizes) {
    SCOPED_TRACE(testing::Message() << size << " processes");
    const Result result = run(c, size, {softmax ? Distribution::ring : Distribution::automatic});
    if (testing::Test::HasFailure()) return;
    if (first.empty()) {
      EXPECT_TRUE(expected.matches(result.forward));
      EXPECT_TRUE(expected.matches(result.backward));
      first = result.bits();
    } else {
      EXPECT_TRUE(result.bits() == first);
    }
  }
}

CaseSpec long_spec() {
  CaseSpec s;
  s.dtype = rapt::Dtype::f32;
  s.batch = 2;
  s.heads = 4;
  s.key_heads = 2;
  s.queries = 151;
  s.keys = 151;
  s.key_dim = 12;
  s.value_dims = {9};
  return s;
}

class DistributedMechanisms : public testing::TestWithParam<std::string> {};

TEST_P(DistributedMechanisms, AnyNumberOfProcesses) {
  for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64}) {
    CaseSpec s = long_spec();
    s.mechanism = GetParam();
    s.dtype = dtype;
    s.mask = support::MaskKind::top_left;
    check(s);
  }
}

TEST_P(DistributedMechanisms, UnequalLengths) {
  CaseSpec s = long_spec();
  s.mechanism = GetParam();
  s.queries = 67;
  s.positions = support::PositionKind::last;
  check(s, {1, 3, 4});
}

INSTANTIATE_TEST_SUITE_P(All, DistributedMechanisms, testing::ValuesIn(support::registered_names()),
                         [](const auto& test) { return test.param; });

TEST(Distributed, EveryMask) {
  for (const char* mechanism : {"scaled_dot", "alibi"})
    for (const support::MaskKind mask : support::all_masks()) {
      CaseSpec s = long_spec();
      s.mechanism = mechanism;
      s.mask = mask;
      check(s, {1, 2, 4, 8});
    }
}

TEST(Distributed, EveryBias) {
  for (const support::BiasKind bias : support::all_biases()) {
    CaseSpec s = long_spec();
    s.bias = bias;
    s.mask = support::MaskKind::bottom_right;
    check(s, {1, 3, 4});
    // One query: most processes have no row of it, and hear of its bias all the same.
    s.queries = 1;
    check(s, {1, 2, 3});
  }
}

TEST(Distributed, SinkSoftcapRotaryAndSeveralValues) {
  CaseSpec s = long_spec();
  s.normalizer = support::NormalizerKind::softmax_sink;
  s.softcap = 3;
  s.rotary = support::RotaryKind::halves;
  s.value_dims = {5, 17};
  s.mask = support::MaskKind::window;
  check(s);
  s.dtype = rapt::Dtype::f64;
  s.grad_lse = true;
  check(s, {1, 2, 3});
}

TEST(Distributed, PositionsOfEachBatch) {
  for (const support::PositionKind positions : {support::PositionKind::one, support::PositionKind::per_batch}) {
    CaseSpec s = long_spec();
    s.mechanism = "alibi";
    s.positions = positions;
    s.mask = support::MaskKind::top_left;
    check(s, {1, 3});
  }
}

TEST(Distributed, ShortStorageTypes) {
  for (const rapt::Dtype dtype : {rapt::Dtype::bf16, rapt::Dtype::f16}) {
    CaseSpec s = long_spec();
    s.dtype = dtype;
    s.mask = support::MaskKind::top_left;
    check(s, {1, 2, 4});
  }
}

// What keys and values have in common is large in dO·v and in δ, and not in their difference: δ must not be of rounded outputs.
TEST(Distributed, RoundedOutputsSpoilNoGradient) {
  const auto size_of_all = [](const std::vector<double>& list) {
    double sum = 0;
    for (const double x : list) sum += x * x;
    return std::sqrt(sum);
  };
  for (const auto& [dtype, bound] : {std::pair{rapt::Dtype::bf16, 1.2e-2}, {rapt::Dtype::f16, 1.5e-3}}) {
    CaseSpec s = long_spec();
    s.dtype = dtype;
    s.mask = support::MaskKind::top_left;
    Case c = make_case(s);
    for (Array* array : {&c.problem.k, c.problem.v.data()}) {
      for (double& x : array->data) x += 2;
      *array = Buffer(*array, dtype).values();
    }
    Case exact = c;
    exact.spec.dtype = rapt::Dtype::f64;
    const std::vector<double> right = run(exact, 1).backward.gradients.q.data;
    const auto first = run(c, 1, {Distribution::ring}).bits();
    for (const Distribution way : {Distribution::ring, Distribution::heads})
      for (const bool saved : {true, false}) {
        const Result got = run(c, 3, {way, saved});
        EXPECT_TRUE(got.bits() == first);
        std::vector<double> wrong = got.backward.gradients.q.data;
        for (std::size_t n = 0; n < wrong.size(); ++n) wrong[n] -= right[n];
        EXPECT_LT(size_of_all(wrong), bound * size_of_all(right));
      }
  }
}

TEST(Distributed, OddSizes) {
  for (const Int size : {Int{1}, Int{3}, Int{16}, Int{17}, Int{33}, Int{257}, Int{1000}}) {
    CaseSpec s = long_spec();
    s.batch = 1;
    s.heads = s.key_heads = 1;
    s.queries = s.keys = size;
    s.mask = support::MaskKind::top_left;
    check(s, {1, 2, 3, 8});
  }
}

TEST(Distributed, NothingToDo) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{0, 40}, {40, 0}, {0, 0}}) {
    CaseSpec s = long_spec();
    s.queries = queries;
    s.keys = keys;
    const Case c = make_case(s);
    for (const int size : {1, 2, 3}) {
      const Result result = run(c, size);
      for (const double x : result.forward.out[0].data) EXPECT_EQ(x, 0);
      for (const double x : result.backward.gradients.k.data) EXPECT_EQ(x, 0);
    }
  }
}

TEST(Distributed, HeadsGiveTheBitsOfTheRing) {
  for (const char* mechanism : {"scaled_dot", "alibi", "t5", "transformer_xl", "bilinear"})
    for (const support::MaskKind mask : {support::MaskKind::none, support::MaskKind::top_left,
                                         support::MaskKind::packed_bottom_right, support::MaskKind::key_lengths}) {
      CaseSpec s = long_spec();
      s.mechanism = mechanism;
      s.mask = mask;
      s.per_head = mask != support::MaskKind::none;
      s.normalizer = support::NormalizerKind::softmax_sink;
      SCOPED_TRACE(describe(s));
      const Case c = make_case(s);
      const auto ring = run(c, 3, {Distribution::ring}).bits();
      for (const int size : {1, 2, 3, 4}) EXPECT_TRUE(run(c, size, {Distribution::heads}).bits() == ring) << size;
    }
}

TEST(Distributed, OtherNormalizersCutHeads) {
  for (const support::NormalizerKind normalizer : support::all_normalizers()) {
    CaseSpec s = long_spec();
    s.normalizer = normalizer;
    s.mask = support::MaskKind::bottom_right;
    check(s, {1, 2, 3, 4});
  }
}

TEST(Distributed, WithoutSavedRows) {
  CaseSpec s = long_spec();
  s.mask = support::MaskKind::top_left;
  const Case c = make_case(s);
  EXPECT_TRUE(run(c, 3, {.distribution = Distribution::ring, .saved = false}).bits() ==
              run(c, 2, {.distribution = Distribution::ring}).bits());
}

TEST(Distributed, ThreadsChangeNoBit) {
  CaseSpec s = long_spec();
  s.mask = support::MaskKind::top_left;
  const Case c = make_case(s);
  const auto one = run(c, 2, {.distribution = Distribution::ring}).bits();
  for (const int threads : {2, 3, 5, 40})
    EXPECT_TRUE(run(c, 2, {.distribution = Distribution::ring, .threads = threads}).bits() == one) << threads;
}

// Cells of one head on several threads: sums of a piece of keys are added in turn, whoever is done first.
TEST(Distributed, ThreadsOfOneHeadChangeNoBit) {
  CaseSpec s = long_spec();
  s.mechanism = "alibi";
  s.batch = 1;
  s.heads = s.key_heads = 1;
  s.queries = s.keys = 1000;
  s.mask = support::MaskKind::top_left;
  s.normalizer = support::NormalizerKind::softmax_sink;
  const Case c = make_case(s);
  const auto one = run(c, 1, {.distribution = Distribution::ring}).bits();
  for (const int threads : {2, 3, 7})
    for (const int size : {1, 3})
      EXPECT_TRUE(run(c, size, {.distribution = Distribution::ring, .threads = threads}).bits() == one)
          << size << " processes of " << threads;
}

// A cut by the length alone: shares are everything once, and early and late pieces balance.
TEST(Distributed, SharesAreEverythingOnce) {
  for (const Int length : {0, 1, 15, 16, 17, 151, 1000, 4096, 32768, 100001})
    for (const int size : {1, 2, 3, 4, 7, 8, 64}) {
      std::vector<int> seen(static_cast<std::size_t>(length));
      for (int rank = 0; rank < size; ++rank)
        for (const Int row : rows_of(length, rank, size)) ++seen[static_cast<std::size_t>(row)];
      for (const int times : seen) ASSERT_EQ(times, 1) << length << " rows, " << size << " processes";
    }
}

void refuses(const Case& c, int size, const std::string& sentence, const Wants& wants = {}) {
  Processes processes(c, size, wants);
  processes.run();
  for (const std::string& error : processes.errors()) EXPECT_NE(error.find(sentence), std::string::npos) << error;
}

TEST(Distributed, RefusesInEveryProcess) {
  CaseSpec s = long_spec();
  s.normalizer = support::NormalizerKind::sparsemax;
  refuses(make_case(s), 8,
          "attend: normalizer: expected softmax, or at least as many independent heads as processes, got sparsemax of "
          "4 independent heads for 8 processes");
  refuses(make_case(s), 2, "attend: normalizer: expected softmax, whose parts of the keys can be merged",
          {Distribution::ring});
  s.bias = support::BiasKind::full;
  refuses(make_case(s), 2, "attend: normalizer: expected softmax, or neither bias nor dense mask");
  s = long_spec();
  s.bias = support::BiasKind::full;
  refuses(make_case(s), 2, "distribution heads: expected neither bias", {Distribution::heads});
}

// One process alone has the mistake; everybody hears of it.
TEST(Distributed, OneBadProcessStopsAll) {
  const auto errors = support::run_processes(3, [](rapt::Communicator& communicator) {
    const rapt::Share share = rapt::share_of(100, communicator.rank(), 3);
    std::vector<float> numbers(1000, 1.0F), out(1000);
    const rapt::ConstView in = rapt::view(std::as_const(numbers).data(), {share.rows(), 4});
    rapt::Outputs outputs;
    outputs.out = {rapt::view(out.data(), {share.rows() + (communicator.rank() == 1 ? 1 : 0), 4})};
    rapt::attend(rapt::Inputs{in, in, {in}}, outputs, {}, communicator);
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("out[0]: expected shape"), std::string::npos) << error;
  EXPECT_EQ(errors[0].find("process 1: "), 0U);
  const auto others = support::run_processes(2, [](rapt::Communicator& communicator) {
    const rapt::Share share = rapt::share_of(100, communicator.rank(), 2);
    std::vector<float> numbers(1000, 1.0F), out(1000);
    const rapt::ConstView in = rapt::view(std::as_const(numbers).data(), {share.rows(), 4});
    rapt::Outputs outputs;
    outputs.out = {rapt::view(out.data(), {share.rows(), 4})};
    rapt::AttendOptions options;
    options.softcap = communicator.rank();
    rapt::attend(rapt::Inputs{in, in, {in}}, outputs, options, communicator);
  });
  for (const std::string& error : others)
    EXPECT_NE(error.find("expected the same options and sizes in every process"), std::string::npos) << error;
  const auto rows = support::run_processes(2, [](rapt::Communicator& communicator) {
    std::vector<float> numbers(1000, 1.0F), out(1000);
    const rapt::ConstView in = rapt::view(std::as_const(numbers).data(), {communicator.rank() == 0 ? 40 : 60, 4});
    rapt::Outputs outputs;
    outputs.out = {rapt::view(out.data(), {communicator.rank() == 0 ? 40 : 60, 4})};
    rapt::attend(rapt::Inputs{in, in, {in}}, outputs, {}, communicator);
  });
  for (const std::string& error : rows)
    EXPECT_NE(error.find("rows, the share of this process of 100"), std::string::npos) << error;
}

TEST(Distributed, ExplainsItsChoice) {
  CaseSpec s = long_spec();
  const Case c = make_case(s);
  const std::string ring = run(c, 3, {Distribution::ring}).explanation;
  EXPECT_EQ(ring.find("ring over 3 processes, as asked for"), 0U) << ring;
  EXPECT_NE(ring.find("heads: "), std::string::npos);
  EXPECT_NE(ring.find("GB/s between processes"), std::string::npos);
  EXPECT_EQ(run(c, 1).explanation.find("ring over 1 process\n"), 0U);
}

}  // namespace
