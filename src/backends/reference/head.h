#pragma once

#include <cstdint>
#include <vector>

#include "attend/backend.h"
#include "rapt/tile_program.h"

// The naive path: one head at a time, every intermediate stored. The other paths are compared with it.
namespace rapt::inline v1::reference {

template <class T>
struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<T> data;

  Matrix() = default;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), data(static_cast<std::size_t>(r * c)) {}

  T* row(std::int64_t r) { return data.data() + r * cols; }
  const T* row(std::int64_t r) const { return data.data() + r * cols; }
  T& at(std::int64_t r, std::int64_t c) { return data[static_cast<std::size_t>(r * cols + c)]; }
  const T& at(std::int64_t r, std::int64_t c) const { return data[static_cast<std::size_t>(r * cols + c)]; }
};

// The rows of q or k on their way to the scores.
template <class T>
struct Rows {
  Matrix<T> given;
  Matrix<T> mapped;  // after query_map or key_map
  Matrix<T> unit;    // after the division by their lengths, where the mechanism asks for it
};

// A parameter of role relative_*: its number for every pair.
template <class T>
struct Relative {
  int slot = 0;
  const ParameterValue* parameter = nullptr;
  Matrix<T> numbers;  // [Sk, Sq]
};

// One batch and head. Matrices of pairs are [Sk, Sq], as tiles are.
template <class T>
struct Head {
  Head(const Problem& p, std::int64_t b, std::int64_t h);

  const Problem& problem;
  const TileProgram<T>& program;
  std::int64_t batch, head;
  Rows<T> q, k;
  Matrix<T> q_scored;     // unit rows with query_shift, for q·k
  Matrix<T> q_relative;   // given rows with relative_query_shift, for the products with relative vectors
  std::vector<T> values;  // [slots]
  std::vector<Relative<T>> relative;
  std::vector<T> query_row, query_col, key_row, key_col;  // grid coordinates
  Matrix<T> raw;
  Matrix<T> scores;  // as the mechanism gives them
  Matrix<T> logits;  // after softcap, bias and masks; −∞: hidden
  Matrix<T> weights;
  Matrix<T> slopes;                 // ∂weight/∂score at the row's threshold
  std::vector<T> row_max, row_sum;  // [Sq]: what Saved keeps
  std::vector<T> lse;               // [Sq]

  // The pairs of the keys [first, first + count), over matrices of pairs.
  ScoreTile<T> score_tile(std::int64_t first, std::int64_t count, Matrix<T>& pairs) const;
  // The raw scores' arguments; transposed is q_scored [dim, Sq].
  PairTile<T> pair_tile(const Matrix<T>& transposed) const;
  const T* parameter(Role role) const;  // this head's numbers; null: none given

 private:
  void load_rows();
  void load_slots();
  void compute_raw();
  void compute_scores();
  void compute_logits();
  void hide_masked();
  void normalize();
  void softmax(std::int64_t i);
  void argmax(std::int64_t i);
  void threshold(std::int64_t i);
};

// The row of a relative table for query i of this batch and key j.
std::int64_t table_row(const Problem& problem, const ParameterValue& p, std::int64_t b, std::int64_t i, std::int64_t j);

template <class T>
Matrix<T> load_matrix(const MatrixRef& source, std::int64_t rows, std::int64_t cols);

template <class T>
Matrix<T> transposed(const Matrix<T>& x);

void forward(const Problem& problem, const Outputs& outputs);
void backward(const Problem& problem, const BackwardRequest& request);

}  // namespace rapt::inline v1::reference
