#pragma once

#include "tasks/images.h"

namespace rapt::inline v1::tasks {

struct ShapesOptions {
  std::uint64_t seed = 1;
  std::int64_t train = 8000;
  std::int64_t valid = 1000;
  std::int64_t test = 2000;
};

// Synthetic 32×32 colour images: one of five figures, striped or dotted, at any position, size, rotation and colours,
// on a background that may be striped or dotted too, with clutter and noise. The ten classes are figure × texture.
ImageTask shapes_task(const ShapesOptions& options);

// One image, [32, 32, 3]; its number decides its class, n mod 10.
void draw_shapes_image(std::uint64_t seed, int part, std::int64_t n, std::uint8_t* out);

}  // namespace rapt::inline v1::tasks
