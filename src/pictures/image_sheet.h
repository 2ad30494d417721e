#pragma once

#include <string>
#include <vector>

#include "pictures/drawing.h"
#include "pictures/frame.h"
#include "pictures/terminal.h"

namespace rapt::pictures {

// A small picture, row by row.
struct Tile {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<Rgb> pixels;
};

// Pictures side by side under titles, in named rows: input, ground truth, prediction.
struct ImageSheet {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::string> rows;
  std::vector<Tile> tiles;  // row by row; one without pixels is left empty
  std::vector<LegendEntry> legend;
  double width = 0;  // of the whole drawing; 0: as wide as its content
};

Drawing draw(const ImageSheet& sheet);

// The tiles below each other, as many as there are lines for.
std::string terminal_view(const ImageSheet& sheet, const TerminalStyle& style);

}  // namespace rapt::pictures
