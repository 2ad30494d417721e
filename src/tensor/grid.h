#pragma once

#include "tensor/tape.h"

// Operations on tokens on a grid: [rows·columns, batch, width], row by row.
namespace rapt::inline v1 {

struct Grid {
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  std::int64_t cells() const { return rows * cols; }
  Grid divided(std::int64_t by) const { return {rows / by, cols / by}; }
};

// Merges factor × factor cells into one by concatenation: [cells/factor², batch, factor²·width].
template <class T>
Tensor<T> merge_cells(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t factor);

// The inverse: splits each cell of `grid` into factor × factor cells.
template <class T>
Tensor<T> split_cells(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t factor);

// Squares of window × window cells as sequences of their own: [window², batch·windows, width].
template <class T>
Tensor<T> to_windows(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t window);

// The inverse, to [cells, batch, width].
template <class T>
Tensor<T> from_windows(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t window);

// A bias for each pair of cells from a table by offset: table [heads, 2·rows − 1, 2·columns − 1] gives [1, heads,
// cells, cells]; the offset is the key's row and column minus the query's.
template <class T>
Tensor<T> grid_bias(Tape<T>& tape, const Tensor<T>& table, const Grid& grid);

}  // namespace rapt::inline v1
