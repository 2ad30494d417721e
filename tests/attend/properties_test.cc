// Properties of every registered mechanism, whatever its formula.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "oracle/positions.h"
#include "support/checks.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;

support::ForwardWants everything() {
  support::ForwardWants wants;
  wants.weights = true;
  wants.statistics = true;
  wants.top_k = 2;
  return wants;
}

// Parts 0 and 1 of one dimension exchanged.
Array exchanged(const Array& x, int dimension) {
  Array y = x;
  const auto& s = x.shape;
  for (Int a = 0; a < s[0]; ++a)
    for (Int b = 0; b < s[1]; ++b)
      for (Int c = 0; c < s[2]; ++c)
        for (Int d = 0; d < s[3]; ++d)
          y.at(a, b, c, d) = dimension == 0 ? x.at(a < 2 ? 1 - a : a, b, c, d) : x.at(a, b < 2 ? 1 - b : b, c, d);
  return y;
}

class Properties : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  static rapt::Dtype dtype() { return std::get<1>(GetParam()); }
  static CaseSpec spec() {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = dtype();
    s.batch = 2;
    s.queries = 37;
    s.keys = 45;
    s.key_dim = 10;
    s.value_dims = {6};
    return s;
  }
};

TEST_P(Properties, WeightsAreDistributions) {
  for (support::MaskKind mask : {support::MaskKind::none, support::MaskKind::dense, support::MaskKind::key_lengths}) {
    CaseSpec s = spec();
    s.mask = mask;
    const Case c = make_case(s);
    const support::ForwardResult r = Call(c).forward(everything());
    const oracle::Problem& p = c.problem;
    for (Int b = 0; b < p.batch(); ++b)
      for (Int h = 0; h < p.heads(); ++h)
        for (Int i = 0; i < p.queries(); ++i) {
          double sum = 0;
          bool any = false;
          for (Int j = 0; j < p.keys(); ++j) {
            const double w = r.weights.at(b, h, i, j);
            const bool seen = oracle::visible(p, b, h, i, j);
            any = any || seen;
            ASSERT_GE(w, 0);
            if (!seen) {
              ASSERT_EQ(w, 0);
            }
            sum += w;
          }
          ASSERT_NEAR(sum, any ? 1 : 0, support::rounding_of(dtype())) << label(mask) << " row " << i;
        }
  }
}

TEST_P(Properties, OutIsWeightsTimesValues) {
  CaseSpec s = spec();
  s.mask = support::MaskKind::bottom_right;
  s.bias = support::BiasKind::per_head;
  s.optional_parameters = s.mechanism != "shaw";  // its values are added to v
  const Case c = make_case(s);
  const support::ForwardResult r = Call(c).forward(everything());
  Array product(r.out[0].shape);
  for (Int b = 0; b < c.spec.batch; ++b)
    for (Int h = 0; h < c.spec.heads; ++h)
      for (Int i = 0; i < c.spec.queries; ++i)
        for (Int j = 0; j < c.spec.keys; ++j)
          for (Int d = 0; d < 6; ++d)
            product.at(b, h, i, d) += r.weights.at(b, h, i, j) * c.problem.v[0].at(b, h, j, d);
  EXPECT_TRUE(support::agree(r.out[0], product, support::rounding_of(dtype())));
}

TEST_P(Properties, StatisticsFollowFromTheWeights) {
  CaseSpec s = spec();
  s.mask = support::MaskKind::dense;
  const Case c = make_case(s);
  for (bool on_grid : {false, true}) {
    if (on_grid && c.problem.grid[0] == 0) continue;
    support::ForwardWants wants = everything();
    if (on_grid) wants.grid = c.problem.grid;
    const support::ForwardResult r = Call(c).forward(wants);
    oracle::Forward f;
    f.weights = r.weights;
    f.scores = r.weights;
    for (double& e : f.scores.data) e = std::log(e);
    const oracle::Statistics want = oracle::statistics(f, c.problem.normalizer, wants.top_k, wants.grid);
    const double rounding = support::rounding_of(dtype());
    EXPECT_TRUE(support::agree(r.statistics.entropy, want.entropy, rounding));
    EXPECT_TRUE(support::agree(r.statistics.position, want.position, rounding));
    EXPECT_TRUE(support::agree(r.statistics.covariance, want.covariance, 10 * rounding));
    EXPECT_TRUE(support::agree(r.statistics.top_weights, want.top_weights, rounding));
    EXPECT_EQ(r.statistics.argmax, want.argmax);
    EXPECT_EQ(r.statistics.top_indices, want.top_indices);
  }
}

