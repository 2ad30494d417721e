// A size of 0 is a call with nothing to do, or rows that see nothing: never an error.

#include <gtest/gtest.h>

#include <cmath>

#include "rapt/registry.h"
#include "support/checks.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using oracle::Sizes;
using support::Call;
using support::Int;
using support::kPaths;
using support::label;

struct Shape {
  Int batch, heads, queries, keys;
};

const std::vector<Shape> kShapes = {{0, 2, 5, 7}, {2, 0, 5, 7}, {2, 2, 0, 7}, {2, 2, 5, 0},
                                    {0, 0, 0, 0}, {1, 1, 0, 0}, {2, 2, 1, 0}, {1, 4, 70, 0}};

oracle::Problem problem_of(const Shape& s, const std::string& mechanism) {
  support::Random random(4);
  const auto numbers = [&](const Sizes& shape) { return support::random_array(shape, random, rapt::Dtype::bf16); };
  oracle::Problem p;
  p.mechanism = mechanism;
  p.q = numbers({s.batch, s.heads, s.queries, 4});
  p.k = numbers({s.batch, s.heads, s.keys, 4});
  p.v = {numbers({s.batch, s.heads, s.keys, 3})};
  if (mechanism == "alibi") p.parameters["m"] = numbers({1, s.heads, 1, 1});
  if (mechanism == "shaw") p.parameters["a"] = numbers({1, 1, 7, 4});
  if (mechanism == "bilinear") p.parameters["W"] = numbers({1, 1, 4, 4});
  if (mechanism == "cosine") p.parameters["tau"] = numbers({1, 1, 1, 1});
  return p;
}

void check(const oracle::Problem& p, rapt::Dtype dtype) {
  const support::Case c = support::make_case(p, dtype);
  for (rapt::Path path : kPaths)
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(testing::Message() << label(path) << " " << support::label(dtype) << " " << threads << " threads");
      Call call(c);
      call.options.path = path;
      call.options.threads = threads;
      support::ForwardWants wants;
      wants.statistics = true;
      wants.weights = p.queries() > 0;
      wants.top_k = p.keys() > 0 ? 1 : 0;
      wants.partial = p.normalizer == oracle::Normalizer::softmax;
      const support::ForwardResult r = call.forward(wants);
      EXPECT_EQ(r.damage, "");
      // Whatever rows there are see nothing.
      for (double e : r.out[0].data) EXPECT_EQ(e, 0);
      for (double e : r.lse.data) EXPECT_EQ(e, -HUGE_VAL);
      for (double e : r.row_sum.data) EXPECT_EQ(e, 0);
      for (double e : r.statistics.entropy.data) EXPECT_EQ(e, 0);
      for (Int e : r.statistics.argmax) EXPECT_EQ(e, -1);
      for (const bool saved : {false, true}) {
        support::BackwardWants backward;
        backward.saved = saved;
        const support::BackwardResult b = call.backward(backward);
        EXPECT_EQ(b.damage, "");
        for (const Array* x : {&b.gradients.q, &b.gradients.k, &b.gradients.v[0], &b.gradients.bias})
          for (double e : x->data) EXPECT_EQ(e, 0);
        for (const auto& [name, value] : b.gradients.parameters)
          for (double e : value.data) EXPECT_EQ(e, 0) << name;
      }
    }
}

TEST(Empty, EveryShapeAndMechanism) {
  for (const char* mechanism : {"scaled_dot", "alibi", "shaw", "bilinear", "cosine"})
    for (const Shape& s : kShapes)
      for (rapt::Dtype dtype : support::all_dtypes()) {
        SCOPED_TRACE(testing::Message() << mechanism << " " << s.batch << " " << s.heads << " " << s.queries << " "
                                        << s.keys);
        check(problem_of(s, mechanism), dtype);
      }
}

TEST(Empty, EveryNormalizer) {
  for (oracle::Normalizer normalizer :
       {oracle::Normalizer::softmax, oracle::Normalizer::argmax, oracle::Normalizer::sparsemax,
        oracle::Normalizer::entmax15, oracle::Normalizer::sigmoid})
    for (const Shape& s : kShapes) {
      oracle::Problem p = problem_of(s, "scaled_dot");
      p.normalizer = normalizer;
      if (normalizer == oracle::Normalizer::softmax) p.normalizer_parameters["sink"] = Array({1, s.heads, 1, 1});
      check(p, rapt::Dtype::f32);
    }
}

