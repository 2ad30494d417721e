#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::inline v1::tasks {

// What one token of a text is: a Unicode code point, or a word between ASCII white space.
enum class Units { characters, words };

// The first byte that is not part of valid UTF-8, or std::string_view::npos.
std::size_t find_invalid_utf8(std::string_view text);

// Throws rapt::Error, naming the byte, for text that is not UTF-8.
std::vector<std::string> split(std::string_view text, Units units);

// Characters one after the other, words with a space between.
std::string join(std::span<const std::string> tokens, Units units);

}  // namespace rapt::inline v1::tasks
