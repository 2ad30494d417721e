#pragma once

#include <span>
#include <string>
#include <vector>

#include "layers/basic.h"
#include "layers/score.h"
#include "tensor/grid.h"

namespace rapt::inline v1::layers {

struct SharedAttentionShape {
  ScoreChoice score;        // its heads and dims are filled from below
  std::int64_t map_in = 0;  // width of the source of the map, the skip connection
  std::int64_t width = 0;   // of each task's numbers, in and out
  std::int64_t tasks = 1;   // value sets
  std::int64_t heads = 1;
  std::int64_t hidden = 0;      // of one head's queries and keys; 0: map_in / heads
  std::int64_t value_dim = 0;   // of one head's values; 0: width / heads
  bool one_projection = false;  // q = k: one matrix for both, as in MulT's shared attention
  bool norm = true;             // values are made from the task's numbers after a layer norm
  Grid grid;                    // a learned bias by the distance of two cells on this grid; none where empty
  std::int64_t window = 0;      // squares of so many cells attend within themselves; 0: the whole grid
};

// MulT's shared attention: queries and keys from one source, values from every task, one map for all. Each task has an
// output projection and a residual of its own.
class SharedAttention {
 public:
  SharedAttention() = default;
  // Throws if the number of heads does not divide a width, or the window does not divide the grid.
  SharedAttention(Parameters& parameters, const std::string& name, const SharedAttentionShape& shape);

  const SharedAttentionShape& shape() const { return shape_; }

  // map_from [steps, batch, map_in]; tasks: for each [steps, batch, width], as are the results. `weights` as in
  // AttentionCall.
  template <class T>
  std::vector<Tensor<T>> operator()(Graph<T>& graph, const Tensor<T>& map_from, std::span<const Tensor<T>> tasks,
                                    T* weights = nullptr) const;

  // Multiply-adds of one sequence of so many steps: projections and attention.
  std::int64_t multiply_adds(std::int64_t steps) const;

 private:
  struct Task {
    LayerNorm norm;
    Linear value, out;
  };

  SharedAttentionShape shape_;
  Linear query_, key_;
  ScoreLayer score_;
  ParameterId bias_;
  std::vector<Task> tasks_;
};

}  // namespace rapt::inline v1::layers
