// Decoding step by step with kept keys is the whole causal pass, row by row and bit for bit.

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/x86/bf16.h"
#include "rapt/custom.h"
#include "support/checks.h"
#include "support/part_of.h"
#include "support/storage.h"

namespace {

using oracle::Sizes;
using support::Buffer;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;

template <class V>
V rows_of(const V& view, Int first, Int count) {
  return support::part_of(view, 2, first, count);
}

rapt::ConstView columns_of(rapt::ConstView view, Int count) {
  view.shape[3] = count;
  return view;
}

// What a step gets: the keys so far, or the whole cache and how much of it is filled.
enum class Cache { grows, has_lengths };

struct Whole {
  Buffer out, lse;
};

void run(const Call& call, const rapt::Inputs& inputs, const rapt::AttendOptions& options, Buffer& out, Buffer& lse) {
  rapt::Outputs outputs;
  outputs.out = {out.view()};
  outputs.lse = lse.view();
  rapt::attend(inputs, outputs, options);
  ASSERT_EQ(out.damage() + lse.damage(), "") << describe(call.described().spec);
}

// Bits of row i of every batch and head.
std::vector<std::byte> row_bits(const Buffer& buffer, Int i) {
  const rapt::ConstView view = buffer.view();
  const Int element = static_cast<Int>(rapt::size_of(view.dtype));
  std::vector<std::byte> bits;
  for (Int b = 0; b < view.shape[0]; ++b)
    for (Int h = 0; h < view.shape[1]; ++h) {
      const auto* at = static_cast<const std::byte*>(view.data) +
                       (b * view.strides[0] + h * view.strides[1] + i * view.strides[2]) * element;
      bits.insert(bits.end(), at, at + view.shape[3] * element);
    }
  return bits;
}

std::vector<Int> some_steps(Int length) {
  std::vector<Int> steps;
  for (Int t = 0; t < length; t += t < 20 ? 1 : (t < 200 ? 13 : 311)) steps.push_back(t);
  for (Int edge : {16, 32, 64, 128, 256, 512, 1024, 2048, 4096})
    for (Int t : {edge - 1, edge})
      if (t < length) steps.push_back(t);
  steps.push_back(length - 1);
  return steps;
}

// Every step of `call`, self-attention under a causal mask.
void check_steps(Call& call, Cache cache) {
  const oracle::Problem& p = call.described().problem;
  const Int B = p.batch(), H = p.heads(), S = p.queries(), Dv = p.v[0].shape[3];
  const rapt::Dtype dtype = call.described().spec.dtype, compute = support::compute_type(dtype);
  Buffer out(dtype, {B, H, S, Dv}), lse(compute, {B, H, S, 1});
  run(call, call.inputs, call.options, out, lse);
  for (const Int t : some_steps(S)) {
    const Int keys = cache == Cache::grows ? t + 1 : S;
    rapt::Inputs inputs;
    inputs.q = rows_of(call.inputs.q, t, 1);
    inputs.k = rows_of(call.inputs.k, 0, keys);
    inputs.v = {rows_of(call.inputs.v[0], 0, keys)};
    rapt::AttendOptions options = call.options;
    options.first_query = {t};
    if (options.bias) options.bias = columns_of(rows_of(options.bias, t, 1), keys);
    if (cache == Cache::has_lengths) options.mask.key_lengths = {t + 1};
    Buffer step(dtype, {B, H, 1, Dv}), step_lse(compute, {B, H, 1, 1});
    run(call, inputs, options, step, step_lse);
    ASSERT_TRUE(row_bits(step, 0) == row_bits(out, t)) << "out of step " << t << " of " << S;
    ASSERT_TRUE(row_bits(step_lse, 0) == row_bits(lse, t)) << "lse of step " << t << " of " << S;
  }
}

void check_decoding(const CaseSpec& spec) {
  SCOPED_TRACE(describe(spec));
  const Case c = make_case(spec);
  for (const rapt::Isa isa : rapt::available_isas())
    for (const int threads : {1, 3}) {
      // Pair products round the weights of a whole pass; a single query is computed in f32.
      if (spec.dtype == rapt::Dtype::bf16 && rapt::active_bf16(isa)) continue;
      const support::IsaScope scope(isa);
      SCOPED_TRACE(testing::Message() << rapt::name_of(isa) << ", " << threads << " threads");
      Call call(c);
      call.options.threads = threads;
      // A grid's keys are all there from the start.
      if (!c.mechanism->grid()) check_steps(call, Cache::grows);
      check_steps(call, Cache::has_lengths);
    }
}

class Decoding : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  static CaseSpec spec(Int length) {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.queries = s.keys = length;
    s.key_dim = 16;
    s.value_dims = {16};
    s.mask = support::MaskKind::top_left;
    return s;
  }
};

TEST_P(Decoding, EqualsTheWholePass) { check_decoding(spec(300)); }

TEST_P(Decoding, WithTheOtherSettings) {
  CaseSpec s = spec(150);
  s.settings = support::Settings::low;
  check_decoding(s);
}

TEST_P(Decoding, WithBiasSoftcapGroupsAndRotary) {
  CaseSpec s = spec(140);
  s.batch = 2;
  s.heads = 4;
  s.key_heads = 2;
  s.softcap = 4;
  s.bias = support::BiasKind::per_head;
  s.rotary = support::RotaryKind::halves;
  check_decoding(s);
}

