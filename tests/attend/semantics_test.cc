// The contract by example: shapes that repeat, masks and their edges, the order of softcap and bias.

#include <gtest/gtest.h>

#include <cmath>

#include "support/checks.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using oracle::Sizes;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;

oracle::Problem random_problem(const Sizes& q, const Sizes& k, const std::vector<Sizes>& v, std::uint64_t seed = 5) {
  support::Random random(seed);
  oracle::Problem p;
  p.mechanism = "scaled_dot";
  p.q = support::random_array(q, random, rapt::Dtype::f64);
  p.k = support::random_array(k, random, rapt::Dtype::f64);
  for (const Sizes& s : v) p.v.push_back(support::random_array(s, random, rapt::Dtype::f64));
  return p;
}

// Forward and backward of an explicit problem against the oracle, on all paths.
void check(const oracle::Problem& p) {
  const Case c = support::make_case(p, rapt::Dtype::f64);
  const support::Expected expected(c, true);
  Call call(c);
  support::ForwardWants wants;
  wants.weights = true;
  for (rapt::Path path : {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference}) {
    call.options.path = path;
    EXPECT_TRUE(expected.matches(call.forward(wants))) << static_cast<int>(path);
    EXPECT_TRUE(expected.matches(call.backward())) << static_cast<int>(path);
  }
}

TEST(Broadcast, BatchOfOneIsRepeated) {
  check(random_problem({1, 2, 5, 4}, {3, 2, 7, 4}, {{3, 2, 7, 3}}));
  check(random_problem({3, 2, 5, 4}, {1, 2, 7, 4}, {{1, 2, 7, 3}}));
  check(random_problem({3, 2, 5, 4}, {3, 2, 7, 4}, {{1, 2, 7, 3}}));
  check(random_problem({1, 2, 5, 4}, {1, 2, 7, 4}, {{3, 2, 7, 3}}));
}

TEST(Broadcast, OneHeadIsRepeated) {
  check(random_problem({2, 4, 5, 4}, {2, 1, 7, 4}, {{2, 1, 7, 3}}));
  check(random_problem({2, 1, 5, 4}, {2, 4, 7, 4}, {{2, 4, 7, 3}}));
  check(random_problem({2, 4, 5, 4}, {2, 4, 7, 4}, {{2, 1, 7, 3}}));
}

TEST(Broadcast, HeadsInGroups) {
  check(random_problem({2, 6, 5, 4}, {2, 3, 7, 4}, {{2, 3, 7, 3}}));
  check(random_problem({2, 6, 5, 4}, {2, 2, 7, 4}, {{2, 3, 7, 3}, {1, 1, 7, 2}}));
}

TEST(Broadcast, StrideOfZeroRepeats) {
  oracle::Problem p = random_problem({2, 2, 5, 4}, {2, 2, 7, 4}, {{2, 2, 7, 3}});
  const std::size_t half = p.k.data.size() / 2;
  for (std::size_t n = 0; n < half; ++n) p.k.data[half + n] = p.k.data[n];
  const Case c = support::make_case(p, rapt::Dtype::f64);
  Call call(c);
  call.inputs.k.strides[0] = 0;
  EXPECT_TRUE(support::Expected(c).matches(call.forward()));
}

TEST(Broadcast, MixedStorageTypes) {
  CaseSpec s;
  s.dtype = rapt::Dtype::bf16;  // the numbers are exact in f32 too
  const Case c = make_case(s);
  Call call(c);
  const support::Buffer q(c.problem.q, rapt::Dtype::f32);
  call.inputs.q = q.view();
  EXPECT_TRUE(support::Expected(c).matches(call.forward()));
}

TEST(Sizes, SmallestOnes) {
  for (const Sizes& q : {Sizes{1, 1, 1, 1}, {1, 1, 5, 1}, {2, 3, 1, 2}})
    for (Int keys : {1, 2, 9}) {
      const Sizes k = {q[0], q[1], keys, q[3]};
      check(random_problem(q, k, {{q[0], q[1], keys, 1}}));
    }
}

