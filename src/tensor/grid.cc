#include "tensor/grid.h"

#include <algorithm>

#include "rapt/error.h"
#include "tensor/simd/table.h"

namespace rapt::inline v1 {
namespace {

// Row n of y is row from[n] of x; every row of x is used once. Rows are `width` numbers.
template <class T>
void move_rows(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& y, std::int64_t width, const std::int64_t* from,
               std::int64_t count) {
  for (std::int64_t n = 0; n < count; ++n) std::copy_n(x.data + from[n] * width, width, y.data + n * width);
  tape.record([=] {
    if (!x.grad) return;
    for (std::int64_t n = 0; n < count; ++n)
      tensor_kernels<T>().add(y.grad + n * width, x.grad + from[n] * width, width);
  });
}

template <class T>
void require_grid(const char* operation, const Tensor<T>& x, std::int64_t steps, bool fits, const std::string& takes) {
  if (x.rank != 3 || x.size(0) != steps || !x.is_contiguous() || !fits)
    throw Error(std::string(operation) + ": expected " + takes + ", got " + to_string(x));
}

std::string text_of(const Grid& grid) { return std::to_string(grid.rows) + "×" + std::to_string(grid.cols); }

// Visits the cells of a fine grid as (coarse cell, index within it, fine cell).
template <class F>
void for_cells(const Grid& fine, std::int64_t factor, F&& f) {
  const std::int64_t coarse_cols = fine.cols / factor;
  for (std::int64_t r = 0; r < fine.rows; ++r)
    for (std::int64_t c = 0; c < fine.cols; ++c)
      f((r / factor) * coarse_cols + c / factor, (r % factor) * factor + c % factor, r * fine.cols + c);
}

bool divides(const Grid& grid, std::int64_t factor) {
  return factor > 0 && grid.rows % factor == 0 && grid.cols % factor == 0;
}

std::string divided_grid(const Grid& grid, std::int64_t factor) {
  return "[" + std::to_string(grid.cells()) + ", batch, width] of a " + text_of(grid) + " grid that " +
         std::to_string(factor) + " divides";
}

}  // namespace

template <class T>
Tensor<T> merge_cells(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t factor) {
  require_grid("merge_cells", x, grid.cells(), divides(grid, factor), divided_grid(grid, factor));
  const std::int64_t batch = x.size(1);
  const std::int64_t group = factor * factor;
  const Tensor<T> y = tape.make({grid.cells() / group, batch, group * x.size(2)});
  auto* from = tape.template scratch<std::int64_t>(grid.cells() * batch);
  for_cells(grid, factor, [&](std::int64_t coarse, std::int64_t place, std::int64_t fine) {
    for (std::int64_t b = 0; b < batch; ++b) from[(coarse * batch + b) * group + place] = fine * batch + b;
  });
  move_rows(tape, x, y, x.size(2), from, grid.cells() * batch);
  return y;
}

template <class T>
Tensor<T> split_cells(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t factor) {
  const std::int64_t group = factor * factor;
  require_grid(
      "split_cells", x, grid.cells(), factor > 0 && x.size(2) % std::max<std::int64_t>(1, group) == 0,
      "[" + std::to_string(grid.cells()) + ", batch, width] with a width that " + std::to_string(group) + " divides");
  const std::int64_t batch = x.size(1);
  const Grid fine_grid{grid.rows * factor, grid.cols * factor};
  const std::int64_t width = x.size(2) / group;
  const Tensor<T> y = tape.make({fine_grid.cells(), batch, width});
  auto* from = tape.template scratch<std::int64_t>(fine_grid.cells() * batch);
  for_cells(fine_grid, factor, [&](std::int64_t coarse, std::int64_t place, std::int64_t fine) {
    for (std::int64_t b = 0; b < batch; ++b) from[fine * batch + b] = (coarse * batch + b) * group + place;
  });
  move_rows(tape, x, y, width, from, fine_grid.cells() * batch);
  return y;
}

template <class T>
Tensor<T> to_windows(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t window) {
  require_grid("to_windows", x, grid.cells(), divides(grid, window), divided_grid(grid, window));
  const std::int64_t batch = x.size(1);
  const std::int64_t windows = grid.cells() / (window * window);
  const Tensor<T> y = tape.make({window * window, batch * windows, x.size(2)});
  auto* from = tape.template scratch<std::int64_t>(grid.cells() * batch);
  for_cells(grid, window, [&](std::int64_t which, std::int64_t place, std::int64_t cell) {
    for (std::int64_t b = 0; b < batch; ++b) from[(place * batch + b) * windows + which] = cell * batch + b;
  });
  move_rows(tape, x, y, x.size(2), from, grid.cells() * batch);
  return y;
}

template <class T>
Tensor<T> from_windows(Tape<T>& tape, const Tensor<T>& x, const Grid& grid, std::int64_t window) {
  const std::int64_t windows = window > 0 ? grid.cells() / (window * window) : 0;
  require_grid("from_windows", x, window * window, divides(grid, window) && x.size(1) % windows == 0,
               "[" + std::to_string(window * window) + ", batch·windows, width] of a " + text_of(grid) + " grid");
  const std::int64_t batch = x.size(1) / windows;
  const Tensor<T> y = tape.make({grid.cells(), batch, x.size(2)});
  auto* from = tape.template scratch<std::int64_t>(grid.cells() * batch);
  for_cells(grid, window, [&](std::int64_t which, std::int64_t place, std::int64_t cell) {
    for (std::int64_t b = 0; b < batch; ++b) from[cell * batch + b] = (place * batch + b) * windows + which;
  });
  move_rows(tape, x, y, x.size(2), from, grid.cells() * batch);
  return y;
}

template <class T>
Tensor<T> grid_bias(Tape<T>& tape, const Tensor<T>& table, const Grid& grid) {
  const std::int64_t wide = 2 * grid.cols - 1;
  if (table.rank != 3 || table.size(1) != 2 * grid.rows - 1 || table.size(2) != wide || !table.is_contiguous())
    throw Error("grid_bias: expected [heads, " + std::to_string(2 * grid.rows - 1) + ", " + std::to_string(wide) +
                "] for a " + text_of(grid) + " grid, got " + to_string(table));
  const std::int64_t heads = table.size(0);
  const Tensor<T> y = tape.make({1, heads, grid.cells(), grid.cells()});
  // The keys of one row of the grid are neighbours in the table.
  const auto for_rows = [=](auto&& f) {
    std::int64_t to = 0;
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t r = 0; r < grid.rows; ++r)
        for (std::int64_t c = 0; c < grid.cols; ++c)
          for (std::int64_t key = 0; key < grid.rows; ++key, to += grid.cols)
            f(to, (h * (2 * grid.rows - 1) + key - r + grid.rows - 1) * wide + grid.cols - 1 - c);
  };
  for_rows([&](std::int64_t to, std::int64_t from) { std::copy_n(table.data + from, grid.cols, y.data + to); });
  tape.record([=] {
    if (!table.grad) return;
    for_rows([&](std::int64_t to, std::int64_t from) {
      for (std::int64_t n = 0; n < grid.cols; ++n) table.grad[from + n] += y.grad[to + n];
    });
  });
  return y;
}

#define RAPT_INSTANTIATE(T)                                                               \
  template Tensor<T> merge_cells(Tape<T>&, const Tensor<T>&, const Grid&, std::int64_t);  \
  template Tensor<T> split_cells(Tape<T>&, const Tensor<T>&, const Grid&, std::int64_t);  \
  template Tensor<T> to_windows(Tape<T>&, const Tensor<T>&, const Grid&, std::int64_t);   \
  template Tensor<T> from_windows(Tape<T>&, const Tensor<T>&, const Grid&, std::int64_t); \
  template Tensor<T> grid_bias(Tape<T>&, const Tensor<T>&, const Grid&);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1
