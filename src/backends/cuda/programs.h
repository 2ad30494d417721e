#pragma once

#include <cuda_runtime.h>

#include "backends/cuda/call.h"

namespace rapt::inline v1 {

class MechanismInfo;

namespace cuda {

// The gradient of a bias, [batches, heads, rows, keys]: each tile of it sums over the batches, heads and queries that
// share it.
struct BiasGradient {
  Array out;
  std::int32_t batches = 1, heads = 1, rows = 1;
};

// The gradient of one relative table by offset, of every batch and head apart.
struct TableGradient {
  std::int32_t slot = 0;  // −1: the output table
  float* out = nullptr;   // [batch·heads][splits][offsets][cols]
  std::int32_t splits = 1;
};

// The kernels of one mechanism: those that serve every call, and the fast ones. They start on the stream and return.
struct Programs {
  void (*forward)(const Call&, const ForwardOutputs&, cudaStream_t);
  void (*weights)(const Call&, const RowStatistics&, const RequestedWeights&, cudaStream_t);
  void (*statistics)(const Call&, const RowStatistics&, const RequestedStatistics&, cudaStream_t);
  void (*backward_queries)(const Call&, const BackwardArguments&, cudaStream_t);
  void (*backward_keys)(const Call&, const BackwardArguments&, cudaStream_t);
  void (*backward_bias)(const Call&, const BackwardArguments&, const BiasGradient&, cudaStream_t);
  void (*backward_table)(const Call&, const BackwardArguments&, const TableGradient&, cudaStream_t);
  // On the tensor cores; null where the mechanism's scores cannot be computed there.
  bool (*takes_fast_forward)(const Call&, const ForwardOutputs&) = nullptr;
  std::int64_t (*fast_memory)(const Call&) = nullptr;
  // False: nothing was started, since the copy engine does not take the arrays.
  bool (*fast_forward)(const Call&, const ForwardOutputs&, void* memory, cudaStream_t) = nullptr;
};

// Null: the mechanism has no kernels for a device.
const Programs* programs_of(const MechanismInfo& mechanism);

inline constexpr int kTile = 64;  // queries and keys of a tile

}  // namespace cuda
}  // namespace rapt::inline v1
