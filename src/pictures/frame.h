#pragma once

#include <string>
#include <vector>

#include "pictures/axis.h"
#include "pictures/drawing.h"
#include "pictures/series.h"

namespace rapt::pictures {

struct Axis {
  std::string title;
  Scale scale;
  std::vector<Tick> ticks = {};  // empty: chosen here
};

// dashes: a line without a marker.
enum class LegendMark : std::uint8_t { line, dashes, box, point };

struct LegendEntry {
  std::string name;
  Look look;
  LegendMark mark = LegendMark::line;
};

struct FrameSpec {
  std::string title;
  Axis x;
  Axis y;
  std::vector<LegendEntry> legend = {};  // to the right of the plot, where it covers nothing
  bool legend_below = false;             // or below it, in narrow figures
  std::string note = {};                 // a line below
  double width = 540;                    // of the plot itself
  double height = 320;
  bool y_lines = true;  // grid lines at the ticks of y
};

// A drawing with title, axes, grid and legend, and the box for the data.
struct Frame {
  Drawing drawing;
  Box area;
  Scale x;
  Scale y;
  Point at(double x_value, double y_value) const { return {x.at(x_value), y.at(y_value)}; }
};

Frame make_frame(FrameSpec spec);

// What make_frame uses, for pictures of another shape. The width includes the gap to its left.
double legend_width(const std::vector<LegendEntry>& legend);
double legend_height(const std::vector<LegendEntry>& legend, std::size_t columns = 1);
void add_legend(Drawing& drawing, const std::vector<LegendEntry>& legend, double x, double y, std::size_t columns = 1);

// Whether a legend beside the plot would take too much of a figure of that width; never if the width is free, 0.
bool legend_goes_below(const std::vector<LegendEntry>& legend, double width);
// How many entries fit side by side below a plot.
std::size_t legend_columns(const std::vector<LegendEntry>& legend, double width);

// Up to two lines at the top of a drawing whose width is known; returns their lower edge.
double add_title(Drawing& drawing, const std::string& title);

// The height that add_title would use.
double title_height(const std::string& title, double width);

inline constexpr double kMargin = 16;
inline constexpr double kTitleSize = 15;
inline constexpr double kLabelSize = 12;
inline constexpr double kSmallSize = 11;

}  // namespace rapt::pictures
