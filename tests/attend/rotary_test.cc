// Rotary embeddings: against the oracle with every mechanism, by hand, and by what must not depend on them.

#include <gtest/gtest.h>

#include <cmath>

#include "oracle/formulas.h"
#include "support/checks.h"

namespace {

using oracle::Array;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;
using support::RotaryKind;

class RotaryOption : public testing::TestWithParam<support::MechanismAndType> {};

TEST_P(RotaryOption, MatchesTheOracle) {
  for (RotaryKind rotary : {RotaryKind::halves, RotaryKind::interleaved})
    for (const auto& [positions, mask] : {std::pair{support::PositionKind::none, support::MaskKind::none},
                                          {support::PositionKind::none, support::MaskKind::everything},
                                          {support::PositionKind::none, support::MaskKind::packed_top_left},
                                          {support::PositionKind::per_batch, support::MaskKind::top_left}}) {
      CaseSpec s;
      s.mechanism = std::get<0>(GetParam());
      s.dtype = std::get<1>(GetParam());
      s.batch = 2;
      s.heads = 4;
      s.key_heads = 2;
      s.queries = 17;
      s.keys = 33;
      s.key_dim = 13;
      s.query_dim = 10;
      s.rotary = rotary;
      s.positions = positions;
      s.mask = mask;
      support::check_forward(s);
      support::check_backward(s);
    }
}

TEST_P(RotaryOption, EveryHeadDim) {
  for (const Int dim : {2, 3, 4, 7, 16, 33, 64, 126}) {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.heads = 1;
    s.queries = 9;
    s.keys = 40;
    s.key_dim = dim;
    s.rotary = dim % 2 == 0 ? RotaryKind::halves : RotaryKind::interleaved;
    support::check_forward(s);
    support::check_backward(s);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RotaryOption,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::ValuesIn(support::all_dtypes())),
                         support::mechanism_and_type);

TEST(Rotary, ScoresByHand) {
  // One pair of numbers, frequency 1: the score is the cosine of the distance between the positions.
  oracle::Problem p;
  p.mechanism = "dot";
  p.q = Array({1, 1, 1, 2}, {1, 0});
  p.k = Array({1, 1, 3, 2}, {1, 0, 1, 0, 0, 1});
  p.v = {Array({1, 1, 3, 1}, {1, 2, 3})};
  p.rotary.dims = 2;
  p.first_query = {2};
  for (const bool interleaved : {false, true})
    for (rapt::Path path : support::kPaths) {
      p.rotary.interleaved = interleaved;
      Call call(support::make_case(p, rapt::Dtype::f64));
      call.options.path = path;
      support::ForwardWants wants;
      wants.weights = true;
      const support::ForwardResult r = call.forward(wants);
      EXPECT_NEAR(std::log(r.weights.data[0]) + r.lse.data[0], std::cos(2.0), 1e-14);
      EXPECT_NEAR(std::log(r.weights.data[1]) + r.lse.data[0], std::cos(1.0), 1e-14);
      EXPECT_NEAR(std::log(r.weights.data[2]) + r.lse.data[0], 0, 1e-14);  // a quarter turn apart
    }
}

// Both directions of pairing are one rotation of numbers in another order.
TEST(Rotary, InterleavedIsHalvesInAnotherOrder) {
  CaseSpec s;
  s.key_dim = 12;
  s.rotary = RotaryKind::halves;
  const Case halves = make_case(s);
  Case interleaved = halves;
  interleaved.problem.rotary.interleaved = true;
  const auto reorder = [](const Array& x) {
    Array y(x.shape);
    for (std::size_t n = 0; n < x.data.size(); ++n) {
      const std::size_t row = n / 12 * 12, d = n % 12;
      y.data[row + (d < 6 ? 2 * d : 2 * (d - 6) + 1)] = x.data[n];
    }
    return y;
  };
  interleaved.problem.q = reorder(halves.problem.q);
  interleaved.problem.k = reorder(halves.problem.k);
  EXPECT_TRUE(support::agree(Call(halves).forward().out[0], Call(interleaved).forward().out[0], 1e-13));
}

// Scores depend on distances alone, far from the origin too: angles are not taken in float.
TEST(Rotary, FarPositionsKeepTheirDistances) {
  for (rapt::Dtype dtype : {rapt::Dtype::f64, rapt::Dtype::f32}) {
    CaseSpec s;
    s.dtype = dtype;
    s.queries = 20;
    s.keys = 30;
    s.key_dim = 16;
    s.rotary = RotaryKind::halves;
    s.positions = support::PositionKind::one;
    const Case near = make_case(s);
    Case far = near;
    far.problem.first_query[0] += 1000000;
    far.problem.first_key = 1000000;
    const double tolerance = dtype == rapt::Dtype::f64 ? 1e-8 : 3e-6;
    EXPECT_TRUE(support::agree(Call(near).forward().out[0], Call(far).forward().out[0], tolerance));
    if (dtype == rapt::Dtype::f32) {
      EXPECT_TRUE(support::Expected(far).matches(Call(far).forward()));
    }
  }
}

// One row of q at a position of its own in each of many batches: its gradient is summed before it is rounded.
TEST(Rotary, ASharedQueryIsSummedInTheComputeType) {
  constexpr Int kBatches = 200, kKeys = 3, kDim = 8;
  support::Random random(7);
  const auto numbers = [&](const oracle::Sizes& shape) {
    return support::random_array(shape, random, rapt::Dtype::bf16);
  };
  const Array q = numbers({1, 1, 1, kDim}), k = numbers({kBatches, 1, kKeys, kDim}),
              v = numbers({kBatches, 1, kKeys, kDim}), out_gradient = numbers({kBatches, 1, 1, kDim});
  const auto gradient = [&](rapt::Dtype dtype) {
    const support::Buffer own_q(q, dtype), own_k(k, dtype), own_v(v, dtype), grad_out(out_gradient, dtype);
    support::Buffer out(rapt::Dtype::f32, {kBatches, 1, 1, kDim}), dq(dtype, q.shape);
    rapt::AttendOptions options;
    options.rotary.dims = kDim;
    for (Int b = 0; b < kBatches; ++b) options.first_query.push_back(b);
    const rapt::Inputs inputs{own_q.view(), own_k.view(), {own_v.view()}};
    rapt::attend(inputs, rapt::Outputs{.out = {out.view()}}, options);
    rapt::Gradients gradients;
    gradients.q = dq.view();
    rapt::attend_backward(inputs, {out.view()}, {grad_out.view()}, nullptr, gradients, options);
    return dq.values();
  };
  const Array exact = gradient(rapt::Dtype::f32), rounded = gradient(rapt::Dtype::bf16);
  for (std::size_t n = 0; n < exact.data.size(); ++n)
    EXPECT_NEAR(rounded.data[n], exact.data[n], std::abs(exact.data[n]) / 256) << n;  // half a bf16 unit, no more
}

}  // namespace
