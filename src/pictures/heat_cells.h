#pragma once

#include <string>
#include <vector>

#include "pictures/heatmap.h"

// Shared by single heat maps and grids of them.
namespace rapt::pictures {

inline constexpr std::int64_t kMaxRects = 6400;

// One label beside a row or column, in units of cells from the first one's edge.
struct CellLabel {
  double at = 0;
  std::string text;
};

// The labels that fit if cells are `cell` wide and a label needs `room`: all, every n-th, or round numbers.
std::vector<CellLabel> cell_labels(const std::vector<std::string>& labels, std::int64_t count, std::int64_t block,
                                   double cell, double room, double font_size, double max_width);

double widest(const std::vector<CellLabel>& labels, double font_size);

struct CellStyle {
  bool as_image = false;  // many cells: one image instead of a rectangle each
  bool tips = false;
  bool numbers = false;
};

// The width of the widest number in a map's cells; a number may take this share of its cell.
double widest_number(const HeatMap& map, double font_size);
inline constexpr double kNumberShare = 0.86;

// The cells of a map in that box; all numbers have one format and one size.
Group cells_of(const HeatMap& map, const Box& box, const CellStyle& style);

// From low at the bottom to high at the top, with ticks at round numbers to its right.
Group color_bar(double low, double high, const Box& box);

// The room that its numbers need to the right of the bar.
double color_bar_labels(double low, double high, double height);

// "each cell is the largest of 4 × 4 numbers"; empty where each cell is one number.
std::string block_note(const HeatMap& map);

}  // namespace rapt::pictures
