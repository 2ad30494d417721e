#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pictures/heatmap.h"

namespace rapt::pictures {

// Several heat maps, row by row, under one scale of colours: the heads of a layer, or layers × heads. Each map's title is
// written above it; its own range is not used. Labels show where they have room: at the left and top of the grid.
struct HeatMapGrid {
  std::string title;
  std::int64_t cols = 0;  // maps side by side; 0: chosen here
  std::vector<HeatMap> maps;
  double low = 0;
  double high = 1;
  std::string row_title = {};
  std::string col_title = {};
  double width = 0;  // of the whole drawing; 0: what its content needs
};

Drawing draw(const HeatMapGrid& grid);

// Larger maps are always drawn as the largest of blocks, smaller ones where there are many.
inline constexpr std::int64_t kMaxGridCells = 360;

}  // namespace rapt::pictures
