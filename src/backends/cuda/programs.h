#pragma once

#include <cuda_runtime.h>

#include "backends/cuda/call.h"

namespace rapt::inline v1 {

class MechanismInfo;
struct Problem;

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

// The gradient of a formula's table through one of its reads, added to `out`: of every batch and head apart.
struct FreeTableGradient {
  std::int32_t table = 0;
  std::int32_t read = 0;  // among all reads of tables in the score
  float* out = nullptr;   // [batch·heads][splits][rows·cols]
  std::int32_t splits = 1;
};

// What the backward pass on the tensor cores reads and writes.
struct FastGradients {
  Array grad_out, dq, dk, dv;  // data null: not wanted
  // [batch·heads][padded_queries]: the logarithm of the sum to base 2 and δ. Past the end and in blind rows the first is ∞,
  // so that p = 0.
  const float* log2_sum = nullptr;
  const float* delta = nullptr;
  float* value_grads = nullptr;  // [batch·heads][value_parts][slots]; null: not wanted
  // Of dense rules: of a bias that every batch, head and query has its own of; and of sigmoid's b, [batch·heads][value_parts].
  Array dbias;  // in f32 or the type of q; data null: not wanted. Tiles that a mask hides are left as they are
  BiasGradient shared_bias;      // of one that some share; out.data null: not wanted
  float* shift_grads = nullptr;  // null: not wanted
  int* redo = nullptr;     // set where a gradient is not finite: the general kernels then compute all of them again
  void* memory = nullptr;  // gradient_memory bytes
  std::int32_t padded_queries = 0;
  std::int32_t heads_together = 1;
  // For the gradient of a table of numbers by position: sums over 64 queries each, [batch·heads][tiles][groups][width].
  float* windows = nullptr;
  std::int32_t table_slot = 0, first_tile = 0, window_tiles = 0, window_width = 0;
};

// At least 128 more than there are queries, so that the last tile of any kernel ends inside.
inline std::int32_t padded_queries(std::int32_t queries) { return (queries + 127) / 128 * 128 + 128; }

// The kernels for the tensor cores. Those that return false started nothing, since the copy engine does not take the
// arrays.
struct FastPrograms {
  bool (*takes)(const Call&, const ForwardOutputs&);
  std::int64_t (*memory)(const Call&);
  bool (*forward)(const Call&, const ForwardOutputs&, void* memory, cudaStream_t);
  bool (*takes_gradients)(const Call&, const FastGradients&);
  std::int64_t (*value_parts)(const Call&);
  std::int64_t (*gradient_memory)(const Call&, const FastGradients&);
  bool (*gradients)(const Call&, const FastGradients&, cudaStream_t);
  // Of a table of numbers by position; its splits are 1. Null: the mechanism has none.
  std::int64_t (*table_memory)(const Call&);
  bool (*table)(const Call&, const FastGradients&, const TableGradient&, cudaStream_t);
};

// The coefficients of a head's QuadraticForm times the scale, and their slopes in the mechanism's slots.
struct HeadForm {
  enum Term { kConstant, kRow, kCol, kRowRow, kColCol, kRowCol, kTerms };
  double coefficient[kTerms];
  double slope[kTerms][kMaxSlots];
};

// What the passes over a grid need of a mechanism whose score is such a form.
struct FactorizedPrograms {
  void (*form)(const Call&, double scale, HeadForm* of_heads, cudaStream_t);
  // The general forward pass, which does nothing where *gate is 0.
  void (*forward_again)(const Call&, const ForwardOutputs&, const int* gate, cudaStream_t);
};

// The kernels of element-wise scores: sums of pair() over the dimensions, under softmax. They read rows as tiles.
struct PairPrograms {
  bool has_fast;  // the mechanism has a fast form
  // Rows → tiles, in the fast form where there is one; the tiles' arrays are there already.
  void (*tiles)(const Array& from, int rows, int inner, const PairTiles& to, cudaStream_t);
  // Of the fast form: fast_weights and fast_offsets from the weights of `heads` heads.
  void (*weights)(const float* from, int heads, int inner, int dims, float* weights, float* offsets, cudaStream_t);
  void (*forward)(const Call&, const ForwardOutputs&, cudaStream_t);
  // `low`: what is wanted has the 16 bits of call.storage, so that weights may be rounded to it.
  void (*means)(const Call&, const BackwardArguments&, bool low, cudaStream_t);
  // All gradients at once, summed over the head's `groups` of keys: dq, dk and dv are added to; value_grads and
  // pair_weight_grads have groups² parts.
  void (*gradients)(const Call&, const BackwardArguments&, int groups, bool low, cudaStream_t);
};

// The kernels of one mechanism: those that serve every call, and the fast ones. They are launched on the stream,
// without waiting.
struct Programs {
  void (*forward)(const Call&, const ForwardOutputs&, cudaStream_t);
  void (*weights)(const Call&, const RowStatistics&, const RequestedWeights&, cudaStream_t);
  void (*statistics)(const Call&, const RowStatistics&, const RequestedStatistics&, cudaStream_t);
  void (*backward_queries)(const Call&, const BackwardArguments&, cudaStream_t);
  void (*backward_keys)(const Call&, const BackwardArguments&, cudaStream_t);
  void (*backward_bias)(const Call&, const BackwardArguments&, const BiasGradient&, cudaStream_t);
  void (*backward_table)(const Call&, const BackwardArguments&, const TableGradient&, cudaStream_t);
  // Null: the mechanism reads no tables at indices of its own.
  void (*backward_free_table)(const Call&, const BackwardArguments&, const FreeTableGradient&, cudaStream_t) = nullptr;
  const FastPrograms* fast = nullptr;              // null: the tensor cores cannot compute the mechanism's scores
  const FactorizedPrograms* factorized = nullptr;  // null: its score is no quadratic form
  const PairPrograms* pairs = nullptr;             // null: its score is not element-wise
};

inline constexpr int kMaxPairDims = 256;  // of the rows of an element-wise score

// Null: the mechanism has no kernels for a device.
const Programs* programs_of(const MechanismInfo& mechanism);
const Programs* programs_of(const Problem& problem);

inline constexpr int kTile = 64;  // queries and keys of a tile

}  // namespace cuda
}  // namespace rapt::inline v1
