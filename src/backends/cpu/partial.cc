#include "rapt/partial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "backends/cpu/parallel.h"
#include "backends/host/storage.h"
#include "rapt/error.h"
#include "rapt/threads.h"

namespace rapt::inline v1 {
namespace {

[[noreturn]] void fail(const char* operation, const std::string& what) {
  throw Error(std::string(operation) + ": " + what);
}

// Names are built only for errors: merge() allocates nothing.
struct Name {
  const char* text;
  std::ptrdiff_t part = -1;  // of which part; −1: of the result

  std::string full() const { return (part < 0 ? "" : "parts[" + std::to_string(part) + "]: ") + text; }
};

void check(const char* operation, const Name& name, const ConstView& view, const Shape& shape) {
  if (view.shape != shape)
    fail(operation, name.full() + ": expected shape " + to_string(shape) + ", got " + to_string(view.shape));
  if (view.device.kind != Device::Kind::cpu)
    fail(operation, name.full() + ": expected an array on cpu, got one on " + to_string(view.device));
  if (!is_operand(view)) make_operand(operation, name.full().c_str(), view);  // which says what is wrong
}

void check_target(const char* operation, const Name& name, const View& view, const Shape& shape) {
  check(operation, name, view, shape);
  for (std::size_t n = 0; n < 4 && element_count(shape) > 0; ++n)
    if (view.shape[n] > 1 && view.strides[n] == 0)
      fail(operation, name.full() + ": expected strides above 0, so that rows are not written over each other, got " +
                          to_string(view.strides));
}

int threads_for(const char* operation, int threads) {
  if (threads < 0) fail(operation, "threads: expected 1 or more, or 0 for the default, got " + std::to_string(threads));
  return threads == 0 ? default_threads() : threads;
}

Shape check_parts(const char* operation, std::span<const Partial> parts) {
  if (parts.empty()) fail(operation, "parts: expected at least one, got none");
  const Shape shape = parts[0].out.shape;
  const Shape row{shape[0], shape[1], shape[2], 1};
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const auto part = static_cast<std::ptrdiff_t>(n);
    check(operation, {"out", part}, parts[n].out, shape);
    check(operation, {"row_max", part}, parts[n].row_max, row);
    check(operation, {"row_sum", part}, parts[n].row_sum, row);
    if (parts[n].out.dtype == Dtype::f64 && parts[n].row_max.dtype != Dtype::f64)
      fail(operation,
           Name{"row_max", part}.full() + ": expected f64 as out is, got " + name_of(parts[n].row_max.dtype));
  }
  return shape;
}

double read(const ConstView& view, std::int64_t b, std::int64_t h, std::int64_t i) {
  double value = 0;
  load_row(matrix_of(view, b, h), i, 1, &value);
  return value;
}

void write(const View& view, std::int64_t b, std::int64_t h, std::int64_t i, double value) {
  store_row(&value, 1, matrix_of(view, b, h), i);
}

// Some numbers of a row, in double.
struct Piece {
  static constexpr std::int64_t kMost = 64;
  double numbers[kMost] = {};

  Piece() = default;
  Piece(const ConstView& view, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t first, std::int64_t count) {
    load_row(columns(matrix_of(view, b, h), first), i, count, numbers);
  }
  void store(const View& view, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t first,
             std::int64_t count) const {
    store_row(numbers, count, columns(matrix_of(view, b, h), first), i);
  }

 private:
  static MatrixRef columns(MatrixRef matrix, std::int64_t first) {
    matrix.data = static_cast<char*>(matrix.data) + first * static_cast<std::int64_t>(size_of(matrix.dtype));
    return matrix;
  }
};

// The common maximum of a row's parts, and the sum of exponentials under it.
struct Row {
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;

  Row(std::span<const Partial> parts, std::int64_t b, std::int64_t h, std::int64_t i) {
    for (const Partial& part : parts)
      if (read(part.row_sum, b, h, i) != 0) max = std::max(max, read(part.row_max, b, h, i));
    for (const Partial& part : parts) sum += worth(part, b, h, i);
  }

