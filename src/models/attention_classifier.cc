#include "models/attention_classifier.h"

#include <algorithm>

#include "rapt/error.h"
#include "rapt/registry.h"
#include "tensor/pooling.h"

namespace rapt::inline v1::models {
namespace {

using layers::Graph;
using layers::ScoreReads;

layers::GridAttentionShape shape_of(const AttentionClassifierConfig& config, const std::array<std::int64_t, 2>& grid) {
  layers::GridAttentionShape shape;
  const auto use = [&](std::string_view name, ScoreReads reads) {
    shape.score.mechanism = &mechanism(name);
    shape.reads = reads;
  };
  switch (config.encoding) {
    case Encoding::quadratic: use("quadratic", ScoreReads::positions); break;
    case Encoding::gaussian: use("gaussian", ScoreReads::positions); break;
    case Encoding::learned_2d:
      use("learned_2d", ScoreReads::queries_and_keys);
      shape.score.settings = {{"content", 1}};
      break;
    case Encoding::learned_2d_positions: use("learned_2d", ScoreReads::queries); break;
    case Encoding::absolute:
    case Encoding::sinusoidal: use("scaled_dot", ScoreReads::queries_and_keys); break;
  }
  shape.score.grid = grid;
  shape.width = config.width;
  shape.heads = config.heads;
  shape.hidden = config.head_dim;
  shape.full_heads = config.full_heads;
  return shape;
}

layers::Positions positions_of(Encoding encoding) {
  if (encoding == Encoding::absolute) return layers::Positions::learned;
  return encoding == Encoding::sinusoidal ? layers::Positions::sinusoidal : layers::Positions::none;
}

}  // namespace

AttentionClassifier::AttentionClassifier(const AttentionClassifierConfig& config, const ImageSizes& sizes,
                                         layers::Parameters& parameters)
    : config_(config), sizes_(sizes) {
  if (config.patch < 1 || sizes.rows % config.patch != 0 || sizes.cols % config.patch != 0)
    throw Error("image model: patch: expected a divisor of the image's sizes, got " + std::to_string(config.patch) +
                " for images of " + std::to_string(sizes.rows) + " × " + std::to_string(sizes.cols) + " pixels");
  grid_ = {sizes.rows / config.patch, sizes.cols / config.patch};
  embedding_ = layers::Linear(parameters, "embedding", config.patch * config.patch * sizes.channels, config.width);
  layers::PositionsShape positions;
  positions.kind = positions_of(config.encoding);
  positions.width = config.width;
  positions.max_length = grid_[0] * grid_[1];
  positions_ = layers::PositionalEncoding(parameters, "positions", positions);
  const layers::GridAttentionShape shape = shape_of(config, grid_);
  for (std::int64_t l = 0; l < config.layers; ++l) {
    const std::string name = "layer." + std::to_string(l);
    Block block;
    block.attention_norm = layers::LayerNorm(parameters, name + ".attention_norm", config.width);
    block.attention = layers::GridAttention(parameters, name + ".attention", shape);
    block.inner_norm = layers::LayerNorm(parameters, name + ".inner_norm", config.width);
    block.inner = layers::Mlp(parameters, name + ".inner", config.width, config.inner, config.width, Activation::gelu,
                              config.dropout);
    blocks_.push_back(std::move(block));
  }
  norm_ = layers::LayerNorm(parameters, "norm", config.width);
  output_ = layers::Linear(parameters, "output", config.width, sizes.classes);
}

const layers::GridAttention& AttentionClassifier::attention(std::int64_t layer) const {
  return blocks_.at(static_cast<std::size_t>(layer)).attention;
}

std::int64_t AttentionClassifier::multiply_adds() const {
  const std::int64_t pixels = grid_[0] * grid_[1], width = config_.width;
  std::int64_t count = pixels * config_.patch * config_.patch * sizes_.channels * width + width * sizes_.classes;
  for (const Block& block : blocks_) count += block.attention.multiply_adds() + pixels * 2 * width * config_.inner;
  return count;
}

// [patches, count, patch·patch·channels]: the pixels of a patch row by row.
template <class T>
Tensor<T> AttentionClassifier::patches(Tape<T>& tape, const T* images, std::int64_t count) const {
  const std::int64_t side = config_.patch, run = side * sizes_.channels, row = sizes_.cols * sizes_.channels;
  Tensor<T> result = tape.make({grid_[0] * grid_[1], count, side * run});
  result.grad = nullptr;  // the image's own is not needed
  T* to = result.data;
  for (std::int64_t r = 0; r < grid_[0]; ++r)
    for (std::int64_t c = 0; c < grid_[1]; ++c)
      for (std::int64_t n = 0; n < count; ++n)
        for (std::int64_t a = 0; a < side; ++a)
          to = std::copy_n(images + (n * sizes_.rows + r * side + a) * row + c * run, run, to);
  return result;
}

template <class T>
Tensor<T> AttentionClassifier::logits(Graph<T>& graph, const T* images, std::int64_t count) const {
  Tensor<T> x = positions_(graph, embedding_(graph, patches(graph.tape, images, count)));
  for (const Block& block : blocks_) {
    const Tensor<T> attended = block.attention(graph, block.attention_norm(graph, x));
    x = add(graph.tape, x, graph.dropout(attended, config_.dropout));
    const Tensor<T> inner = block.inner(graph, block.inner_norm(graph, x));
    x = add(graph.tape, x, graph.dropout(inner, config_.dropout));
  }
  return output_(graph, mean_pool(graph.tape, norm_(graph, x), 0));
}

template Tensor<float> AttentionClassifier::logits(Graph<float>&, const float*, std::int64_t) const;
template Tensor<double> AttentionClassifier::logits(Graph<double>&, const double*, std::int64_t) const;

}  // namespace rapt::inline v1::models
