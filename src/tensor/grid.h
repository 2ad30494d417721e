#pragma once

#include "tensor/tape.h"

// Operations on tokens that stand on a grid: [rows·columns, batch, width], row after row.
namespace rapt::inline v1 {

struct Grid {
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  std::int64_t cells() const { return rows * cols; }
  Grid divided(std::int64_t by) const { return {rows / by, cols / by}; }
};

// Each factor × factor cells become one, their numbers side by side: [cells/factor², batch, factor²·width].
template <class T>
Tensor<T> merge_cells(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t factor);

// The way back: each cell of `grid` becomes factor × factor cells.
template <class T>
Tensor<T> split_cells(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t factor);

// Squares of window × window cells as sequences of their own: [window², batch·windows, width].
template <class T>
Tensor<T> to_windows(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t window);

// The way back to [cells, batch, width].
template <class T>
Tensor<T> from_windows(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t window);

// A bias for each pair of cells from a table by their distance: table [heads, 2·rows − 1, 2·columns − 1] gives
// [1, heads, cells, cells], where the key's row and column less the query's choose the number.
template <class T>
Tensor<T> grid_bias(Tape<T>& tape, const Tensor<T>& table, const Grid& grid);

}  // namespace rapt::inline v1
