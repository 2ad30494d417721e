#include "backends/cpu/factorized.h"
#include "backends/cpu/engine.h"

#include <cmath>

#include "attend/score_tile.h"
#include "backends/cpu/factorized_pass.h"
#include "backends/cpu/parallel.h"
#include "backends/host/storage.h"
#include "rapt/tile_program.h"

namespace rapt::inline v1 {
namespace factorized {
namespace {

// The score of one pair as the mechanism computes it: closer than the form where the form's terms cancel.
double score_of(const Problem& problem, std::int64_t h, const std::vector<double>& values, std::int64_t i,
                std::int64_t j) {
  const std::int64_t cols = problem.grid[1];
  const std::int64_t i_row = i / cols, j_row = j / cols;
  const double query_row = static_cast<double>(i_row), query_col = static_cast<double>(i % cols);
  const double key_row = static_cast<double>(j_row), key_col = static_cast<double>(j % cols);
  double score = 0;
  ScoreTile<double> tile = score_tile_of<double>(problem, 0, h);
  tile.scores = &score;
  tile.keys = tile.columns = tile.stride = 1;
  tile.first_query = i;
  tile.first_key = j;
  tile.values = values.data();
  tile.query_row = &query_row;
  tile.query_col = &query_col;
  tile.key_row = &key_row;
  tile.key_col = &key_col;
  problem.mechanism->definition().scalar.f64.score(tile);
  return score;
}

// Each row's largest score and sum of exponentials are those of its grid row and its grid column, put together.
template <class T>
void store_rows(const Problem& problem, const Outputs& outputs, std::int64_t h, const Axis& row, const Axis& col) {
  if (!outputs.lse && outputs.saved == nullptr) return;
  std::vector<double> values(kMaxSlots);
  for (const ParameterValue& p : problem.parameters)
    if (p.given) std::copy_n(p.head<T>(h), p.size(), values.begin() + p.first_slot);
  for (std::int64_t i = 0; i < problem.queries; ++i) {
    const auto r = static_cast<std::size_t>(i / col.size), c = static_cast<std::size_t>(i % col.size);
    const double max = score_of(problem, h, values, i, row.best[r] * col.size + col.best[c]);
    const T lse = static_cast<T>(max + std::log(row.sum[r]) + std::log(col.sum[c]));
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      if (outputs.lse) store_row(&lse, 1, matrix_of(outputs.lse, b, h), i);
      if (outputs.saved == nullptr) continue;
      const std::int64_t n = (b * problem.heads + h) * problem.queries + i;
      outputs.saved->rows()->template max<T>()[n] = static_cast<T>(max);
      outputs.saved->rows()->template sum<T>()[n] = static_cast<T>(row.sum[r] * col.sum[c]);
    }
  }
}

// Some numbers of the values of one matrix of v, for one head.
struct Slice {
  std::size_t set;
  std::int64_t b, h;  // b counts the matrices of v
  std::int64_t first, count;
};

std::vector<Slice> slices_of(const Problem& problem, const Outputs& outputs) {
  std::vector<Slice> slices;
  const std::int64_t width = slice_width(problem);
  for (std::size_t set = 0; set < problem.v.size() && set < outputs.out.size(); ++set) {
    if (!outputs.out[set]) continue;
    for (std::int64_t b = 0; b < problem.v[set].batches; ++b)
      for (std::int64_t h = 0; h < problem.heads; ++h)
        for (std::int64_t d = 0; d < problem.v[set].dim; d += width)
          slices.push_back({set, b, h, d, std::min(width, problem.v[set].dim - d)});
  }
  return slices;
}

template <class T>
void mix(const Problem& problem, const Outputs& outputs, const Slice& slice, const GridWeights<T>& w,
         const Kernels<T>& kernels, GridPass<T>& pass) {
  const Layout<T> layout(problem, kernels, slice.count);
  const Operand& v = problem.v[slice.set];
  const MatrixRef source = columns_from(v.at(slice.b, slice.h), slice.first);
  pass.run(layout, w, Direction::to_queries, false, [&](std::int64_t r, T* dst) {
    kernels.load_rows(source, r * layout.cols, layout.cols, slice.count, dst, layout.width);
  });
  // Batches that share v have the same output: the scores do not look at q and k.
  const std::int64_t begin = v.batches == 1 ? 0 : slice.b;
  const std::int64_t end = v.batches == 1 ? problem.batch : slice.b + 1;
  for (std::int64_t b = begin; b < end; ++b) {
    const MatrixRef target = columns_from(matrix_of(outputs.out[slice.set], b, slice.h), slice.first);
    for (std::int64_t i = 0; i < problem.queries; ++i)
      store_row(pass.sum(layout, i / layout.cols, i % layout.cols), slice.count, target, i);
  }
}

template <class T>
void forward(const Problem& problem, const Outputs& outputs) {
  const Kernels<T>& kernels = kernels_for<T>(problem.isa);
  std::vector<GridWeights<T>> weights(static_cast<std::size_t>(problem.heads));
  parallel_for(problem.heads, problem.threads, [&](std::int64_t h, int) {
    const Form form = form_of(problem, h);
    const Axis row(problem.grid[0], form.coefficient[Form::kRow], form.coefficient[Form::kRowRow]);
    const Axis col(problem.grid[1], form.coefficient[Form::kCol], form.coefficient[Form::kColCol]);
    weights[static_cast<std::size_t>(h)] = {rounded_weights<T>(row), rounded_weights<T>(col)};
    store_rows<T>(problem, outputs, h, row, col);
  });
  const std::vector<Slice> slices = slices_of(problem, outputs);
  std::vector<GridPass<T>> passes(static_cast<std::size_t>(std::max(problem.threads, 1)));
  parallel_for(static_cast<std::int64_t>(slices.size()), problem.threads, [&](std::int64_t n, int worker) {
    const Slice& slice = slices[static_cast<std::size_t>(n)];
    mix(problem, outputs, slice, weights[static_cast<std::size_t>(slice.h)], kernels,
        passes[static_cast<std::size_t>(worker)]);
  });
}

}  // namespace
}  // namespace factorized

void factorized_forward(const Problem& problem, const Outputs& outputs) {
  if (problem.is_double) factorized::forward<double>(problem, outputs);
  else factorized::forward<float>(problem, outputs);
}

}  // namespace rapt::inline v1
