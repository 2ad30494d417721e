#pragma once

#include <functional>
#include <string>

#include "pictures/heatmap_grid.h"
#include "pictures/picture_file.h"
#include "pictures/terminal.h"

// Output of `rapt plot`.
namespace rapt::cli {

// Options that every kind takes.
struct Output {
  std::string out;
  std::string format;  // if the name has no known extension
  std::string title;
  bool no_title = false;
  std::string theme = "light";
  std::string scale = "2";
  std::string width;      // "8.5cm"
  std::string font_size;  // of labels, in points
  std::string xlabel;     // of kinds with axes
  std::string ylabel;

  // --title, otherwise the kind's own title; nothing with --no-title.
  std::string title_or(const std::string& usual) const { return no_title ? "" : title.empty() ? usual : title; }
  std::string xlabel_or(const std::string& usual) const { return xlabel.empty() ? usual : xlabel; }
  std::string ylabel_or(const std::string& usual) const { return ylabel.empty() ? usual : ylabel; }
};

// The format for the file of an option ("plot curves: --out"): by its extension, otherwise by --format.
pictures::PictureFormat format_of(const std::string& argument, const std::string& name, const std::string& format);

// Refuses early what could not be written later.
void check_output(const std::string& verb, const Output& output);

// Writes the drawing to --out, or draws it in the terminal. `drawing` gets the width of the whole; 0: as needed.
void deliver(const std::string& verb, const Output& output, const std::function<pictures::Drawing(double)>& drawing,
             const std::function<std::string(const pictures::TerminalStyle&)>& view);

// The kind's picture at that width.
template <class Picture>
pictures::Drawing draw_with(Picture picture, double width) {
  picture.width = width;
  return draw(picture);
}

// The first maps of a grid, one below the other.
std::string grid_view(const pictures::HeatMapGrid& grid, pictures::TerminalStyle style);

}  // namespace rapt::cli