TEST(Sizes, OneKeyIsCopied) {
  const oracle::Problem p = random_problem({1, 1, 6, 4}, {1, 1, 1, 4}, {{1, 1, 1, 5}});
  const support::ForwardResult r = Call(support::make_case(p, rapt::Dtype::f64)).forward();
  for (Int i = 0; i < 6; ++i)
    for (Int d = 0; d < 5; ++d) EXPECT_DOUBLE_EQ(r.out[0].at(0, 0, i, d), p.v[0].at(0, 0, 0, d));
}

TEST(Masks, KeyLengthsAndAlignmentCombineByAnd) {
  oracle::Problem p = random_problem({3, 2, 6, 4}, {3, 2, 9, 4}, {{3, 2, 9, 3}});
  for (oracle::Causal causal : {oracle::Causal::none, oracle::Causal::top_left, oracle::Causal::bottom_right}) {
    p.mask.causal = causal;
    p.mask.key_lengths = {4, 0, 9};
    check(p);
    p.mask.key_lengths = {3};  // one for all
    check(p);
  }
}

TEST(Masks, WindowEdges) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{9, 9}, {5, 12}, {12, 5}, {1, 8}, {70, 130}}) {
    oracle::Problem p = random_problem({1, 1, queries, 4}, {1, 1, keys, 4}, {{1, 1, keys, 3}});
    for (oracle::Causal causal : {oracle::Causal::none, oracle::Causal::top_left, oracle::Causal::bottom_right})
      for (const oracle::Window& window : {oracle::Window{0, 0},
                                           {0, -1},
                                           {-1, 0},
                                           {-1, -1},
                                           {1, 0},
                                           {0, 1},
                                           {3, 2},
                                           {keys, queries},
                                           {Int{1} << 62, Int{1} << 62},
                                           {64, 0},
                                           {0, 64}}) {
        SCOPED_TRACE(testing::Message() << queries << "x" << keys << " window " << window.left << "," << window.right
                                        << " causal " << static_cast<int>(causal));
        // The oracle adds the sides to positions; a side beyond all keys is no limit.
        p.mask.causal = causal;
        p.mask.window = window;
        check(p);
      }
  }
}

TEST(Masks, WindowOfOneCopiesItsOwnKey) {
  oracle::Problem p = random_problem({1, 1, 40, 4}, {1, 1, 40, 4}, {{1, 1, 40, 3}});
  p.mask.window = oracle::Window{0, 0};
  const support::ForwardResult r = Call(support::make_case(p, rapt::Dtype::f64)).forward();
  EXPECT_TRUE(support::agree(r.out[0], p.v[0], 1e-15));
}

TEST(Masks, PackedSequencesEqualSeparateCalls) {
  for (oracle::Causal causal : {oracle::Causal::none, oracle::Causal::top_left, oracle::Causal::bottom_right}) {
    oracle::Problem p = random_problem({1, 2, 80, 5}, {1, 2, 101, 5}, {{1, 2, 101, 3}});
    p.mask.causal = causal;
    p.mask.window = oracle::Window{20, 30};
    p.mask.query_starts = {0, 1, 1, 40, 71, 80};
    p.mask.key_starts = {0, 7, 10, 10, 83, 101};
    const Case c = support::make_case(p, rapt::Dtype::f64);
    Call call(c);
    const support::ForwardResult whole = call.forward();
    const support::BackwardResult whole_backward = call.backward();
    const auto rows = [](const Array& x, Int begin, Int end) {
      Array part({x.shape[0], x.shape[1], end - begin, x.shape[3]});
      for (Int h = 0; h < x.shape[1]; ++h)
        for (Int i = begin; i < end; ++i)
          for (Int d = 0; d < x.shape[3]; ++d) part.at(0, h, i - begin, d) = x.at(0, h, i, d);
      return part;
    };
    for (std::size_t s = 0; s + 1 < p.mask.query_starts.size(); ++s) {
      const Int q0 = p.mask.query_starts[s], q1 = p.mask.query_starts[s + 1];
      const Int k0 = p.mask.key_starts[s], k1 = p.mask.key_starts[s + 1];
      if (q0 == q1) {
        EXPECT_EQ(support::largest(rows(whole_backward.gradients.k, k0, k1)), 0);
        continue;
      }
      if (k0 == k1) {
        EXPECT_EQ(support::largest(rows(whole.out[0], q0, q1)), 0);
        EXPECT_EQ(support::largest(rows(whole_backward.gradients.q, q0, q1)), 0);
        continue;
      }
      Case part;
      oracle::Problem& single = part.problem;
      single = p;
      single.mask.query_starts = single.mask.key_starts = {};
      single.q = rows(p.q, q0, q1);
      single.k = rows(p.k, k0, k1);
      single.v = {rows(p.v[0], k0, k1)};
      part = support::make_case(single, rapt::Dtype::f64);
      part.grad_out = {rows(c.grad_out[0], q0, q1)};
      Call part_call(part);
      EXPECT_TRUE(support::agree(part_call.forward().out[0], rows(whole.out[0], q0, q1), 1e-13)) << s;
      const support::BackwardResult b = part_call.backward();
      EXPECT_TRUE(support::agree(b.gradients.q, rows(whole_backward.gradients.q, q0, q1), 1e-12)) << s;
      EXPECT_TRUE(support::agree(b.gradients.k, rows(whole_backward.gradients.k, k0, k1), 1e-12)) << s;
      EXPECT_TRUE(support::agree(b.gradients.v[0], rows(whole_backward.gradients.v[0], k0, k1), 1e-12)) << s;
    }
  }
}

