#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::pictures {

struct Rgb {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

// From dark blue to light yellow as t goes from 0 to 1: lightness rises evenly, and the hue changes along blue–yellow,
// which every kind of colour vision tells apart. t outside is clamped; NaN gives the colour of missing numbers.
Rgb color_at(double t);

// "#rrggbb"
std::string hex(Rgb color);

struct HeatMap {
  std::string title;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;           // row by row
  std::vector<std::string> row_labels;  // empty: 1, 2, …
  std::vector<std::string> col_labels;
  std::string row_title;
  std::string col_title;
  double low = 0;  // the numbers at the ends of the colours
  double high = 1;
};

// A picture that stands alone: cells with their numbers (up to 12 × 12), labels, colour bar and title.
// Throws rapt::Error where the sizes do not fit.
std::string heat_map_svg(const HeatMap& map);

// The text as XML may hold it: marks escaped, control characters and broken UTF-8 replaced.
std::string xml_text(std::string_view text);

}  // namespace rapt::pictures
