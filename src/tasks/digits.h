#pragma once

#include <span>

#include "tasks/images.h"

namespace rapt::inline v1::tasks {

// The 1,797 handwritten digits of data/digits.bin, 8×8, white = 16. data/README.md names source and licence.
ImageData digits_data();

// Always the same split: about 70 % for training, 10 % for validation, 20 % for testing.
ImageTask digits_task();

// Reads the format of data/digits.bin from memory; throws rapt::Error for anything else.
ImageData parse_digits(std::span<const unsigned char> bytes);

// The file itself, which the build embeds in the library.
std::span<const unsigned char> digits_bytes();

}  // namespace rapt::inline v1::tasks