TEST(Masks, DenseMaskInEveryShape) {
  support::Random random(9);
  oracle::Problem p = random_problem({2, 3, 20, 4}, {2, 3, 30, 4}, {{2, 3, 30, 3}});
  for (const Sizes& shape :
       {Sizes{2, 3, 20, 30}, {1, 3, 20, 30}, {2, 1, 20, 30}, {2, 3, 1, 30}, {1, 1, 20, 30}, {1, 1, 1, 30}}) {
    p.mask.dense = Array(shape);
    for (double& e : p.mask.dense.data) e = random.uniform(0, 1) < 0.4;
    check(p);
  }
}

// Rows that see nothing: zero, −inf, −1, and no gradient; by every kind of mask and with every output.
TEST(Masks, RowsThatSeeNothing) {
  for (rapt::Dtype dtype : support::all_dtypes())
    for (const std::string& mechanism : support::registered_names()) {
      CaseSpec s;
      s.mechanism = mechanism;
      s.dtype = dtype;
      s.bias = support::BiasKind::full;
      Case c = make_case(s);
      c.problem.mask.key_lengths = {0};
      Call call(c);
      support::ForwardWants wants;
      wants.weights = wants.statistics = true;
      wants.top_k = 2;
      SCOPED_TRACE(mechanism + " " + support::label(dtype));
      for (rapt::Path path : {rapt::Path::automatic, rapt::Path::reference}) {
        call.options.path = path;
        const support::ForwardResult r = call.forward(wants);
        EXPECT_EQ(r.damage, "");
        for (double e : r.out[0].data) ASSERT_EQ(e, 0);
        for (double e : r.lse.data) ASSERT_EQ(e, -HUGE_VAL);
        for (double e : r.weights.data) ASSERT_EQ(e, 0);
        for (double e : r.statistics.entropy.data) ASSERT_EQ(e, 0);
        for (double e : r.statistics.position.data) ASSERT_EQ(e, 0);
        for (double e : r.statistics.covariance.data) ASSERT_EQ(e, 0);
        for (double e : r.statistics.top_weights.data) ASSERT_EQ(e, 0);
        for (Int e : r.statistics.argmax) ASSERT_EQ(e, -1);
        for (Int e : r.statistics.top_indices) ASSERT_EQ(e, -1);
        const support::BackwardResult b = call.backward();
        EXPECT_EQ(b.damage, "");
        for (double e : b.gradients.q.data) ASSERT_EQ(e, 0);
        for (double e : b.gradients.k.data) ASSERT_EQ(e, 0);
        for (double e : b.gradients.v[0].data) ASSERT_EQ(e, 0);
        for (double e : b.gradients.bias.data) ASSERT_EQ(e, 0);
        for (const auto& [name, value] : b.gradients.parameters)
          for (double e : value.data) ASSERT_EQ(e, 0) << name;
      }
    }
}

