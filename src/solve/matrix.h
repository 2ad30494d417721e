#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rapt::solve {

// A small dense matrix of doubles, row-major. Empty means not given.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> data;

  Matrix() = default;
  Matrix(std::int64_t row_count, std::int64_t col_count, double fill = 0)
      : rows(row_count), cols(col_count), data(static_cast<std::size_t>(row_count * col_count), fill) {}

  bool empty() const { return data.empty(); }
  std::size_t place(std::int64_t i, std::int64_t j) const { return static_cast<std::size_t>(i * cols + j); }
  double& operator()(std::int64_t i, std::int64_t j) { return data[place(i, j)]; }
  double operator()(std::int64_t i, std::int64_t j) const { return data[place(i, j)]; }
  std::span<const double> row(std::int64_t i) const { return {data.data() + i * cols, static_cast<std::size_t>(cols)}; }
};

// "2 × 3"
std::string shape_text(const Matrix& m);

// Sizes must fit; callers check them.
Matrix multiply(const Matrix& a, const Matrix& b);
Matrix transpose(const Matrix& a);
Matrix add(const Matrix& a, const Matrix& b);           // b may have one row: added to every row
Matrix join_columns(const std::vector<Matrix>& parts);  // [a, b, …]
Matrix take_rows(const Matrix& a, std::span<const std::int64_t> rows);
Matrix reshape(std::span<const double> numbers, std::int64_t rows, std::int64_t cols);
Matrix standardize(const Matrix& a);  // (x − mean) / std over all elements; the variance divides by n

}  // namespace rapt::solve
