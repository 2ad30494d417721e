#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rapt::test {

// A .npy file by hand, sharing no code with the writer: the dict as given, padded as NumPy pads it.
inline std::string npy_bytes(int major, std::string dict, std::string_view data) {
  const std::size_t fixed = major == 1 ? 10 : 12;
  while ((fixed + dict.size() + 1) % 64 != 0) dict += ' ';
  dict += '\n';
  std::string bytes("\x93NUMPY", 6);
  bytes += static_cast<char>(major);
  bytes += '\0';
  for (std::size_t n = 0; n < (major == 1 ? 2u : 4u); ++n) bytes += static_cast<char>((dict.size() >> (8 * n)) & 0xff);
  return bytes + dict + std::string(data);
}

inline std::string npy_dict(std::string_view descr, std::string_view order, std::string_view shape) {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': " + std::string(order) +
         ", 'shape': " + std::string(shape) + ", }";
}

}  // namespace rapt::test
