#include "layers/attention.h"

#include <cmath>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "rapt/registry.h"
#include "support/layers.h"

namespace rapt::layers::test {
namespace {

using std::int64_t;
using support::random_input;

int64_t count(MultiHeadShape shape) {
  shape.score = choose_score("scaled_dot");
  Parameters parameters;
  const MultiHeadAttention layer(parameters, "attention", shape);
  return parameters.count();
}

// Assignment 6, a.1: N_h·D_in(2·D_hid + D_o) + N_h·D_o·D_out + D_out.
TEST(MultiHead, ParameterCounts) {
  const auto by_formula = [](int64_t heads, int64_t in, int64_t hidden, int64_t o, int64_t out) {
    return heads * in * (2 * hidden + o) + heads * o * out + out;
  };
  for (const auto& [heads, in, hidden, o, out] :
       {std::tuple{9, 400, 20, 400, 400}, {1, 3, 2, 2, 5}, {4, 16, 3, 7, 11}, {2, 8, 4, 4, 8}}) {
    MultiHeadShape shape;
    shape.query_in = shape.key_in = in;
    shape.heads = heads;
    shape.hidden = hidden;
    shape.value_dim = o;
    shape.out = out;
    shape.bias = ProjectionBias::output;
    EXPECT_EQ(count(shape), by_formula(heads, in, hidden, o, out));
    shape.bias = ProjectionBias::none;
    EXPECT_EQ(count(shape), by_formula(heads, in, hidden, o, out) - out);
    shape.bias = ProjectionBias::all;
    EXPECT_EQ(count(shape), by_formula(heads, in, hidden, o, out) + heads * (2 * hidden + o));
  }
}

TEST(MultiHead, DefaultsDivideTheWidth) {
  MultiHeadShape shape;
  shape.query_in = 12;
  shape.key_in = 5;
  shape.heads = 3;
  EXPECT_EQ(count(shape), 12 * 12 + 12 + 2 * (5 * 12 + 12) + 12 * 12 + 12);
  shape.heads = 5;
  EXPECT_THROW(count(shape), Error);
  shape.heads = 0;
  EXPECT_THROW(count(shape), Error);
  shape.heads = 4;
  shape.rotary = true;
  EXPECT_THROW(count(shape), Error);  // heads of three numbers
}

// By the definition, head by head: softmax(x W_q (m W_k)ᵀ / √D) m W_v, side by side, times W_out.
TEST(MultiHead, EqualsTheDefinition) {
  Parameters parameters;
  MultiHeadShape shape;
  shape.score = choose_score("scaled_dot");
  shape.query_in = 4;
  shape.key_in = 3;
  shape.heads = 2;
  shape.hidden = 3;
  shape.value_dim = 2;
  shape.out = 5;
  const MultiHeadAttention layer(parameters, "attention", shape);
  Random random(1);
  const auto values = support::random_numbers(random, parameters.size());
  support::Held<double> x(random_input("x", {3, 1, 4}, random));
  support::Held<double> m(random_input("m", {5, 1, 3}, random));
  Tape<double> tape(false);
  Graph<double> graph(tape, parameters, values.data(), nullptr);
  std::vector<double> weights(2 * 3 * 5);
  const auto got = support::numbers_of(layer(graph, x.tensor(false), m.tensor(false), {.weights = weights.data()}));

  const auto parameter = [&](const std::string& name) {
    for (const Parameter& p : parameters.list())
      if (p.name == "attention." + name) return values.data() + p.offset;
    throw std::runtime_error(name);
  };
  const auto project = [&](const std::vector<double>& rows, int64_t count_in, int64_t out, const std::string& name) {
    std::vector<double> y;
    for (std::size_t r = 0; r < rows.size() / static_cast<std::size_t>(count_in); ++r)
      for (int64_t o = 0; o < out; ++o) {
        double sum = parameter(name + ".bias")[o];
        for (int64_t n = 0; n < count_in; ++n)
          sum += rows[r * static_cast<std::size_t>(count_in) + static_cast<std::size_t>(n)] *
                 parameter(name + ".weight")[n * out + o];
        y.push_back(sum);
      }
    return y;
  };
  const auto q = project(x.values, 4, 6, "query");
  const auto k = project(m.values, 3, 6, "key");
  const auto v = project(m.values, 3, 4, "value");
  std::vector<double> heads(3 * 4);
  for (std::size_t h = 0; h < 2; ++h)
    for (std::size_t i = 0; i < 3; ++i) {
      std::vector<double> p(5);
      double sum = 0;
      for (std::size_t j = 0; j < 5; ++j) {
        double s = 0;
        for (std::size_t d = 0; d < 3; ++d) s += q[i * 6 + h * 3 + d] * k[j * 6 + h * 3 + d];
        p[j] = std::exp(s / std::sqrt(3.0));
        sum += p[j];
      }
      for (std::size_t j = 0; j < 5; ++j) {
        EXPECT_NEAR(weights[(h * 3 + i) * 5 + j], p[j] / sum, 1e-12);
        for (std::size_t d = 0; d < 2; ++d) heads[i * 4 + h * 2 + d] += p[j] / sum * v[j * 4 + h * 2 + d];
      }
    }
  support::expect_close(got, project(heads, 4, 5, "out"), 1e-12, "attention");
}

// Self and cross, masked, rotary, D_hid ≠ D_o: gradients of inputs and of all projections.
TEST(MultiHead, Gradients) {
  for (const bool rotary : {false, true}) {
    Parameters parameters;
    MultiHeadShape shape;
    shape.score = choose_score("scaled_dot");
    shape.query_in = 3;
    shape.key_in = 5;
    shape.heads = 2;
    shape.hidden = 2;
    shape.value_dim = 3;
    shape.out = 4;
    shape.rotary = rotary;
    const MultiHeadAttention layer(parameters, "attention", shape);
    Random random(2);
    Mask lengths;
    lengths.key_lengths = {4, 2};
    support::check_layer(
        parameters, {random_input("x", {3, 2, 3}, random), random_input("m", {4, 2, 5}, random)}, random,
        [&](auto& graph, const auto& x) { return std::vector{layer(graph, x[0], x[1], {.mask = lengths})}; });
    Parameters others;
    shape.key_in = 3;
    const MultiHeadAttention self(others, "attention", shape);
    Mask causal;
    causal.causal = Causal::top_left;
    support::check_layer(others, {random_input("x", {4, 2, 3}, random)}, random, [&](auto& graph, const auto& x) {
      return std::vector{self(graph, x[0], x[0], {.mask = causal})};
    });
  }
}

class Scores : public testing::TestWithParam<std::string> {};

// Every mechanism without a grid, and argmax: initial parameters work, and gradients are right.
TEST_P(Scores, ShapesAndGradients) {
  ScoreChoice choice = choose_score(GetParam());
  choice.heads = 2;
  choice.query_dim = choice.key_dim = 4;
  choice.inner = 3;
  choice.max_length = 9;
  Parameters parameters;
  const ScoreLayer layer(parameters, "score", choice);
  Random random(3);
  Mask mask;
  mask.key_lengths = {5, 3};
  const auto run = [&](auto& graph, const auto& x) {
    const auto y = layer(graph, x[0].split_heads(2), x[1].split_heads(2), x[2].split_heads(2), {.mask = mask});
    EXPECT_EQ(to_string(y), "[3, 2, 6]");
    return std::vector{y};
  };
  const std::vector<support::Input> inputs{random_input("q", {3, 2, 8}, random), random_input("k", {5, 2, 8}, random),
                                           random_input("v", {5, 2, 6}, random)};
  support::check_layer(parameters, inputs, random, run);
  std::vector<float> fresh(static_cast<std::size_t>(parameters.size()));
  parameters.initialize(fresh.data(), 1);
  std::vector<support::Held<float>> held(inputs.begin(), inputs.end());
  Tape<float> tape(false);
  Graph<float> graph(tape, parameters, fresh.data(), nullptr);
  const std::vector<Tensor<float>> x{held[0].tensor(), held[1].tensor(), held[2].tensor()};
  for (const double y : support::numbers_of(run(graph, x)[0])) EXPECT_TRUE(std::isfinite(y));
}

// A query without those before it: scores that read positions change, unless its position is given.
TEST_P(Scores, AQueryStandsWhereItIsPut) {
  ScoreChoice choice = choose_score(GetParam());
  choice.query_dim = choice.key_dim = 4;
  choice.max_length = 9;
  Parameters parameters;
  const ScoreLayer layer(parameters, "score", choice);
  Random random(4);
  const auto values = support::random_numbers(random, parameters.size());
  support::Held<double> q(random_input("q", {4, 1, 4}, random));
  support::Held<double> k(random_input("k", {6, 1, 4}, random));
  Tape<double> tape(false);
  Graph<double> graph(tape, parameters, values.data(), nullptr);
  const auto keys = k.tensor(false).split_heads(1);
  const auto last = [&](int64_t first, int64_t first_query) {
    const auto rows = q.tensor(false).slice(0, first, 4).split_heads(1);
    return support::numbers_of(
        layer(graph, rows, keys, keys, {.first_query = first_query}).slice(0, 3 - first, 4 - first));
  };
  const bool moved = std::abs(last(0, 0)[0] - last(1, 0)[0]) > 1e-9;
  for (const int64_t first : {1, 2, 3}) EXPECT_EQ(last(0, 0), last(first, first)) << first;
  const bool relative =
      GetParam() == "alibi" || GetParam() == "t5" || GetParam() == "shaw" || GetParam() == "transformer_xl";
  EXPECT_EQ(moved, relative);
}

std::vector<std::string> sequence_scores() {
  std::vector<std::string> names{"argmax"};
  for (const MechanismInfo* m : all_mechanisms())
    if (!m->grid()) names.emplace_back(m->name());
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Scores, testing::ValuesIn(sequence_scores()),
                         [](const testing::TestParamInfo<std::string>& p) { return p.param; });

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ScoreChoices, GridMechanismsAreRefusedByName) {
  for (const MechanismInfo* m : all_mechanisms()) {
    if (!m->grid()) continue;
    Parameters parameters;
    ScoreChoice choice = choose_score(m->name());
    choice.query_dim = choice.key_dim = 4;
    const std::string message = message_of([&] { ScoreLayer(parameters, "attention", choice); });
    EXPECT_NE(message.find(m->name()), std::string::npos) << message;
    EXPECT_NE(message.find("grid"), std::string::npos) << message;
  }
}

TEST(ScoreChoices, BadChoicesAreErrors) {
  EXPECT_NE(message_of([] { choose_score("nothing"); }).find("nothing"), std::string::npos);
  Parameters parameters;
  ScoreChoice unequal = choose_score("dot");
  unequal.query_dim = 3;
  unequal.key_dim = 4;
  EXPECT_THROW(ScoreLayer(parameters, "a", unequal), Error);
  for (const char* name : {"bilinear", "additive"}) {
    ScoreChoice mapped = choose_score(name);
    mapped.query_dim = 3;
    mapped.key_dim = 4;
    EXPECT_NO_THROW(ScoreLayer(parameters, name, mapped)) << name;
  }
  ScoreChoice table = choose_score("transformer_xl");
  table.query_dim = table.key_dim = 4;
  EXPECT_THROW(ScoreLayer(parameters, "b", table), Error);  // no longest sequence
  table.max_length = 4;
  Parameters own;
  const ScoreLayer layer(own, "c", table);
  std::vector<float> values(static_cast<std::size_t>(own.size()));
  Tape<float> tape(false);
  Graph<float> graph(tape, own, values.data(), nullptr);
  const Tensor<float> x = tape.make({5, 1, 4});
  std::fill_n(x.data, x.count(), 0.0F);
  const Tensor<float> long_one = x.split_heads(1);
  const Tensor<float> short_one = x.slice(0, 0, 4).split_heads(1);
  EXPECT_NO_THROW(layer(graph, short_one, short_one, short_one, {}));
  EXPECT_THROW(layer(graph, long_one, short_one, short_one, {}), Error);
  EXPECT_THROW(layer(graph, short_one, long_one, long_one, {}), Error);
}

}  // namespace
}  // namespace rapt::layers::test
