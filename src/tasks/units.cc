#include "tasks/units.h"

#include <cstddef>
#include <cstdint>

#include "rapt/error.h"

namespace rapt::inline v1::tasks {
namespace {

// The length in bytes of the code point at `at`; 0 if it is invalid: overlong, a surrogate, above U+10FFFF or
// truncated.
std::size_t code_point_size(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t n) { return static_cast<unsigned char>(text[n]); };
  const std::uint32_t first = byte(at);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (size > text.size() - at) return 0;
  std::uint32_t value = first & (0x7fU >> size);
  for (std::size_t n = 1; n < size; ++n) {
    if ((byte(at + n) & 0xc0U) != 0x80U) return 0;
    value = value << 6 | (byte(at + n) & 0x3fU);
  }
  if (size == 3 && (value < 0x800 || (value >= 0xd800 && value <= 0xdfff))) return 0;
  if (size == 4 && (value < 0x10000 || value > 0x10ffff)) return 0;
  return size;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = code_point_size(text, at);
    if (size == 0) return at;
    at += size;
  }
  return std::string_view::npos;
}

std::vector<std::string> split(std::string_view text, Units units) {
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    throw Error("split text: expected UTF-8, got invalid UTF-8 at byte " + std::to_string(at));
  if (units == Units::subwords)
    if (const std::size_t at = text.find(kWordBegin); at != std::string_view::npos)
      throw Error("split text: expected no U+2581 (" + std::string(kWordBegin) +
                  "), which stands for a space among subwords, got one at byte " + std::to_string(at));
  std::vector<std::string> tokens;
  if (units == Units::characters) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = code_point_size(text, at);
      tokens.emplace_back(text.substr(at, size));
      at += size;
    }
    return tokens;
  }
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_space(text[at])) continue;
    if (at > begin) tokens.emplace_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  if (text.size() > begin) tokens.emplace_back(text.substr(begin));
  return tokens;
}

std::string join(std::span<const std::string> tokens, Units units) {
  std::string text;
  for (const std::string& token : tokens) {
    if (units == Units::words && !text.empty()) text += ' ';
    text += token;
  }
  if (units != Units::subwords) return text;
  std::string joined;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = std::string_view(text).substr(at).starts_with(kWordBegin);
    if (!begins) joined += text[at];
    else if (!joined.empty() && joined.back() != ' ') joined += ' ';
    at += begins ? kWordBegin.size() : 1;
  }
  if (joined.ends_with(' ')) joined.pop_back();
  return joined;
}

}  // namespace rapt::inline v1::tasks
