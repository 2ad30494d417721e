#pragma once

#include "backends/cuda/memory.h"
#include "backends/cuda/programs.h"

// The softmax along one axis of a grid, for every head. Under a score f(row) + g(col) a pair's weight is the product of
// two such weights.
namespace rapt::inline v1::cuda::factorized {

inline constexpr int kFiber = 16;  // numbers along an axis that a thread works on at a time, or half as many

// Matrices of an axis, [heads][size][pitch]; past `size` numbers a line has zeros.
struct Axis {
  std::int32_t size = 1, pitch = 8;
  float* by_key = nullptr;    // [key][query]: weights
  float* by_query = nullptr;  // [query][key]: weights
  // [query][key]: w·(δ − E δ) and w·(δ² − E δ²), δ counted from `about`; null: not wanted, like by_query.
  float* first = nullptr;
  float* second = nullptr;
  double* about = nullptr;  // [heads]
  double* top = nullptr;    // [heads][query]: the largest score
  double* sum = nullptr;    // [heads][query]: Σ exp(score − top)

  __host__ __device__ std::int64_t matrix() const { return static_cast<std::int64_t>(size) * pitch; }
};

struct Axes {
  Axis row, col;
  HeadForm* forms = nullptr;  // [heads]
  int* redo = nullptr;        // not 0: the form does not separate, or its numbers are not finite
};

// Computes all of it from the mechanism's form.
Axes make_axes(const Call& call, double scale, int rows, const FactorizedPrograms& programs, bool backward,
               Workspace& workspace);

// What the softmax of each row of the problem has: its largest score, its sum, and lse.
void store_rows(const Call& call, const Axes& axes, const RowStatistics& rows, const Array& lse, cudaStream_t stream);

}  // namespace rapt::inline v1::cuda::factorized
