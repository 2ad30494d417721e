#include "attend/relative_rows.h"

#include <algorithm>
#include <limits>
#include <string>

#include "attend/counted.h"
#include "rapt/error.h"
#include "rapt/tiles.h"

namespace rapt::inline v1 {
namespace {

// Whether masks hide every pair at this offset, key − query. With packed sequences positions run through all of them.
bool is_hidden(const Problem& problem, std::int64_t offset) {
  if (problem.offsets_seen && (offset < problem.first_offset || offset > problem.last_offset)) return true;
  if (!problem.mask.query_starts.empty()) return false;
  if (problem.mask.causal != Causal::none && offset > 0) return true;
  if (!problem.mask.window) return false;
  const auto [left, right] = *problem.mask.window;
  return (left >= 0 && offset < -left) || (right >= 0 && offset > right);
}

std::int64_t asked_row(const Problem& problem, const ParameterValue& value, std::int64_t offset) {
  const auto parameter = static_cast<std::size_t>(&value - problem.parameters.data());
  const TableShape shape{value.rows, problem.outer.queries, problem.outer.keys, problem.grid, problem.settings};
  return problem.mechanism->definition().index(problem.object, parameter, offset, shape);
}

constexpr std::int32_t kBelow = -1, kAbove = std::numeric_limits<std::int32_t>::max();

// What index() says of the offsets from `lowest` to `highest`; known ones are not asked again.
void find_known_rows(const Problem& problem, ParameterValue& value, std::int64_t lowest, std::int64_t highest) {
  std::vector<std::int32_t>& rows = value.known_rows;
  const std::int64_t count = highest - lowest + 1, shift = lowest - value.known_first;
  std::int64_t known_begin = 0, known_end = 0;  // of the offsets asked for
  if (static_cast<std::int64_t>(rows.size()) == count && shift > -count && shift < count) {
    if (shift > 0) std::move(rows.begin() + shift, rows.end(), rows.begin());
    if (shift < 0) std::move_backward(rows.begin(), rows.end() + shift, rows.end());
    known_begin = std::max<std::int64_t>(0, -shift);
    known_end = count - std::max<std::int64_t>(0, shift);
  }
  rows.resize(static_cast<std::size_t>(count));
  value.known_first = lowest;
  for (std::int64_t n = 0; n < count; ++n) {
    if (n == known_begin) n = std::max(n, known_end);
    if (n >= count) break;
    const std::int64_t row = asked_row(problem, value, lowest + n);
    rows[static_cast<std::size_t>(n)] = row < 0 ? kBelow : (row < value.rows ? static_cast<std::int32_t>(row) : kAbove);
  }
}

}  // namespace

void find_relative_rows(const char* operation, const Problem& problem, ParameterValue& value) {
  if (!value.given || !is_table(value.spec->role) || problem.is_empty() || problem.keys == 0) return;
  const Along along = value.spec->along;
  const std::int64_t side = along == Along::position ? 0 : problem.grid[along == Along::grid_row ? 0 : 1];
  const std::int64_t lowest = along == Along::position ? 1 - problem.queries - problem.highest_shift() : 1 - side;
  const std::int64_t highest = along == Along::position ? problem.keys - 1 - problem.lowest_shift() : side - 1;
  constexpr std::int64_t kMost = std::int64_t{1} << 28;
  if (highest - lowest >= kMost)
    throw Error(std::string(operation) + ": first_query: expected the batches within " + std::to_string(kMost) +
                " positions of each other with a table of offsets, got offsets " + std::to_string(lowest) + " to " +
                std::to_string(highest));
  find_known_rows(problem, value, lowest, highest);
  value.relative_zero = -lowest;
  value.relative_rows.resize(static_cast<std::size_t>(highest - lowest + 1));
  for (std::int64_t offset = lowest; offset <= highest; ++offset) {
    std::int32_t row = value.known_rows[static_cast<std::size_t>(offset - lowest)];
    if (along == Along::position && is_hidden(problem, offset))
      row = static_cast<std::int32_t>(std::clamp<std::int64_t>(row, 0, value.rows - 1));
    if (row == kBelow || row == kAbove)
      throw Error(std::string(operation) + ": score " + std::string(problem.mechanism->name()) + ": parameter '" +
                  std::string(value.spec->name) + "': expected rows for the " + std::to_string(highest - lowest + 1) +
                  " offsets " + std::to_string(lowest) + " to " + std::to_string(highest) +
                  " of a key from a query, got " + counted(value.rows, "row") + ", of which offset " +
                  std::to_string(offset) + " reads row " + std::to_string(asked_row(problem, value, offset)));
    value.relative_rows[static_cast<std::size_t>(offset - lowest)] = row;
  }
}

}  // namespace rapt::inline v1
