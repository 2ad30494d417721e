#pragma once

#include "backends/cuda/factorized/axes.h"
#include "backends/cuda/prepared_call.h"

// Scores that are f(row offset) + g(column offset): a pass over the columns of the grid and one over its rows, time
// O(N·(rows + cols)). Where a number is not finite, the general kernels compute everything again.
namespace rapt::inline v1::cuda::factorized {

// By mechanism, options and types; the numbers of the parameters are checked on the device.
bool takes(const Problem& problem, const Outputs& outputs);
bool takes_gradients(const Problem& problem, const BackwardRequest& request);

void forward(const Problem& problem, const Call& call, const ForwardOutputs& outputs, Workspace& workspace);

struct Gradients {
  RowStatistics rows;             // of the softmax
  const float* values = nullptr;  // [heads][slots], of each head apart; null: not wanted
  const int* redo = nullptr;      // not 0: all gradients are to be computed again
};
// Writes the gradients of the values; those of q and k are 0.
Gradients backward(const Problem& problem, const Call& call, const BackwardRequest& request, bool wants_values,
                   Workspace& workspace);

}  // namespace rapt::inline v1::cuda::factorized
