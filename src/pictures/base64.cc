#include "pictures/base64.h"

#include <cstdint>

namespace rapt::pictures {

std::string base64(std::string_view bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  result.reserve(bytes.size() / 3 * 4 + 4);
  for (std::size_t n = 0; n < bytes.size(); n += 3) {
    const auto byte = [&](std::size_t k) {
      return n + k < bytes.size() ? std::uint32_t{static_cast<unsigned char>(bytes[n + k])} : 0u;
    };
    const std::uint32_t group = (byte(0) << 16) | (byte(1) << 8) | byte(2);
    for (std::size_t k = 0; k < 4; ++k) result += n + k > bytes.size() ? '=' : kDigits[(group >> (18 - 6 * k)) & 63];
  }
  return result;
}

}  // namespace rapt::pictures
