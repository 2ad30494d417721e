#include "tasks/assignment.h"

#include <cmath>
#include <limits>
#include <string>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1::tasks {

std::vector<std::int64_t> least_assignment(const std::vector<double>& costs, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || rows > cols || static_cast<std::int64_t>(costs.size()) != rows * cols)
    throw Error("assignment: expected rows·cols costs and no more rows than columns, got " +
                counted(costs.size(), "cost") + " for " + counted(rows, "row") + " and " + counted(cols, "column"));
  for (const double cost : costs)
    if (!std::isfinite(cost)) throw Error("assignment: expected finite costs, got " + std::to_string(cost));
  constexpr double kFar = std::numeric_limits<double>::infinity();
  const auto at = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  // Column `cols` stands for the row being assigned; `owner` −1: free.
  std::vector<double> row_price(at(rows), 0.0), col_price(at(cols) + 1, 0.0);
  std::vector<std::int64_t> owner(at(cols) + 1, -1), before(at(cols) + 1, cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    owner[at(cols)] = row;
    std::int64_t col = cols;
    std::vector<double> least(at(cols) + 1, kFar);
    std::vector<bool> done(at(cols) + 1, false);
    while (owner[at(col)] >= 0) {
      done[at(col)] = true;
      const std::int64_t here = owner[at(col)];
      double step = kFar;
      std::int64_t next = cols;
      for (std::int64_t c = 0; c < cols; ++c) {
        if (done[at(c)]) continue;
        const double cost = costs[at(here * cols + c)] - row_price[at(here)] - col_price[at(c)];
        if (cost < least[at(c)]) {
          least[at(c)] = cost;
          before[at(c)] = col;
        }
        if (least[at(c)] < step) {
          step = least[at(c)];
          next = c;
        }
      }
      for (std::int64_t c = 0; c <= cols; ++c) {
        if (done[at(c)]) {
          row_price[at(owner[at(c)])] += step;
          col_price[at(c)] -= step;
        } else {
          least[at(c)] -= step;
        }
      }
      col = next;
    }
    // Every row on the path moves to the next column.
    while (col != cols) {
      owner[at(col)] = owner[at(before[at(col)])];
      col = before[at(col)];
    }
  }
  std::vector<std::int64_t> result(at(rows), -1);
  for (std::int64_t c = 0; c < cols; ++c)
    if (owner[at(c)] >= 0) result[at(owner[at(c)])] = c;
  return result;
}

}  // namespace rapt::inline v1::tasks
