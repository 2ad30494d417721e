#pragma once

#include <string>

#include "layers/basic.h"
#include "layers/score.h"

namespace rapt::inline v1::layers {

// Which of the projections add a bias.
enum class ProjectionBias : std::uint8_t { none, output, all };

struct MultiHeadShape {
  ScoreChoice score;          // its heads and dims are filled from below
  std::int64_t query_in = 0;  // width of the vectors that queries are projected from
  std::int64_t key_in = 0;    // and of those that are attended to
  std::int64_t heads = 1;
  std::int64_t hidden = 0;     // D_hid of one head; 0: query_in / heads
  std::int64_t value_dim = 0;  // D_o of one head; 0: hidden
  std::int64_t out = 0;        // 0: query_in
  ProjectionBias bias = ProjectionBias::all;
  bool rotary = false;  // queries and keys are rotated by their positions
};

// Keys and values of earlier steps.
template <class T>
struct KeysValues {
  Tensor<T> k;  // [steps, batch, heads·hidden]
  Tensor<T> v;  // [steps, batch, heads·value_dim]
};

// Multi-head attention over any mechanism: projections, heads, output projection.
class MultiHeadAttention {
 public:
  MultiHeadAttention() = default;
  // Throws if the number of heads does not divide the width.
  MultiHeadAttention(Parameters& parameters, const std::string& name, const MultiHeadShape& shape);

  const MultiHeadShape& shape() const { return shape_; }
  const ScoreLayer& score() const { return score_; }

  // x [steps, batch, width]
  template <class T>
  Tensor<T> operator()(Graph<T>& graph, const Tensor<T>& x, const Tensor<T>& memory,
                       const AttentionOptions<T>& options) const;

  // The parts, for decoding step by step.
  template <class T>
  Tensor<T> queries(Graph<T>& graph, const Tensor<T>& x, std::int64_t first_step) const;
  template <class T>
  KeysValues<T> keys_values(Graph<T>& graph, const Tensor<T>& memory, std::int64_t first_step) const;
  template <class T>
  Tensor<T> attend(Graph<T>& graph, const Tensor<T>& q, const KeysValues<T>& memory,
                   const AttentionOptions<T>& options) const;
  template <class T>
  Tensor<T> project(Graph<T>& graph, const Tensor<T>& heads) const {
    return out_(graph, heads);
  }

 private:
  MultiHeadShape shape_;
  Linear query_, key_, value_, out_;
  ScoreLayer score_;
};

}  // namespace rapt::inline v1::layers
