#pragma once

#include <cstdint>
#include <string>

namespace rapt::pictures {

struct Rgb {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

// From dark blue to light yellow as t goes from 0 to 1: lightness rises evenly, and the hue changes along blue–yellow,
// which every kind of colour vision tells apart. t outside is clamped; NaN gives the colour of missing numbers.
Rgb color_at(double t);

// Of a number on a scale from low to high. Where 0 lies between them, it is nearly white, and what is below and above it
// grows darker in blue and in orange, as fast on both sides; elsewhere color_at. Clamped to the scale's ends.
Rgb color_of(double value, double low, double high);

// "#rrggbb"
std::string hex(Rgb color);

// Black or white, whichever is easier to read on that colour.
Rgb ink_on(Rgb color);

// As the eye weighs them, 0 to 1 (WCAG's relative luminance).
double luminance(Rgb color);

}  // namespace rapt::pictures