TEST_P(Properties, ExchangedBatchesGiveExchangedResults) {
  Case c = make_case(spec());
  const support::ForwardResult before = Call(c).forward();
  const support::BackwardResult before_backward = Call(c).backward();
  c.problem.q = exchanged(c.problem.q, 0);
  c.problem.k = exchanged(c.problem.k, 0);
  c.problem.v[0] = exchanged(c.problem.v[0], 0);
  c.grad_out[0] = exchanged(c.grad_out[0], 0);
  const support::ForwardResult after = Call(c).forward();
  EXPECT_EQ(exchanged(before.out[0], 0).data, after.out[0].data);
  EXPECT_EQ(exchanged(before.lse, 0).data, after.lse.data);
  const support::BackwardResult after_backward = Call(c).backward();
  EXPECT_EQ(exchanged(before_backward.gradients.q, 0).data, after_backward.gradients.q.data);
  EXPECT_EQ(exchanged(before_backward.gradients.k, 0).data, after_backward.gradients.k.data);
  EXPECT_EQ(exchanged(before_backward.gradients.v[0], 0).data, after_backward.gradients.v[0].data);
}

TEST_P(Properties, ExchangedHeadsGiveExchangedResults) {
  CaseSpec s = spec();
  s.bias = support::BiasKind::per_head;
  Case c = make_case(s);
  const support::ForwardResult before = Call(c).forward();
  const support::BackwardResult before_backward = Call(c).backward();
  c.problem.q = exchanged(c.problem.q, 1);
  c.problem.k = exchanged(c.problem.k, 1);
  c.problem.v[0] = exchanged(c.problem.v[0], 1);
  c.problem.bias = exchanged(c.problem.bias, 1);
  c.grad_out[0] = exchanged(c.grad_out[0], 1);
  for (auto& [name, value] : c.problem.parameters)
    if (value.shape[1] > 1) value = exchanged(value, 1);
  const support::ForwardResult after = Call(c).forward();
  EXPECT_EQ(exchanged(before.out[0], 1).data, after.out[0].data);
  EXPECT_EQ(exchanged(before.lse, 1).data, after.lse.data);
  const support::BackwardResult after_backward = Call(c).backward();
  EXPECT_EQ(exchanged(before_backward.gradients.q, 1).data, after_backward.gradients.q.data);
  EXPECT_EQ(exchanged(before_backward.gradients.bias, 1).data, after_backward.gradients.bias.data);
}

TEST_P(Properties, HiddenKeysHaveNoInfluence) {
  for (support::MaskKind mask : {support::MaskKind::key_lengths, support::MaskKind::dense_shared}) {
    CaseSpec s = spec();
    s.mask = mask;
    Case c = make_case(s);
    const support::ForwardResult before = Call(c).forward();
    const support::BackwardResult before_backward = Call(c).backward();
    for (Int b = 0; b < 2; ++b)
      for (Int h = 0; h < c.spec.heads; ++h)
        for (Int j = 0; j < c.spec.keys; ++j) {
          if (oracle::visible(c.problem, b, h, 0, j)) continue;
          for (Int d = 0; d < 10; ++d) c.problem.k.at(b, h, j, d) = 3;
          for (Int d = 0; d < 6; ++d) c.problem.v[0].at(b, h, j, d) = -1000;
        }
    const support::ForwardResult after = Call(c).forward();
    EXPECT_EQ(before.out[0].data, after.out[0].data) << label(mask);
    EXPECT_EQ(before.lse.data, after.lse.data) << label(mask);
    const support::BackwardResult after_backward = Call(c).backward();
    EXPECT_EQ(before_backward.gradients.q.data, after_backward.gradients.q.data) << label(mask);
    EXPECT_EQ(before_backward.gradients.v[0].data, after_backward.gradients.v[0].data) << label(mask);
    for (const auto& [name, value] : before_backward.gradients.parameters)
      EXPECT_EQ(value.data, after_backward.gradients.parameters.at(name).data) << label(mask) << " " << name;
  }
}

