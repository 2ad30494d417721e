#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pictures/heatmap.h"

namespace rapt::pictures {

// Several heat maps with one colour scale, row by row: the heads of a layer, or layers × heads. Each map's title is
// above it; its own range is ignored. Labels are shown where they fit, at the left and top of the grid.
struct HeatMapGrid {
  std::string title;
  std::int64_t cols = 0;  // maps side by side; 0: chosen here
  std::vector<HeatMap> maps;
  double low = 0;
  double high = 1;
  std::string row_title = {};
  std::string col_title = {};
  double width = 0;  // of the whole drawing; 0: as wide as its content
};

Drawing draw(const HeatMapGrid& grid);

// Larger maps are always drawn as the largest of blocks, smaller ones if there are many.
inline constexpr std::int64_t kMaxGridCells = 360;

}  // namespace rapt::pictures
