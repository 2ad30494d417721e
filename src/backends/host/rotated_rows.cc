#include "backends/host/rotated_rows.h"

#include <cmath>

#include "backends/host/storage.h"

namespace rapt::inline v1 {
RotatedRows::Rotation::Rotation(const Rotary& rotary) : rotary_(rotary) {
  for (std::int64_t n = 0; n < rotary.dims / 2; ++n)
    frequencies_.push_back(std::pow(rotary.base, -2.0 * static_cast<double>(n) / static_cast<double>(rotary.dims)));
  cos_.resize(frequencies_.size());
  sin_.resize(frequencies_.size());
}

void RotatedRows::Rotation::set(std::int64_t position, int direction) {
  if (position == position_ && direction == direction_) return;
  position_ = position;
  direction_ = direction;
  for (std::size_t n = 0; n < frequencies_.size(); ++n) {
    const double angle = static_cast<double>(position) * frequencies_[n];
    cos_[n] = std::cos(angle);
    sin_[n] = direction * std::sin(angle);
  }
}

template <class T>
void RotatedRows::Rotation::apply(T* row) const {
  const std::size_t half = frequencies_.size();
  for (std::size_t n = 0; n < half; ++n) {
    T* a = rotary_.interleaved ? row + 2 * n : row + n;
    T* b = rotary_.interleaved ? row + 2 * n + 1 : row + n + half;
    const T c = static_cast<T>(cos_[n]), s = static_cast<T>(sin_[n]);
    const T x = *a, y = *b;
    *a = x * c - y * s;
    *b = x * s + y * c;
  }
}

void RotatedRows::reserve() {
  if (problem_.rotary.dims == 0) return;
  q_.given = problem_.q;
  k_.given = problem_.k;
  if (problem_.is_double) {
    reserve<double>(q_, problem_.q, true);
    reserve<double>(k_, problem_.k, false);
  } else {
    reserve<float>(q_, problem_.q, true);
    reserve<float>(k_, problem_.k, false);
  }
}

void RotatedRows::rotate() {
  if (problem_.rotary.dims == 0) return;
  reserve();
  if (problem_.is_double) {
    rotate<double>(q_, true);
    rotate<double>(k_, false);
  } else {
    rotate<float>(q_, true);
    rotate<float>(k_, false);
  }
}

void RotatedRows::restore() {
  if (problem_.rotary.dims == 0) return;
  problem_.q = q_.given;
  problem_.k = k_.given;
}

std::int64_t RotatedRows::position(bool queries, std::int64_t b, std::int64_t row) const {
  return problem_.first_key + row + (queries ? problem_.query_shift(b) : 0);
}

template <class T>
void RotatedRows::reserve(Side& side, Operand& operand, bool queries) {
  const Operand& given = side.given;
  // Batches that share a row of q may stand at positions of their own.
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
  side.operand = operand;
}

template <class T>
void RotatedRows::rotate(Side& side, bool queries) {
  const Operand &given = side.given, &operand = side.operand;
  for (std::int64_t r = 0; r < given.rows; ++r)
    for (std::int64_t b = 0; b < operand.batches; ++b) {
      rotation_.set(position(queries, b, r), 1);
      for (std::int64_t h = 0; h < given.heads; ++h) {
        T* row =
            static_cast<T*>(operand.data) + b * operand.batch_stride + h * operand.head_stride + r * operand.row_stride;
        load_row(given.at(b, h * given.group), r, given.dim, row);
        rotation_.apply(row);
      }
    }
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
  const auto row_of = [&](std::int64_t b, std::int64_t h, std::int64_t r) {
    return static_cast<T*>(side.grad.data) + ((b * o.heads + h) * o.rows + r) * o.dim;
  };
  for (std::int64_t r = 0; r < o.rows; ++r)
    for (std::int64_t b = 0; b < o.batches; ++b) {
      rotation_.set(position(queries, b, r), -1);
      for (std::int64_t h = 0; h < o.heads; ++h) rotation_.apply(row_of(b, h, r));
    }
  // Batches that share a row, at positions of their own, are summed before the gradient is rounded to its type.
  const std::int64_t batches = side.target.shape[0];
  for (std::int64_t h = 0; h < o.heads; ++h)
    for (std::int64_t r = 0; r < o.rows; ++r) {
      for (std::int64_t b = batches; b < o.batches; ++b)
        for (std::int64_t d = 0; d < o.dim; ++d) row_of(0, h, r)[d] += row_of(b, h, r)[d];
      for (std::int64_t b = 0; b < batches; ++b) store_row(row_of(b, h, r), o.dim, matrix_of(side.target, b, h), r);
    }
}

}  // namespace rapt::inline v1
