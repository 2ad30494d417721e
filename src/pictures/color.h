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

// From dark blue to light yellow as t goes from 0 to 1: lightness rises evenly, and hue changes along blue–yellow,
// which every kind of colour vision distinguishes. t is clamped; NaN gives the colour of missing numbers.
Rgb color_at(double t);

// The colour of a number on a scale from low to high, clamped. If 0 is inside, it is nearly white, and numbers darken
// towards blue below it and orange above, at the same rate; else color_at.
Rgb color_of(double value, double low, double high);

// "#rrggbb"
std::string hex(Rgb color);

// Black or white, whichever is easier to read on that colour.
Rgb ink_on(Rgb color);

// WCAG's relative luminance, 0 to 1.
double luminance(Rgb color);

}  // namespace rapt::pictures
