#include "solve/matrix.h"

#include <algorithm>
#include <cmath>

namespace rapt::solve {

std::string shape_text(const Matrix& m) { return std::to_string(m.rows) + " × " + std::to_string(m.cols); }

Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix result(a.rows, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t n = 0; n < a.cols; ++n)
      for (std::int64_t j = 0; j < b.cols; ++j) result(i, j) += a(i, n) * b(n, j);
  return result;
}

Matrix transpose(const Matrix& a) {
  Matrix result(a.cols, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) result(j, i) = a(i, j);
  return result;
}

Matrix add(const Matrix& a, const Matrix& b) {
  Matrix result = a;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) result(i, j) += b(b.rows == 1 ? 0 : i, j);
  return result;
}

Matrix join_columns(const std::vector<Matrix>& parts) {
  std::int64_t cols = 0;
  for (const Matrix& part : parts) cols += part.cols;
  Matrix result(parts.front().rows, cols);
  std::int64_t first = 0;
  for (const Matrix& part : parts) {
    for (std::int64_t i = 0; i < part.rows; ++i)
      for (std::int64_t j = 0; j < part.cols; ++j) result(i, first + j) = part(i, j);
    first += part.cols;
  }
  return result;
}

Matrix take_rows(const Matrix& a, std::span<const std::int64_t> rows) {
  Matrix result(static_cast<std::int64_t>(rows.size()), a.cols);
  for (std::int64_t i = 0; i < result.rows; ++i)
    for (std::int64_t j = 0; j < a.cols; ++j) result(i, j) = a(rows[static_cast<std::size_t>(i)], j);
  return result;
}

Matrix reshape(std::span<const double> numbers, std::int64_t rows, std::int64_t cols) {
  Matrix result(rows, cols);
  std::copy(numbers.begin(), numbers.end(), result.data.begin());
  return result;
}

Matrix standardize(const Matrix& a) {
  const double count = static_cast<double>(a.data.size());
  double mean = 0;
  for (const double x : a.data) mean += x;
  mean /= count;
  double variance = 0;
  for (const double x : a.data) variance += (x - mean) * (x - mean);
  variance /= count;
  Matrix result = a;
  for (double& x : result.data) x = (x - mean) / std::sqrt(variance);
  return result;
}

}  // namespace rapt::solve
