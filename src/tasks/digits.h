#pragma once

#include <span>

#include "tasks/images.h"

namespace rapt::inline v1::tasks {

// The 1,797 handwritten digits of data/digits.bin, 8×8, white = 16. data/README.md names source and licence.
ImageData digits_data();

// Always the same parts: about 70 % to train on, 10 % valid, 20 % test.
ImageTask digits_task();

// The format of data/digits.bin from memory; throws rapt::Error where it is something else.
ImageData parse_digits(std::span<const unsigned char> bytes);

// The file itself, which the build puts into the library.
std::span<const unsigned char> digits_bytes();

}  // namespace rapt::inline v1::tasks
