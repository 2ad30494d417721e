#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "attend/problem.h"
#include "backends/cpu/buffer.h"
#include "backends/cpu/simd/kernels.h"

// A score f(row offset) + g(column offset) has the weights Wr ⊗ Wc, Wr a softmax over the grid's rows and Wc over its
// columns: out is a pass over columns and a pass over rows, the same weights for every batch.
namespace rapt::inline v1::factorized {

// The coefficients of the form times the scale, and their derivatives in the mechanism's slots.
struct Form {
  enum Term { kConstant, kRow, kCol, kRowRow, kColCol, kRowCol, kTerms };
  double coefficient[kTerms] = {};
  double derivative[kTerms][kMaxSlots] = {};
};

Form form_of(const Problem& problem, std::int64_t h);

// The softmax along one axis of the grid.
struct Axis {
  Axis(std::int64_t length, double linear, double square);

  std::int64_t size = 0;
  std::vector<double> weights;     // [query, key]
  std::vector<std::int64_t> best;  // [query]: a key of largest score
  std::vector<double> sum;         // [query]: Σ exp(score − best score)
  double about = 0;                // moments of offsets are taken about this one, near which the weight is
};

// The matrices of an axis in the compute type, [query, key]: w, w·(δ − E δ), w·(δ² − E δ²) and w·δ, with δ counted from
// `about`. Centred ones need no subtraction of large sums afterwards.
template <class T>
struct AxisMoments {
  explicit AxisMoments(const Axis& axis);

  std::int64_t size = 0;
  std::vector<T> plain, first, second, shifted;
  std::vector<T> mean;  // [query]: E δ
};

template <class T>
std::vector<T> rounded_weights(const Axis& axis);

// Memory aligned for vectors, which only grows. Growing discards the contents.
template <class T>
class Growing {
 public:
  T* reserve(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > memory_.size()) memory_ = Buffer(bytes);
    return memory_.template as<T>();
  }

 private:
  Buffer memory_;
};

enum class Direction : std::uint8_t { to_queries, to_keys };

// A grid of vectors in memory: [rows][stride], in each row [cols][width].
template <class T>
struct Layout {
  Layout(const Problem& problem, const Kernels<T>& table, std::int64_t dim);

  const Kernels<T>* kernels = nullptr;
  std::int64_t rows = 0, cols = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;

  std::int64_t size() const { return rows * stride; }
  T* at(T* grid, std::int64_t r, std::int64_t c) const { return grid + r * stride + c * width; }

  // The columns of one row, or the rows of the whole grid, multiplied by a [size, size] or by its transpose.
  void multiply_columns(const std::vector<T>& a, Direction direction, const T* in, T* out) const;
  void multiply_rows(const std::vector<T>& a, Direction direction, const T* in, T* out, bool accumulate) const;
};

// How many numbers of each vector are worked on at a time: what keeps a grid of them in the L2 cache. The same for any
// number of threads.
std::int64_t slice_width(const Problem& problem);

// The columns [first, …) of a matrix's rows.
inline MatrixRef columns_from(MatrixRef matrix, std::int64_t first) {
  matrix.data = static_cast<char*>(matrix.data) + first * static_cast<std::int64_t>(size_of(matrix.dtype));
  return matrix;
}

template <class T>
bool all_finite(const T* values, std::int64_t count) {
  return std::all_of(values, values + count, [](T x) { return std::isfinite(x); });
}

// Weights below the normal numbers count as 0, as in the other paths.
template <class T>
T without_denormals(double x) {
  constexpr double kSmallest = static_cast<double>(std::numeric_limits<T>::min());
  return x < kSmallest && x > -kSmallest ? T(0) : static_cast<T>(x);
}

}  // namespace rapt::inline v1::factorized
