#include "layers/parameters.h"

#include <cmath>

#include <gtest/gtest.h>

#include "layers/basic.h"
#include "rapt/error.h"
#include "support/layers.h"

namespace rapt::layers::test {
namespace {

using support::random_input;

TEST(ParameterList, LiesInOneArrayWithoutOverlap) {
  Parameters parameters;
  const ParameterId a = parameters.add("a", {3, 5}, Initial::constant(2));
  const ParameterId b = parameters.add("b", {1}, Initial::constant(3));
  const ParameterId c = parameters.add("c", {16}, Initial::constant(4));
  EXPECT_EQ(parameters.count(), 15 + 1 + 16);
  EXPECT_GE(parameters[b].offset, parameters[a].offset + 15);
  EXPECT_GE(parameters[c].offset, parameters[b].offset + 1);
  EXPECT_GE(parameters.size(), parameters[c].offset + 16);
  std::vector<float> values(static_cast<std::size_t>(parameters.size()), -1.0F);
  parameters.initialize(values.data(), 1);
  int twos = 0;
  for (const float x : values) twos += x == 2 ? 1 : 0;
  EXPECT_EQ(twos, 15);
  for (const float x : values) EXPECT_GE(x, 0);  // what lies between is zero
}

TEST(ParameterList, BadNamesAndSizesAreErrors) {
  Parameters parameters;
  parameters.add("a", {3}, Initial::constant(0));
  EXPECT_THROW(parameters.add("a", {4}, Initial::constant(0)), Error);
  EXPECT_THROW(parameters.add("b", {0}, Initial::constant(0)), Error);
  EXPECT_THROW(parameters.add("b", {2, -1}, Initial::constant(0)), Error);
}

TEST(ParameterList, FreshValues) {
  Parameters parameters;
  const ParameterId normal = parameters.add("normal", {100, 100}, Initial::normal(0.3));
  const ParameterId uniform = parameters.add("uniform", {100, 100}, Initial::xavier(100, 50));
  const ParameterId again = parameters.add("again", {100, 100}, Initial::normal(0.3));
  const ParameterId identity = parameters.add("identity", {2, 3, 3}, {Initial::Kind::identity, 5, 0, 1});
  const ParameterId slopes = parameters.add("slopes", {4}, {Initial::Kind::normal, 0.5, 0, 0.5});
  std::vector<double> values(static_cast<std::size_t>(parameters.size()));
  parameters.initialize(values.data(), 7);
  const auto of = [&](ParameterId id) { return values.data() + parameters[id].offset; };
  double mean = 0;
  double square = 0;
  double bound = 0;
  double second = 0;
  double common = 0;
  for (int n = 0; n < 10000; ++n) {
    mean += of(normal)[n] / 10000;
    square += of(normal)[n] * of(normal)[n] / 10000;
    bound = std::max(bound, std::abs(of(uniform)[n]));
    second += of(uniform)[n] * of(uniform)[n] / 10000;
    common += of(normal)[n] * of(again)[n] / 10000;
  }
  EXPECT_NEAR(mean, 0, 5 * 0.3 / 100);
  EXPECT_NEAR(std::sqrt(square), 0.3, 0.02);
  EXPECT_LE(bound, std::sqrt(6.0 / 150));
  EXPECT_NEAR(second, 2.0 / 150, 0.001);
  EXPECT_NEAR(common, 0, 5 * 0.09 / 100);  // a stream for each parameter
  for (int n = 0; n < 18; ++n) EXPECT_EQ(of(identity)[n], n % 9 % 4 == 0 ? 5 : 0);
  for (int n = 0; n < 4; ++n) EXPECT_EQ(of(slopes)[n], std::pow(0.5, n + 1));
  std::vector<double> same(values.size());
  parameters.initialize(same.data(), 7);
  EXPECT_EQ(same, values);
  parameters.initialize(same.data(), 8);
  EXPECT_NE(same, values);
}

TEST(BasicLayers, LinearCountsAndGradients) {
  for (const bool bias : {false, true}) {
    Parameters parameters;
    const Linear layer(parameters, "linear", 5, 3, bias);
    EXPECT_EQ(parameters.count(), bias ? 18 : 15);
    Random random(1);
    support::check_layer(parameters, {random_input("x", {2, 3, 5}, random)}, random,
                         [&](auto& graph, const auto& x) { return std::vector{layer(graph, x[0])}; });
  }
}

TEST(BasicLayers, EmbeddingBothWays) {
  Parameters parameters;
  const Embedding layer(parameters, "embedding", 7, 5);
  EXPECT_EQ(parameters.count(), 35);
  Random random(2);
  const std::vector<int> ids{6, 0, 6, 3};
  support::check_layer(parameters, {random_input("x", {2, 5}, random)}, random, [&](auto& graph, const auto& x) {
    return std::vector{layer(graph, ids, 2), layer.scores(graph, x[0])};
  });
}

TEST(BasicLayers, LayerNormStartsAsTheIdentityOfNormedRows) {
  Parameters parameters;
  const LayerNorm layer(parameters, "norm", 9);
  std::vector<double> values(static_cast<std::size_t>(parameters.size()));
  parameters.initialize(values.data(), 1);
  Random random(3);
  support::Held<double> x(random_input("x", {4, 9}, random, 5));
  Tape<double> tape(false);
  Graph<double> graph(tape, parameters, values.data(), nullptr);
  const Tensor<double> y = layer(graph, x.tensor(false));
  for (int r = 0; r < 4; ++r) {
    double mean = 0;
    double square = 0;
    for (int n = 0; n < 9; ++n) {
      mean += y.data[r * 9 + n] / 9;
      square += y.data[r * 9 + n] * y.data[r * 9 + n] / 9;
    }
    EXPECT_NEAR(mean, 0, 1e-12);
    EXPECT_NEAR(square, 1, 1e-4);
  }
  support::check_layer(parameters, {random_input("x", {3, 9}, random)}, random,
                       [&](auto& g, const auto& in) { return std::vector{layer(g, in[0])}; });
}

TEST(BasicLayers, MlpCountsAndGradients) {
  Parameters parameters;
  const Mlp layer(parameters, "mlp", 5, 11, 3, Activation::gelu, 0);
  EXPECT_EQ(parameters.count(), 5 * 11 + 11 + 11 * 3 + 3);
  Random random(4);
  support::check_layer(parameters, {random_input("x", {2, 2, 5}, random)}, random,
                       [&](auto& graph, const auto& x) { return std::vector{layer(graph, x[0])}; });
}

// Dropout is on in training only; the dropped elements change from call to call and follow from the key.
TEST(BasicLayers, GraphDropout) {
  const Parameters none;
  support::Held<float> ones({"x", {4096}, std::vector<double>(4096, 1.0)});
  Tape<float> tape(false);
  const auto masks = [&](std::uint64_t key) {
    Graph<float> graph(tape, none, nullptr, nullptr);
    graph.train(key);
    const auto first = support::numbers_of(graph.dropout(ones.tensor(false), 0.5));
    return std::pair{first, support::numbers_of(graph.dropout(ones.tensor(false), 0.5))};
  };
  Graph<float> silent(tape, none, nullptr, nullptr);
  EXPECT_EQ(silent.dropout(ones.tensor(false), 0.5).data, ones.values.data());
  EXPECT_EQ(masks(1), masks(1));
  EXPECT_NE(masks(1).first, masks(1).second);
  EXPECT_NE(masks(1).first, masks(2).first);
}

}  // namespace
}  // namespace rapt::layers::test
