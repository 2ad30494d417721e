#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::inline v1::tasks {

// What a token is: a Unicode code point, a word between ASCII white space, or a part of such a word.
enum class Units { characters, words, subwords };

// U+2581, with which the first subword of a word begins.
inline constexpr std::string_view kWordBegin = "\xe2\x96\x81";

// The first byte that is not part of valid UTF-8, or std::string_view::npos.
std::size_t find_invalid_utf8(std::string_view text);

// Throws rapt::Error, naming the byte, for text that is not UTF-8. Subwords are learned (subwords.h): here they are whole
// words, of text without kWordBegin.
std::vector<std::string> split(std::string_view text, Units units);

// Joins characters directly, words with spaces, subwords with a space where a word begins.
std::string join(std::span<const std::string> tokens, Units units);

}  // namespace rapt::inline v1::tasks
