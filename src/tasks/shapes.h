#pragma once

#include "tasks/images.h"

namespace rapt::inline v1::tasks {

struct ShapesOptions {
  std::uint64_t seed = 1;
  std::int64_t train = 8000;
  std::int64_t valid = 1000;
  std::int64_t test = 2000;
};

// Made images of 32×32 colour pixels: one figure of five (circle, square, triangle, cross, star), striped or dotted,
// anywhere, in any size, rotation and colours, before a background that may itself be striped or dotted, with clutter and
// noise. The ten classes are figure × texture: neither alone tells the class.
ImageTask shapes_task(const ShapesOptions& options);

// One image, [32, 32, 3]; its number decides its class, n mod 10.
void draw_shapes_image(std::uint64_t seed, int part, std::int64_t n, std::uint8_t* out);

}  // namespace rapt::inline v1::tasks
