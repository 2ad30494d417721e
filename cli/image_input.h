#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rapt::cli {

// A picture as [rows, cols, channels] from 0 to 1: from a .png file, or from a .npy file [R,C] or [R,C,channels] of u8,
// or of numbers from 0 to 1. Throws rapt::Error, beginning with `argument`, if its size differs.
std::vector<double> read_image(const std::string& argument, const std::string& path, std::int64_t rows,
                               std::int64_t cols, std::int64_t channels);

}  // namespace rapt::cli