TEST_P(Properties, PathsAgree) {
  for (support::MaskKind mask : {support::MaskKind::none, support::MaskKind::everything}) {
    CaseSpec s = spec();
    s.mask = mask;
    Call call(make_case(s));
    const double rounding = support::rounding_of(dtype());
    const support::ForwardResult automatic = call.forward();
    const support::BackwardResult automatic_backward = call.backward();
    for (rapt::Path path : {rapt::Path::generic, rapt::Path::reference}) {
      call.options.path = path;
      const support::ForwardResult other = call.forward();
      EXPECT_TRUE(support::agree(automatic.out[0], other.out[0], rounding));
      EXPECT_TRUE(support::agree(automatic.lse, other.lse, rounding));
      EXPECT_TRUE(support::agree(automatic_backward.gradients, call.backward().gradients, 20 * rounding));
    }
  }
}

TEST_P(Properties, WeightsOfSomeRowsAreThoseOfAll) {
  CaseSpec s = spec();
  s.mask = support::MaskKind::bottom_right;
  const Case c = make_case(s);
  Call call(c);
  const support::ForwardResult all = call.forward(everything());
  for (const auto& [begin, end] : {std::pair<Int, Int>{0, 1}, {3, 20}, {c.spec.queries - 1, c.spec.queries}}) {
    support::Buffer part(support::compute_type(dtype()), {1, 1, end - begin, c.spec.keys});
    support::Buffer out(dtype(), all.out[0].shape);
    rapt::Outputs outputs;
    outputs.out = {out.view()};
    outputs.weights.push_back({1, 1, begin, end, part.view()});
    rapt::attend(call.inputs, outputs, call.options);
    EXPECT_EQ(part.damage(), "");
    const Array values = part.values();
    for (Int i = begin; i < end; ++i)
      for (Int j = 0; j < c.spec.keys; ++j) ASSERT_EQ(values.at(0, 0, i - begin, j), all.weights.at(1, 1, i, j));
  }
}

TEST_P(Properties, ANumberAddedToAllScoresOfARowChangesNothing) {
  CaseSpec s = spec();
  s.bias = support::BiasKind::per_key;
  Case c = make_case(s);
  const support::ForwardResult before = Call(c).forward();
  for (double& e : c.problem.bias.data) e += 2;
  for (double& e : c.problem.bias.data) e = support::round_to(dtype(), e);
  Case back = c;
  for (double& e : back.problem.bias.data) e -= 2;
  const support::ForwardResult after = Call(c).forward();
  const support::ForwardResult same = Call(back).forward();
  EXPECT_TRUE(support::agree(after.out[0], same.out[0], 5 * support::rounding_of(dtype())));
  EXPECT_FALSE(support::agree(after.lse, before.lse, 1e-3));
}

// One or two queries take other loops than many: every row has the same bits anyway.
TEST(FewQueries, HaveTheBitsOfMany) {
  for (const rapt::Isa isa : rapt::available_isas())
    for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64})
      for (const Int keys : {1, 3, 16, 22, 64, 65, 200})
        for (const Int dim : {1, 4, 19, 64}) {
          const support::IsaScope scope(isa);
          CaseSpec s;
          s.mechanism = "scaled_dot";
          s.dtype = dtype;
          s.queries = 20;
          s.keys = keys;
          s.query_dim = s.key_dim = dim;
          s.value_dims = {dim + 2};
          Call call(make_case(s));
          const support::ForwardResult all = call.forward();
          for (const Int count : {1, 2, 3, 4, 5, 7, 8}) {
            rapt::Inputs part = call.inputs;
            part.q.shape[2] = count;
            rapt::Shape shape{part.q.shape[0], part.q.shape[1], count, dim + 2};
            support::Buffer out(dtype, {shape[0], shape[1], shape[2], shape[3]});
            rapt::Outputs outputs;
            outputs.out = {out.view()};
            rapt::attend(part, outputs, call.options);
            const Array got = out.values();
            for (Int h = 0; h < shape[1]; ++h)
              for (Int i = 0; i < count; ++i)
                for (Int d = 0; d < dim + 2; ++d)
                  ASSERT_EQ(got.at(0, h, i, d), all.out[0].at(0, h, i, d))
                      << rapt::name_of(isa) << ", " << keys << " keys of " << dim << ", " << count << " queries";
          }
        }
}

INSTANTIATE_TEST_SUITE_P(Registry, Properties,
                         testing::Combine(testing::ValuesIn(support::registered_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32)),
                         support::mechanism_and_type);

}  // namespace
