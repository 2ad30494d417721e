#include "attend/rotated_rows.h"

#include <cmath>

#include "attend/storage.h"

namespace rapt::inline v1 {
namespace {

// The rotations of one position, which all heads share.
template <class T>
class Rotation {
 public:
  Rotation(const Rotary& rotary, int direction) : rotary_(rotary), direction_(direction) {
    for (std::int64_t n = 0; n < rotary.dims / 2; ++n)
      frequencies_.push_back(std::pow(rotary.base, -2.0 * static_cast<double>(n) / static_cast<double>(rotary.dims)));
    cos_.resize(frequencies_.size());
    sin_.resize(frequencies_.size());
  }

  void set_position(std::int64_t position) {
    if (known_ && position == position_) return;
    known_ = true;
    position_ = position;
    for (std::size_t n = 0; n < frequencies_.size(); ++n) {
      const double angle = static_cast<double>(position) * frequencies_[n];
      cos_[n] = static_cast<T>(std::cos(angle));
      sin_[n] = static_cast<T>(direction_ * std::sin(angle));
    }
  }

  void apply(T* row) const {
    const std::size_t half = frequencies_.size();
    for (std::size_t n = 0; n < half; ++n)
      rotate(cos_[n], sin_[n], rotary_.interleaved ? row + 2 * n : row + n,
             rotary_.interleaved ? row + 2 * n + 1 : row + n + half);
  }

 private:
  static void rotate(T c, T s, T* a, T* b) {
    const T x = *a, y = *b;
    *a = x * c - y * s;
    *b = x * s + y * c;
  }

  const Rotary& rotary_;
  const int direction_;
  bool known_ = false;
  std::int64_t position_ = 0;
  std::vector<double> frequencies_;
  std::vector<T> cos_, sin_;
};

template <class T>
void add_row(const std::vector<T>& row, const View& target, std::int64_t b, std::int64_t h, std::int64_t r) {
  const MatrixRef matrix = matrix_of(target, b, h);
  std::vector<T> sum(row.size());
  load_row(matrix, r, static_cast<std::int64_t>(row.size()), sum.data());
  for (std::size_t d = 0; d < row.size(); ++d) sum[d] += row[d];
  store_row(sum.data(), static_cast<std::int64_t>(row.size()), matrix, r);
}

}  // namespace

RotatedRows::RotatedRows(Problem& problem) : problem_(problem) {
  if (problem.rotary.dims == 0) return;
  if (problem.is_double) {
    rotate<double>(q_, problem.q, true);
    rotate<double>(k_, problem.k, false);
  } else {
    rotate<float>(q_, problem.q, true);
    rotate<float>(k_, problem.k, false);
  }
}

std::int64_t RotatedRows::position(bool queries, std::int64_t b, std::int64_t row) const {
  return problem_.first_key + row + (queries ? problem_.query_shift(b) : 0);
}

template <class T>
void RotatedRows::rotate(Side& side, Operand& operand, bool queries) {
  // Batches that share a row of q may stand at positions of their own.
  const Operand given = operand;
  operand.batches = queries && problem_.first_query.size() > 1 ? problem_.batch : given.batches;
  operand.dtype = dtype_of<T>();
  operand.row_stride = given.dim;
  operand.head_stride = given.rows * given.dim;
  operand.batch_stride = given.heads * operand.head_stride;
  std::vector<T>& rows = [&]() -> std::vector<T>& {
    if constexpr (std::is_same_v<T, float>) return side.rows_f32;
    else return side.rows_f64;
  }();
  rows.resize(static_cast<std::size_t>(operand.batches * operand.batch_stride));
  operand.data = rows.data();
  Rotation<T> rotation(problem_.rotary, 1);
  for (std::int64_t r = 0; r < given.rows; ++r)
    for (std::int64_t b = 0; b < operand.batches; ++b) {
      rotation.set_position(position(queries, b, r));
      for (std::int64_t h = 0; h < given.heads; ++h) {
        T* row = rows.data() + b * operand.batch_stride + h * operand.head_stride + r * operand.row_stride;
        load_row(given.at(b, h * given.group), r, given.dim, row);
        rotation.apply(row);
      }
    }
  side.operand = operand;
}

void RotatedRows::redirect(Gradients& gradients) {
  if (problem_.rotary.dims == 0) return;
  if (problem_.is_double) {
    redirect<double>(q_, gradients.q);
    redirect<double>(k_, gradients.k);
  } else {
    redirect<float>(q_, gradients.q);
    redirect<float>(k_, gradients.k);
  }
}

template <class T>
void RotatedRows::redirect(Side& side, View& gradient) {
  side.target = gradient;
  if (!gradient) return;
  std::vector<T>& rows = [&]() -> std::vector<T>& {
    if constexpr (std::is_same_v<T, float>) return side.grad_f32;
    else return side.grad_f64;
  }();
  const Operand& o = side.operand;
  rows.resize(static_cast<std::size_t>(o.batches * o.batch_stride));
  side.grad = View{rows.data(), dtype_of<T>(), {o.batches, o.heads, o.rows, o.dim}, {}, {}};
  side.grad.strides = contiguous_strides(side.grad.shape);
  gradient = side.grad;
}

void RotatedRows::rotate_back() {
  if (problem_.rotary.dims == 0) return;
  for (const bool queries : {true, false}) {
    Side& side = queries ? q_ : k_;
    if (!side.target) continue;
    if (problem_.is_double) rotate_back<double>(side, queries);
    else rotate_back<float>(side, queries);
  }
}

template <class T>
void RotatedRows::rotate_back(Side& side, bool queries) {
  const Operand& o = side.operand;
  std::vector<T> row(static_cast<std::size_t>(o.dim));
  store_zeros(side.target);
  Rotation<T> rotation(problem_.rotary, -1);
  for (std::int64_t r = 0; r < o.rows; ++r)
    for (std::int64_t b = 0; b < o.batches; ++b) {
      rotation.set_position(position(queries, b, r));
      for (std::int64_t h = 0; h < o.heads; ++h) {
        load_row(matrix_of(side.grad, b, h), r, o.dim, row.data());
        rotation.apply(row.data());
        add_row(row, side.target, side.target.shape[0] == 1 ? 0 : b, h, r);
      }
    }
}

}  // namespace rapt::inline v1