TEST_P(Decoding, WithAWindow) {
  const CaseSpec s = spec(200);
  if (s.dtype == rapt::Dtype::bf16 && rapt::active_bf16(rapt::active_isa())) return;  // as check_decoding()
  for (const Int left : {0, 10, 70}) {
    Case c = make_case(s);
    c.problem.mask.window = oracle::Window{left, 0};
    SCOPED_TRACE(left);
    Call call(c);
    if (!c.mechanism->grid()) check_steps(call, Cache::grows);
    check_steps(call, Cache::has_lengths);
  }
}

TEST_P(Decoding, OddDims) {
  CaseSpec s = spec(90);
  s.key_dim = 7;
  s.value_dims = {5};
  s.heads = 3;
  s.rotary = support::RotaryKind::interleaved;
  check_decoding(s);
}

INSTANTIATE_TEST_SUITE_P(Registry, Decoding,
                         testing::Combine(testing::ValuesIn(support::registered_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16)),
                         support::mechanism_and_type);

class DecodingNormalizers : public testing::TestWithParam<support::NormalizerKind> {};

TEST_P(DecodingNormalizers, EqualTheWholePass) {
  for (const char* mechanism : {"scaled_dot", "alibi", "additive"})
    for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32}) {
      CaseSpec s;
      s.mechanism = mechanism;
      s.dtype = dtype;
      s.normalizer = GetParam();
      s.queries = s.keys = 300;
      s.key_dim = 16;
      s.mask = support::MaskKind::top_left;
      SCOPED_TRACE(describe(s));
      Call call(make_case(s));
      // The default b of sigmoid is −log Sk, which differs from step to step.
      if (GetParam() != support::NormalizerKind::sigmoid) check_steps(call, Cache::grows);
      check_steps(call, Cache::has_lengths);
    }
}

INSTANTIATE_TEST_SUITE_P(All, DecodingNormalizers, testing::ValuesIn(support::all_normalizers()),
                         support::normalizer_name);

class DecodingSlow : public testing::TestWithParam<std::string> {};

TEST_P(DecodingSlow, FiveThousandKeys) {
  CaseSpec s;
  s.mechanism = GetParam();
  s.dtype = rapt::Dtype::f32;
  s.heads = 1;
  s.queries = s.keys = 5000;
  s.key_dim = 8;
  s.value_dims = {8};
  s.mask = support::MaskKind::top_left;
  Call call(make_case(s));
  if (!call.described().mechanism->grid()) check_steps(call, Cache::grows);
  check_steps(call, Cache::has_lengths);
}

INSTANTIATE_TEST_SUITE_P(Registry, DecodingSlow, testing::ValuesIn(support::registered_names()),
                         support::mechanism_name);

// A formula of the caller's own that reads positions, and a table of its own.
struct Recent {
  static constexpr std::string_view formula = "q·k/√Dk − slope·√(i−j) + i/100 + number[i−j]";
  static constexpr bool scaled = true;
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "slope"},
      rapt::ParameterSpec{.name = "number", .role = rapt::Role::relative_value, .sizes = {rapt::kAny}},
  };
  std::int64_t index(std::int64_t offset, const rapt::TableShape& table) const {
    return std::min<std::int64_t>(offset < 0 ? -offset : offset, table.rows - 1);
  }
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    using rapt::abs;
    using rapt::sqrt;
    return raw * at.scale - p[0] * sqrt(abs(N(at.offset()))) + N(at.i) * 0.01f + p[1];
  }
};

TEST(DecodingCustom, AFormulaOfTheCallersOwn) {
  for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32}) {
    CaseSpec s;
    s.dtype = dtype;
    s.queries = s.keys = 300;
    s.mask = support::MaskKind::top_left;
    Call call(make_case(s));
    support::Random random(5);
    const Buffer slope(oracle::Array({1, 1, 1, 1}, {0.25}), dtype);
    const Buffer number(support::random_array({1, 1, 1, 9}, random, dtype), dtype);
    call.options.score = rapt::custom(Recent{});
    call.options.score.parameters = {{"slope", slope.view()}, {"number", number.view()}};
    check_steps(call, Cache::grows);
    check_steps(call, Cache::has_lengths);
  }
}

// Several queries at a time, as when a prompt is processed in pieces.
TEST(DecodingPieces, OfAnyLengthEqualTheWholePass) {
  for (const std::string& mechanism : support::registered_names())
    for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32}) {
      CaseSpec s;
      s.mechanism = mechanism;
      s.dtype = dtype;
      s.queries = s.keys = 200;
      s.key_dim = 16;
      s.value_dims = {16};
      s.mask = support::MaskKind::top_left;
      SCOPED_TRACE(describe(s));
      const Case c = make_case(s);
      Call call(c);
      const Int S = c.spec.queries;
      Buffer out(dtype, {1, 2, S, 16}), lse(support::compute_type(dtype), {1, 2, S, 1});
      run(call, call.inputs, call.options, out, lse);
      for (const Int piece : {2, 5, 16, 33, 100})
        for (Int first = 0; first + piece <= S; first += piece) {
          rapt::Inputs inputs = call.inputs;
          inputs.q = rows_of(call.inputs.q, first, piece);
          rapt::AttendOptions options = call.options;
          options.first_query = {first};
          options.mask.key_lengths = {first + piece};
          Buffer part(dtype, {1, 2, piece, 16}), part_lse(support::compute_type(dtype), {1, 2, piece, 1});
          run(call, inputs, options, part, part_lse);
          for (Int i = 0; i < piece; ++i) {
            ASSERT_TRUE(row_bits(part, i) == row_bits(out, first + i)) << piece << " queries from " << first;
            ASSERT_TRUE(row_bits(part_lse, i) == row_bits(lse, first + i)) << piece << " queries from " << first;
          }
        }
    }
}

}  // namespace
