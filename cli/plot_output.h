#pragma once

#include <functional>
#include <string>

#include "pictures/heatmap_grid.h"
#include "pictures/picture_file.h"
#include "pictures/terminal.h"

// Where the pictures of `rapt plot` go.
namespace rapt::cli {

// What every kind takes.
struct Output {
  std::string out;
  std::string format;  // for a name that does not say it
  std::string title;
  bool no_title = false;
  std::string theme = "light";
  std::string scale = "2";
  std::string width;      // "8.5cm"
  std::string font_size;  // of labels, in points
  std::string xlabel;     // of kinds with axes
  std::string ylabel;

  // --title, else what the kind would say; nothing with --no-title.
  std::string title_or(const std::string& usual) const { return no_title ? "" : title.empty() ? usual : title; }
  std::string xlabel_or(const std::string& usual) const { return xlabel.empty() ? usual : xlabel; }
  std::string ylabel_or(const std::string& usual) const { return ylabel.empty() ? usual : ylabel; }
};

// Of the file that an option names, "plot curves: --out": by its extension or, where that says nothing, by --format.
pictures::PictureFormat format_of(const std::string& argument, const std::string& name, const std::string& format);

// Refuses at once what could not be delivered in the end.
void check_output(const std::string& verb, const Output& output);

// Writes the drawing to --out, or shows the terminal's view. `drawing` is given how wide the whole may be, 0: as it needs.
void deliver(const std::string& verb, const Output& output, const std::function<pictures::Drawing(double)>& drawing,
             const std::function<std::string(const pictures::TerminalStyle&)>& view);

// The picture of a kind, so wide.
template <class Picture>
pictures::Drawing draw_with(Picture picture, double width) {
  picture.width = width;
  return draw(picture);
}

// The first maps of a grid below each other.
std::string grid_view(const pictures::HeatMapGrid& grid, pictures::TerminalStyle style);

}  // namespace rapt::cli