  // What one part's average counts for.
  double worth(const Partial& part, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const double own = read(part.row_sum, b, h, i);
    return own == 0 ? 0 : own * std::exp(read(part.row_max, b, h, i) - max);
  }
};

// Calls f(b, h, i) for every row, in blocks that threads share.
template <class F>
void for_each_row(const Shape& shape, int threads, const F& f) {
  constexpr std::int64_t kRows = 16;
  const std::int64_t rows = shape[0] * shape[1] * shape[2];
  const auto block = [&](std::int64_t n, int) {
    for (std::int64_t r = n * kRows; r < std::min(rows, (n + 1) * kRows); ++r)
      f(r / (shape[1] * shape[2]), r / shape[2] % shape[1], r % shape[2]);
  };
  parallel_for((rows + kRows - 1) / kRows, threads, std::ref(block));
}

}  // namespace

void merge(std::span<const Partial> parts, const Merged& merged, int threads) {
  const char* op = "merge";
  const Shape shape = check_parts(op, parts);
  const Shape row_shape{shape[0], shape[1], shape[2], 1};
  if (merged.out) check_target(op, {"out"}, merged.out, shape);
  if (merged.row_max) check_target(op, {"row_max"}, merged.row_max, row_shape);
  if (merged.row_sum) check_target(op, {"row_sum"}, merged.row_sum, row_shape);
  if (merged.lse) check_target(op, {"lse"}, merged.lse, row_shape);
  for_each_row(shape, threads_for(op, threads), [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const Row row(parts, b, h, i);
    for (std::int64_t d = 0; d < shape[3] && merged.out; d += Piece::kMost) {
      const std::int64_t count = std::min(Piece::kMost, shape[3] - d);
      Piece sum;
      for (const Partial& part : parts) {
        const double worth = row.worth(part, b, h, i);
        if (worth == 0) continue;
        const Piece out(part.out, b, h, i, d, count);
        for (std::int64_t n = 0; n < count; ++n) sum.numbers[n] += worth / row.sum * out.numbers[n];
      }
      sum.store(merged.out, b, h, i, d, count);
    }
    if (merged.row_max) write(merged.row_max, b, h, i, row.max);
    if (merged.row_sum) write(merged.row_sum, b, h, i, row.sum);
    if (merged.lse)
      write(merged.lse, b, h, i, row.sum == 0 ? -std::numeric_limits<double>::infinity() : row.max + std::log(row.sum));
  });
}

void merge_backward(std::span<const Partial> parts, const Partial& merged, const ConstView& grad_out,
                    std::span<const PartialGradient> gradients, int threads) {
  const char* op = "merge_backward";
  const Shape shape = check_parts(op, parts);
  const Shape row_shape{shape[0], shape[1], shape[2], 1};
  if (gradients.size() != parts.size())
    fail(op, "gradients: expected " + std::to_string(parts.size()) + ", one for each part, got " +
                 std::to_string(gradients.size()));
  check(op, {"merged: out"}, merged.out, shape);
  check(op, {"grad_out"}, grad_out, shape);
  for (std::size_t n = 0; n < gradients.size(); ++n) {
    if (gradients[n].out)
      check_target(op, Name{"gradient of out", static_cast<std::ptrdiff_t>(n)}, gradients[n].out, shape);
    if (gradients[n].lse)
      check_target(op, Name{"gradient of lse", static_cast<std::ptrdiff_t>(n)}, gradients[n].lse, row_shape);
  }
  for_each_row(shape, threads_for(op, threads), [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const Row row(parts, b, h, i);
    for (std::size_t n = 0; n < parts.size(); ++n) {
      // out = Σ wₙ outₙ, wₙ = exp(lseₙ − lse): ∂outₙ = wₙ·g and ∂lseₙ = wₙ·g·(outₙ − out).
      const double worth = row.worth(parts[n], b, h, i);
      const double weight = worth == 0 ? 0 : worth / row.sum;
      double along = 0;
      for (std::int64_t d = 0; d < shape[3]; d += Piece::kMost) {
        const std::int64_t count = std::min(Piece::kMost, shape[3] - d);
        Piece grad;
        if (weight != 0) {
          grad = Piece(grad_out, b, h, i, d, count);
          const Piece own(parts[n].out, b, h, i, d, count), whole(merged.out, b, h, i, d, count);
          for (std::int64_t m = 0; m < count; ++m) {
            along += grad.numbers[m] * (own.numbers[m] - whole.numbers[m]);
            grad.numbers[m] *= weight;
          }
        }
        if (gradients[n].out) grad.store(gradients[n].out, b, h, i, d, count);
      }
      if (gradients[n].lse) write(gradients[n].lse, b, h, i, weight == 0 ? 0 : weight * along);
    }
  });
}

}  // namespace rapt::inline v1
