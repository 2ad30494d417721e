#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pictures/drawing.h"

namespace rapt::pictures {

// Whether cells show their numbers; automatic: up to 12 × 12.
enum class CellNumbers : std::uint8_t { automatic, always, never };

struct HeatMap {
  std::string title;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;           // row by row; NaN is shown as missing
  std::vector<std::string> row_labels;  // empty: 1, 2, …
  std::vector<std::string> col_labels;
  std::string row_title;
  std::string col_title;
  double low = 0;  // the numbers at the ends of the colours
  double high = 1;
  CellNumbers numbers = CellNumbers::automatic;
  std::int64_t row_block = 1;  // how many rows of the original one row stands for
  std::int64_t col_block = 1;
  bool farthest = false;  // blocks show the number farthest from 0, not the largest
  double width = 0;       // of the whole drawing; 0: as wide as its content
};

// A complete picture: cells, labels, colour bar and title. Labels without room are thinned out and clipped. More than
// kMaxCells rows or columns are drawn as the largest of blocks. Throws rapt::Error if sizes do not fit.
Drawing draw(const HeatMap& map);

// Attention weights [target, source] of a decoded sequence: source tokens along the top, target tokens down the side.
Drawing heat_map(std::span<const double> weights, std::span<const std::string> source_tokens,
                 std::span<const std::string> target_tokens, const std::string& title = "");
Drawing heat_map(std::span<const float> weights, std::span<const std::string> source_tokens,
                 std::span<const std::string> target_tokens, const std::string& title = "");

inline constexpr std::int64_t kMaxCells = 1280;
inline constexpr std::int64_t kMaxNumberedCells = 40;

// The largest number of each block, with at most this many rows and columns, so that a single high weight stays
// visible; in a map with both signs, the number farthest from 0.
HeatMap largest_of_blocks(const HeatMap& map, std::int64_t most_rows, std::int64_t most_cols);

// From 0, or the smallest number below it, to the largest. Never empty.
std::pair<double, double> color_range(std::span<const double> values);

// Throws rapt::Error if numbers, labels and range do not fit together.
void check(const HeatMap& map);

}  // namespace rapt::pictures
