#include "layers/grid_attention.h"

#include <cmath>

#include <gtest/gtest.h>

#include "layers/image_convolution.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "support/layers.h"

namespace rapt::layers::test {
namespace {

using std::int64_t;

struct Kind {
  const char* mechanism;
  ScoreReads reads;
  double content;
};

GridAttentionShape shape_of(const Kind& kind, bool full_heads) {
  GridAttentionShape shape;
  shape.score.mechanism = &mechanism(kind.mechanism);
  shape.score.grid = {2, 3};
  if (kind.content > 0) shape.score.settings = {{"content", kind.content}};
  shape.reads = kind.reads;
  shape.width = 5;
  shape.heads = 2;
  shape.full_heads = full_heads;
  return shape;
}

constexpr Kind kKinds[] = {{"quadratic", ScoreReads::positions, 0},
                           {"gaussian", ScoreReads::positions, 0},
                           {"learned_2d", ScoreReads::queries_and_keys, 1},
                           {"learned_2d", ScoreReads::queries, 0},
                           {"scaled_dot", ScoreReads::queries_and_keys, 0}};

TEST(GridAttentionLayer, Gradients) {
  for (const Kind& kind : kKinds)
    for (const bool full : {true, false}) {
      Parameters parameters;
      const GridAttention layer(parameters, "attention", shape_of(kind, full));
      Random random(7);
      support::check_layer(parameters, {support::random_input("x", {6, 2, 5}, random)}, random,
                           [&](auto& graph, const auto& x) { return std::vector{layer(graph, x[0])}; });
    }
}

// What a score does not read has no projection, so nothing useless is learned.
TEST(GridAttentionLayer, ProjectsOnlyWhatIsRead) {
  const auto names = [](const Kind& kind, bool full) {
    Parameters parameters;
    const GridAttention layer(parameters, "a", shape_of(kind, full));
    std::string text;
    for (const Parameter& p : parameters.list())
      if (p.name.ends_with(".weight")) text += p.name + " ";
    return text;
  };
  EXPECT_EQ(names(kKinds[0], true), "a.out.weight ");
  EXPECT_EQ(names(kKinds[0], false), "a.value.weight a.out.weight ");
  EXPECT_EQ(names(kKinds[2], true), "a.query.weight a.key.weight a.out.weight ");
  EXPECT_EQ(names(kKinds[3], true), "a.query.weight a.out.weight ");
}

// out_q = Σ_h Σ_k softmax(−α‖δ − Δ‖²)_k x_k W^(h) + b, as the theorem has it.
TEST(GridAttentionLayer, FullHeadsAreTheTheorems) {
  Parameters parameters;
  const GridAttention layer(parameters, "a", shape_of(kKinds[0], true));
  Random random(3);
  std::vector<double> values = support::random_numbers(random, parameters.size());
  const double* alpha = values.data() + parameters[layer.score().parameter("alpha")].offset;
  const double* center = values.data() + parameters[layer.score().parameter("center")].offset;
  const double* out = nullptr;
  const double* bias = nullptr;
  for (const Parameter& p : parameters.list()) {
    if (p.name == "a.out.weight") out = values.data() + p.offset;
    if (p.name == "a.out.bias") bias = values.data() + p.offset;
  }
  support::Held<double> x(support::random_input("x", {6, 1, 5}, random));
  Tape<double> tape(false);
  Graph<double> graph(tape, parameters, values.data(), nullptr);
  const std::vector<double> got = support::numbers_of(layer(graph, x.tensor(false)));
  std::vector<double> want;
  for (int q = 0; q < 6; ++q)
    for (int o = 0; o < 5; ++o) {
      double sum = bias[o];
      for (int h = 0; h < 2; ++h) {
        double weights[6], total = 0;
        for (int k = 0; k < 6; ++k) {
          const double down = k / 3 - q / 3 - center[2 * h], right = k % 3 - q % 3 - center[2 * h + 1];
          total += weights[k] = std::exp(-alpha[h] * (down * down + right * right));
        }
        for (int k = 0; k < 6; ++k)
          for (int d = 0; d < 5; ++d)
            sum += weights[k] / total * x.values[static_cast<std::size_t>(k * 5 + d)] * out[(h * 5 + d) * 5 + o];
      }
      want.push_back(sum);
    }
  support::expect_close(got, want, 1e-10, "attention");
  EXPECT_THROW(layer.score().parameter("gamma"), Error);
}

// Counted by hand for 6 pixels in 2 × 3, width 5, 2 heads of 3 numbers.
TEST(GridAttentionLayer, MultiplyAdds) {
  const auto count = [](const Kind& kind, bool full) {
    Parameters parameters;
    return GridAttention(parameters, "a", shape_of(kind, full)).multiply_adds();
  };
  EXPECT_EQ(count(kKinds[0], true), 6 * (10 * 5 + 10 * (2 + 3)));
  EXPECT_EQ(count(kKinds[1], true), 6 * (10 * 5 + 10 * 6));
  EXPECT_EQ(count(kKinds[2], true), 6 * (2 * 5 * 6 + 6 * 6 + 6 * (2 + 3) + 10 * 6 + 10 * 5));
  EXPECT_EQ(count(kKinds[4], false), 6 * (3 * 5 * 6 + 6 * 6 + 6 * 6 + 6 * 5));
}

TEST(ImageConvolutionLayer, Gradients) {
  for (const int64_t stride : {1, 2}) {
    Parameters parameters;
    const ImageConvolution layer(parameters, "c", {.in = 2, .out = 3, .stride = stride, .bias = true});
    Random random(9);
    EXPECT_EQ(layer.output(5), stride == 1 ? 5 : 3);
    EXPECT_EQ(layer.multiply_adds(5, 4), (stride == 1 ? 5 * 4 : 3 * 2) * 9 * 2 * 3);
    support::check_layer(parameters, {support::random_input("x", {2, 5, 4, 2}, random)}, random,
                         [&](auto& graph, const auto& x) { return std::vector{layer(graph, x[0])}; });
  }
  Parameters parameters;
  EXPECT_THROW(ImageConvolution(parameters, "even", {.in = 1, .out = 1, .kernel = 2}), Error);
  EXPECT_THROW(GroupNorm(parameters, "groups", 6, 4), Error);
}

}  // namespace
}  // namespace rapt::layers::test
