#include "explorer/weights.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace rapt::explorer {
namespace {

constexpr std::int64_t kNumbersAtOnce = std::int64_t{1} << 22;
constexpr std::int64_t kRowsAtOnce = 64;  // the engine works in blocks of queries

// Calls f(row, numbers) for each of the rows, a bounded number of them in memory.
void for_each_row(const Weights& weights, std::int64_t head, std::int64_t begin, std::int64_t end,
                  const std::function<void(std::int64_t, const float*)>& f) {
  const std::int64_t keys = weights.keys();
  const std::int64_t most = std::max(kRowsAtOnce, kNumbersAtOnce / keys / kRowsAtOnce * kRowsAtOnce);
  std::vector<float> numbers(static_cast<std::size_t>(std::min(most, end - begin) * keys));
  for (std::int64_t first = begin; first < end; first += most) {
    const std::int64_t last = std::min(first + most, end);
    weights.rows(head, first, last, numbers.data());
    for (std::int64_t i = first; i < last; ++i) f(i, numbers.data() + (i - first) * keys);
  }
}

// The cell of each of `count` items, dealt to `cells` in order.
std::vector<std::int64_t> places(std::int64_t count, std::int64_t cells) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n) result[static_cast<std::size_t>(n)] = n * cells / count;
  return result;
}

// The distances from a query to every key.
class Distances {
 public:
  Distances(std::int64_t keys, std::array<std::int64_t, 2> grid) : keys_(keys), columns_(grid[1]) {
    if (columns_ == 0) return;
    const std::int64_t rows = keys / columns_;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns_; ++c)
        table_.push_back(std::hypot(static_cast<double>(r), static_cast<double>(c)));
  }

  double mean(std::int64_t query, const float* row) const {
    double sum = 0;
    if (columns_ == 0) {
      for (std::int64_t j = 0; j < keys_; ++j)
        sum += static_cast<double>(row[j]) * static_cast<double>(std::abs(j - query));
      return sum;
    }
    const std::int64_t r0 = query / columns_;
    const std::int64_t c0 = query % columns_;
    for (std::int64_t j = 0; j < keys_; ++j)
      if (row[j] > 0)
        sum += static_cast<double>(row[j]) *
               table_[static_cast<std::size_t>(std::abs(j / columns_ - r0) * columns_ + std::abs(j % columns_ - c0))];
    return sum;
  }

 private:
  std::int64_t keys_, columns_;
  std::vector<double> table_;  // by rows and columns between the two
};

}  // namespace

void StoredWeights::rows(std::int64_t head, std::int64_t begin, std::int64_t end, float* out) const {
  const std::int64_t first = ((layer_ * heads() + head) * queries() + begin) * keys();
  std::copy_n(array_->as<float>().begin() + first, (end - begin) * keys(), out);
}

HeadSummary summarize(const Weights& weights, std::int64_t head, std::array<std::int64_t, 2> grid) {
  const std::int64_t queries = weights.queries();
  const std::int64_t keys = weights.keys();
  HeadSummary summary;
  summary.rows = std::min(kThumbnailSide, queries);
  summary.cols = std::min(kThumbnailSide, keys);
  const std::vector<std::int64_t> row_of = places(queries, summary.rows);
  const std::vector<std::int64_t> col_of = places(keys, summary.cols);
  std::vector<float> cells(static_cast<std::size_t>(summary.rows * summary.cols));
  const Distances distances(keys, grid);
  std::int64_t seeing = 0;
  for_each_row(weights, head, 0, queries, [&](std::int64_t i, const float* row) {
    float* line = cells.data() + row_of[static_cast<std::size_t>(i)] * summary.cols;
    double entropy = 0;
    float top = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      const float w = row[j];
      if (!(w > 0)) continue;
      entropy -= static_cast<double>(w * std::log(w));
      top = std::max(top, w);
      float& cell = line[col_of[static_cast<std::size_t>(j)]];
      cell = std::max(cell, w);
    }
    if (top == 0) return;
    ++seeing;
    summary.entropy += entropy;
    summary.distance += distances.mean(i, row);
    summary.largest += static_cast<double>(top);
    summary.peak = std::max(summary.peak, static_cast<double>(top));
  });
  if (seeing > 0)
    for (double* mean : {&summary.entropy, &summary.distance, &summary.largest}) *mean /= static_cast<double>(seeing);
  for (const float cell : cells)
    summary.thumbnail.push_back(static_cast<std::uint8_t>(
        summary.peak > 0 ? std::lround(255 * std::sqrt(static_cast<double>(cell) / summary.peak)) : 0));
  return summary;
}

Pooled pool(const Weights& weights, std::int64_t head, const Part& part, std::int64_t height, std::int64_t width) {
  const std::int64_t queries = part.bottom - part.top;
  const std::int64_t keys = part.right - part.left;
  Pooled result{std::min(height, queries), std::min(width, keys), {}};
  result.cells.assign(static_cast<std::size_t>(result.height * result.width), 0.0F);
  const std::vector<std::int64_t> row_of = places(queries, result.height);
  const std::vector<std::int64_t> col_of = places(keys, result.width);
  for_each_row(weights, head, part.top, part.bottom, [&](std::int64_t i, const float* row) {
    float* line = result.cells.data() + row_of[static_cast<std::size_t>(i - part.top)] * result.width;
    for (std::int64_t j = 0; j < keys; ++j) {
      float& cell = line[col_of[static_cast<std::size_t>(j)]];
      cell = std::max(cell, row[part.left + j]);
    }
  });
  return result;
}

}  // namespace rapt::explorer