TEST(Order, SoftcapBeforeBias) {
  oracle::Problem p;
  p.mechanism = "dot";
  p.q = Array({1, 1, 1, 1}, {1});
  p.k = Array({1, 1, 2, 1}, {3, -1});
  p.v = {Array({1, 1, 2, 1}, {1, 0})};
  p.softcap = 2;
  p.bias = Array({1, 1, 1, 2}, {-10, 4});
  const support::ForwardResult r = Call(support::make_case(p, rapt::Dtype::f64)).forward();
  const double a = 2 * std::tanh(1.5) - 10;
  const double b = 2 * std::tanh(-0.5) + 4;
  EXPECT_NEAR(r.out[0].data[0], std::exp(a) / (std::exp(a) + std::exp(b)), 1e-15);
  EXPECT_NEAR(r.lse.data[0], std::log(std::exp(a) + std::exp(b)), 1e-14);
}

TEST(Normalizer, FirstOfEqualMaximaWins) {
  for (Int keys : {5, 40, 200}) {
    oracle::Problem p = random_problem({1, 1, 33, 3}, {1, 1, keys, 3}, {{1, 1, keys, 2}});
    p.normalizer = oracle::Normalizer::argmax;
    for (double& e : p.k.data) e = 1;  // all scores are equal
    check(p);
    support::ForwardWants wants;
    wants.statistics = true;
    const support::ForwardResult r = Call(support::make_case(p, rapt::Dtype::f64)).forward(wants);
    for (Int i = 0; i < 33; ++i) {
      EXPECT_EQ(r.statistics.argmax[static_cast<std::size_t>(i)], 0);
      EXPECT_EQ(r.out[0].at(0, 0, i, 0), p.v[0].at(0, 0, 0, 0));
    }
  }
}

// −α(‖δ‖² − 2δ·Δ) and −½‖Γ(δ−Δ)‖² with Γ = √(2α) differ by a number that is the same for the whole row.
TEST(Mechanisms, QuadraticIsARoundGaussian) {
  CaseSpec s;
  s.mechanism = "quadratic";
  s.keys = 42;
  const Case quadratic = make_case(s);
  Case gaussian = quadratic;
  gaussian.problem.mechanism = "gaussian";
  gaussian.mechanism = &rapt::mechanism("gaussian");
  const Array alpha = gaussian.problem.parameters.at("alpha");
  gaussian.problem.parameters.erase("alpha");
  Array gamma({1, 2, 2, 2});
  for (Int h = 0; h < 2; ++h) gamma.at(0, h, 0, 0) = gamma.at(0, h, 1, 1) = std::sqrt(2 * alpha.at(0, h, 0, 0));
  gaussian.problem.parameters["gamma"] = gamma;
  support::ForwardWants wants;
  wants.weights = true;
  const support::ForwardResult a = Call(quadratic).forward(wants);
  const support::ForwardResult b = Call(gaussian).forward(wants);
  EXPECT_TRUE(support::agree(a.weights, b.weights, 1e-12));
  EXPECT_TRUE(support::agree(a.out[0], b.out[0], 1e-12));
}

// As α grows all weight goes to the key at δ = Δ.
TEST(Mechanisms, SteepQuadraticLooksAtItsCentre) {
  CaseSpec s;
  s.mechanism = "quadratic";
  s.heads = 1;
  s.queries = s.keys = 42;
  Case c = make_case(s);
  c.problem.parameters["alpha"].data = {1e4};
  c.problem.parameters["center"].data = {1, -2};
  const support::ForwardResult r = Call(c).forward();
  const Int rows = c.problem.grid[0], cols = c.problem.grid[1];
  for (Int y = 0; y + 1 < rows; ++y)
    for (Int x = 2; x < cols; ++x)
      for (Int d = 0; d < 8; ++d)
        EXPECT_DOUBLE_EQ(r.out[0].at(0, 0, y * cols + x, d), c.problem.v[0].at(0, 0, (y + 1) * cols + x - 2, d));
}

}  // namespace
