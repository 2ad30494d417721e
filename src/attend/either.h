#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rapt::inline v1 {

// Choices in a message: "rnn, gru or lstm".
inline std::string either(std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t n = 0; n < names.size(); ++n)
    text.append(n == 0 ? "" : n + 1 < names.size() ? ", " : " or ").append(names[n]);
  return text;
}

}  // namespace rapt::inline v1
