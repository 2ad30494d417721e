#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pictures/color.h"

namespace rapt::test {

// A PNG file, read by libpng.
struct Pixels {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<pictures::Rgb> colors;
  pictures::Rgb at(double x, double y) const;
};

// Throws std::runtime_error for anything but a PNG.
Pixels read_png(const std::string& bytes);

// The pixels along the four edges that differ from the page's colour: something was cut off there.
std::size_t marks_at_edges(const Pixels& pixels, pictures::Rgb page = {255, 255, 255});

}  // namespace rapt::test
