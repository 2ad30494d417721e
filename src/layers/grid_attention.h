#pragma once

#include <string>

#include "layers/basic.h"
#include "layers/score.h"

namespace rapt::inline v1::layers {

// What scores depend on besides the positions of the pixels. What is not read is not projected either.
enum class ScoreReads : std::uint8_t { positions, queries, queries_and_keys };

struct GridAttentionShape {
  ScoreChoice score;  // with the grid; heads and dims are filled from below
  ScoreReads reads = ScoreReads::positions;
  std::int64_t width = 0;  // of a pixel, before and after
  std::int64_t heads = 1;
  std::int64_t hidden = 0;  // D_hid of one head; 0: ⌈width / heads⌉
  // Each head has a matrix W^(h) [width, width] of its own: it mixes the pixels themselves, and the output projection
  // holds all W^(h). Otherwise a head's values are a projection to ⌈width / heads⌉ numbers.
  bool full_heads = true;
};

// Multi-head self-attention among the pixels of an image.
class GridAttention {
 public:
  GridAttention() = default;
  GridAttention(Parameters& parameters, const std::string& name, const GridAttentionShape& shape);

  const GridAttentionShape& shape() const { return shape_; }
  const ScoreLayer& score() const { return score_; }
  // Multiply-adds of one image, as the engine computes it: factorised scores cost no pairs of pixels.
  std::int64_t multiply_adds() const;

  // x [pixels, batch, width]
  template <class T>
  Tensor<T> operator()(Graph<T>& graph, const Tensor<T>& x) const;

 private:
  std::int64_t value_dim() const;
  // Weights that depend on no image, over the pixels themselves.
  bool same_for_all() const { return shape_.reads == ScoreReads::positions && shape_.full_heads; }
  template <class T>
  Tensor<T> mix_all(Graph<T>& graph, const Tensor<T>& x) const;

  GridAttentionShape shape_;
  Linear query_, key_, value_, out_;
  ScoreLayer score_;
};

}  // namespace rapt::inline v1::layers