TEST(Empty, WithMasksBiasAndPositions) {
  for (const Shape& s : kShapes)
    for (const oracle::Causal causal : {oracle::Causal::none, oracle::Causal::top_left, oracle::Causal::bottom_right}) {
      oracle::Problem p = problem_of(s, "alibi");
      p.mask.causal = causal;
      p.mask.window = oracle::Window{2, 1};
      p.mask.key_lengths.assign(static_cast<std::size_t>(s.batch), s.keys);
      if (causal != oracle::Causal::bottom_right) p.first_query = {3};
      p.bias = Array({1, 1, 1, s.keys});
      p.rotary.dims = 4;
      check(p, rapt::Dtype::f64);
      p.mask.key_lengths = {};
      p.first_query = {};
      p.mask.window.reset();
      p.rotary.dims = 0;
      p.mask.query_starts = {0, s.queries};
      p.mask.key_starts = {0, s.keys};
      check(p, rapt::Dtype::f64);
    }
}

// A null pointer is an array of no numbers.
TEST(Empty, ArraysWithoutData) {
  const rapt::Shape none_q{1, 2, 0, 4}, none_k{1, 2, 0, 4};
  const rapt::ConstView q{nullptr, rapt::Dtype::f32, none_q, rapt::contiguous_strides(none_q)};
  const rapt::ConstView k{nullptr, rapt::Dtype::f32, none_k, rapt::contiguous_strides(none_k)};
  const rapt::View out{nullptr, rapt::Dtype::f32, none_q, rapt::contiguous_strides(none_q)};
  EXPECT_NO_THROW(rapt::attend(q, k, k, out));
}

// Rows of no numbers: every score is 0.
TEST(Empty, VectorsWithoutNumbers) {
  std::vector<float> v = {1, 10, 2, 20, 6, 60}, out(8);
  const rapt::Shape none_q{1, 1, 4, 0}, none_k{1, 1, 3, 0};
  const rapt::ConstView q{nullptr, rapt::Dtype::f32, none_q, rapt::contiguous_strides(none_q)};
  const rapt::ConstView k{nullptr, rapt::Dtype::f32, none_k, rapt::contiguous_strides(none_k)};
  for (const char* mechanism : {"dot", "scaled_dot"})
    for (rapt::Path path : kPaths) {
      rapt::AttendOptions options;
      options.score.mechanism = &rapt::mechanism(mechanism);
      options.path = path;
      rapt::attend(q, k, rapt::view(v.data(), {3, 2}), rapt::view(out.data(), {4, 2}), options);
      for (std::size_t n = 0; n < out.size(); ++n) EXPECT_FLOAT_EQ(out[n], n % 2 == 0 ? 3.0F : 30.0F);
    }
}

TEST(Empty, AGridWithoutKeys) {
  for (const std::array<Int, 2> grid : {std::array<Int, 2>{0, 0}, {0, 4}, {2, 3}}) {
    oracle::Problem p = problem_of({2, 2, 5, 0}, "quadratic");
    p.parameters["center"] = Array({1, 2, 1, 2});
    p.parameters["alpha"] = Array({1, 2, 1, 1});
    p.grid = grid;
    check(p, rapt::Dtype::f32);
  }
}

// Neither rows of queries and keys nor those of values have a number: weights and statistics are there nonetheless.
TEST(Empty, ValuesWithoutNumbersToo) {
  // Parameters that are as long as a key have at least one number.
  for (const char* mechanism : {"dot", "scaled_dot", "cosine", "distance", "alibi", "t5", "quadratic", "gaussian"})
    for (const rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::bf16})
      for (const auto& [key_dim, value_dims] :
           {std::pair<Int, std::vector<Int>>{0, {0}}, {0, {3}}, {4, {0}}, {4, {0, 2}}})
        for (const Int queries : {1, 70}) {
          support::CaseSpec s;
          if (key_dim == 0) s.scale = 0.5;  // the oracle's usual one is 1/√0
          s.mechanism = mechanism;
          s.dtype = dtype;
          s.key_dim = key_dim;
          s.value_dims = value_dims;
          s.queries = s.keys = queries;
          SCOPED_TRACE(testing::Message() << describe(s));
          check_case(make_case(s));
        }
}

}  // namespace
