#pragma once

#include <functional>
#include <string>

#include "pictures/heatmap_grid.h"
#include "pictures/terminal.h"

// Where the pictures of `rapt plot` go.
namespace rapt::cli {

// What every kind takes.
struct Output {
  std::string out;
  std::string title;
  std::string theme = "light";
  std::string scale = "2";
};

// Refuses at once what could not be delivered in the end.
void check_output(const std::string& verb, const Output& output);

// Writes the drawing to --out, or shows the terminal's view.
void deliver(const std::string& verb, const Output& output, const std::function<pictures::Drawing()>& drawing,
             const std::function<std::string(const pictures::TerminalStyle&)>& view);

// The first maps of a grid below each other.
std::string grid_view(const pictures::HeatMapGrid& grid, pictures::TerminalStyle style);

}  // namespace rapt::cli
