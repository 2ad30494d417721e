#pragma once

#include <array>
#include <vector>

#include "layers/grid_attention.h"
#include "layers/positions.h"
#include "models/image_config.h"

namespace rapt::inline v1::models {

// An image is cut into patches, whose numbers are projected to one vector each; layers of self-attention over their
// grid and feed-forward layers, both with residuals and norms before them; the mean over the grid; a linear layer.
class AttentionClassifier {
 public:
  // Throws if patches do not tile the image.
  AttentionClassifier(const AttentionClassifierConfig& config, const ImageSizes& sizes, layers::Parameters& parameters);

  const AttentionClassifierConfig& config() const { return config_; }
  // Rows and columns of patches.
  const std::array<std::int64_t, 2>& grid() const { return grid_; }
  // The attention of one layer.
  const layers::GridAttention& attention(std::int64_t layer) const;
  // Multiply-adds of one image's forward pass.
  std::int64_t multiply_adds() const;

  // images [count, rows, cols, channels] → [count, classes]
  template <class T>
  Tensor<T> logits(layers::Graph<T>& graph, const T* images, std::int64_t count) const;

 private:
  struct Block {
    layers::LayerNorm attention_norm;
    layers::GridAttention attention;
    layers::LayerNorm inner_norm;
    layers::Mlp inner;
  };

  template <class T>
  Tensor<T> patches(Tape<T>& tape, const T* images, std::int64_t count) const;

  AttentionClassifierConfig config_;
  ImageSizes sizes_;
  std::array<std::int64_t, 2> grid_{};
  layers::Linear embedding_;
  layers::PositionalEncoding positions_;
  std::vector<Block> blocks_;
  layers::LayerNorm norm_;
  layers::Linear output_;
};

}  // namespace rapt::inline v1::models
