#pragma once

#include "backends/cuda/factorized/axes.h"

namespace rapt::inline v1::cuda::factorized {

// out = (Wr ⊗ Wc) in for every batch and head of out; to_keys: with the transpose, summed over the batches and heads of
// `in` that share one of out's.
struct GridProduct {
  Array in, out;                                // of the same type
  std::int32_t in_batches = 1, in_heads = 1;    // of `in`, as the problem sees it
  std::int32_t out_batches = 1, out_heads = 1;  // of `out`; its group is 1
  bool to_keys = false;
};
// Sets *axes.redo where a result is not finite: a hidden number may have been multiplied by 0.
void multiply_grid(const Axes& axes, const GridProduct& product, Workspace& workspace);

// in[b, h] times the matrices of one axis alone, in f32: [batches, heads, rows·cols, dim].
float* multiply_axis(const Axes& axes, const Array& in, int batches, int heads, bool along_rows, bool to_keys,
                     Workspace& workspace);

}  // namespace rapt::inline v1::cuda::factorized
