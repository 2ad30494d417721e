#include "pictures/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace rapt::pictures {
namespace {

struct Character {
  char32_t code = 0xFFFD;
  std::size_t bytes = 1;
  bool valid = false;
};

Character read_character(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t n) { return at + n < text.size() ? static_cast<unsigned char>(text[at + n]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (bytes == 0) return {};
  char32_t code = first & (0xFFu >> (bytes + 1));
  for (std::size_t n = 1; n < bytes; ++n) {
    if ((byte(n) & 0xC0) != 0x80) return {};
    code = (code << 6) | (byte(n) & 0x3F);
  }
  constexpr std::array<char32_t, 5> kFirst{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kFirst[bytes] || code > 0x10FFFF || surrogate) return {};
  return {code, bytes, true};
}

template <class F>
void each_character(std::string_view text, F&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const Character c = read_character(text, at);
    visit(c, text.substr(at, c.bytes));
    at += c.bytes;
  }
}

bool between(char32_t code, char32_t low, char32_t high) { return code >= low && code <= high; }

// Not allowed in XML, or invisible.
bool is_control(char32_t code) {
  return code < 0x20 || between(code, 0x7F, 0x9F) || (code & 0xFFFE) == 0xFFFE || between(code, 0xFDD0, 0xFDEF);
}

bool turns_direction(char32_t code) {
  return between(code, 0x202A, 0x202E) || between(code, 0x2066, 0x2069) || between(code, 0x200E, 0x200F) ||
         code == 0x061C;
}

bool is_wide(char32_t code) {
  return between(code, 0x1100, 0x115F) || between(code, 0x2E80, 0xA4CF) || between(code, 0xAC00, 0xD7A3) ||
         between(code, 0xF900, 0xFAFF) || between(code, 0xFF00, 0xFF60) || code >= 0x1F000;
}

// Widths in hundredths of the size, from space to tilde, in DejaVu Sans.
constexpr std::array<std::uint8_t, 95> kWidths{
    32, 40, 46, 84, 64, 95, 78, 27, 39,  39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79,
    60, 79, 69, 63, 61, 73, 68, 99, 69,  61, 69, 39, 34, 39, 84, 50, 50, 61, 63, 55, 63, 62, 35, 63,
    63, 28, 28, 58, 28, 97, 63, 61, 63,  63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84};

double character_width(char32_t code) {
  if (between(code, 0x20, 0x7E)) return kWidths[code - 0x20] / 100.0;
  if (is_combining(code)) return 0;
  if (is_wide(code)) return 1.2;
  if (code == 0x00B7) return 0.32;
  if (between(code, 0x2070, 0x2094) || code == 0xB2 || code == 0xB3 || code == 0xB9) return 0.45;
  if (code == 0x2026) return 1.0;
  if (code < 0x250) return 0.66;
  if (code == 0xFFFD) return 1.03;
  return between(code, 0x2190, 0x22FF) ? 0.84 : 0.8;
}

// No label has more characters than this, however narrow.
std::size_t most_characters(double size, double width) { return static_cast<std::size_t>(2 + 4 * width / size); }

}  // namespace

std::string xml_text(std::string_view text) {
  std::string result;
  each_character(text, [&](const Character& c, std::string_view bytes) {
    const bool held = c.valid && c.code >= 0x20 && c.code != 0x7F && c.code != 0xFFFE && c.code != 0xFFFF;
    if (!held) result += "\uFFFD";
    else if (c.code == '&') result += "&amp;";
    else if (c.code == '<') result += "&lt;";
    else if (c.code == '>') result += "&gt;";
    else if (c.code == '"') result += "&quot;";
    else if (c.code == '\'') result += "&#39;";
    else result += bytes;
  });
  return result;
}

bool is_combining(char32_t code) {
  return between(code, 0x0300, 0x036F) || between(code, 0x0483, 0x0489) || between(code, 0x0591, 0x05C7) ||
         between(code, 0x0610, 0x061A) || between(code, 0x064B, 0x065F) || between(code, 0x1AB0, 0x1AFF) ||
         between(code, 0x1DC0, 0x1DFF) || between(code, 0x200B, 0x200D) || between(code, 0x20D0, 0x20FF) ||
         between(code, 0xFE00, 0xFE0F) || between(code, 0xFE20, 0xFE2F) || code == 0xFEFF;
}

void each_code(std::string_view text, const std::function<void(char32_t, std::string_view)>& visit) {
  each_character(text, [&](const Character& c, std::string_view bytes) { visit(c.code, bytes); });
}

bool is_utf8(std::string_view text) {
  bool valid = true;
  each_character(text, [&](const Character& c, std::string_view) { valid = valid && c.valid; });
  return valid;
}

std::size_t characters(std::string_view text) {
  std::size_t count = 0;
  each_character(text, [&](const Character&, std::string_view) { ++count; });
  return count;
}

std::size_t terminal_columns(std::string_view text) {
  std::size_t count = 0;
  each_character(text, [&](const Character& c, std::string_view) {
    count += is_combining(c.code) ? 0 : is_wide(c.code) ? 2 : 1;
  });
  return count;
}

std::string visible(std::string_view token) {
  const std::size_t first = token.find_first_not_of(' ');
  const std::size_t last = token.find_last_not_of(' ');
  std::string result;
  std::size_t at = 0;
  each_character(token, [&](const Character& c, std::string_view bytes) {
    const bool outer = first == std::string_view::npos || at < first || at > last;
    if (c.code == ' ' && outer) result += "␣";
    else if (c.code == '\n') result += "↵";
    else if (c.code == '\t') result += "⇥";
    else if (!c.valid || is_control(c.code)) result += "\uFFFD";
    else if (!turns_direction(c.code)) result += bytes;
    at += bytes.size();
  });
  return result;
}

double text_width(std::string_view text, double size) {
  double width = 0;
  each_character(text, [&](const Character& c, std::string_view) { width += character_width(c.code); });
  return width * size;
}

std::string clipped(std::string_view text, double size, double width) {
  // A small part of a very long text already shows that it does not fit.
  const std::size_t most = most_characters(size, width);
  const double room = width - text_width("…", size);
  double used = 0;
  std::size_t count = 0, keep = 0, at = 0;
  while (at < text.size() && count <= most && used <= width) {
    const Character c = read_character(text, at);
    used += character_width(c.code) * size;
    at += c.bytes;
    ++count;
    if (used <= room && count < most) keep = at;
  }
  if (at >= text.size() && used <= width && count <= most) return std::string(text);
  return std::string(text.substr(0, keep)) + "…";
}

std::vector<std::string> wrapped(std::string_view text, double size, double width, std::size_t max_lines) {
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() + 1 < max_lines && text_width(text, size) > width) {
    std::size_t cut = 0;
    for (std::size_t space = text.find(' '); space != std::string_view::npos; space = text.find(' ', space + 1)) {
      if (text_width(text.substr(0, space), size) > width) break;
      cut = space;
    }
    if (cut == 0) break;
    lines.emplace_back(text.substr(0, cut));
    text.remove_prefix(cut + 1);
  }
  if (!text.empty()) lines.push_back(clipped(text, size, width));
  return lines;
}

std::string number(double x, int decimals) {
  char text[400];
  auto end = std::to_chars(text, text + sizeof text, x, std::chars_format::fixed, decimals).ptr;
  if (decimals > 0) {
    while (*(end - 1) == '0') --end;
    if (*(end - 1) == '.') --end;
  }
  const std::string result(text, end);
  return result == "-0" ? "0" : result;
}

std::string short_number(double x) {
  if (std::isnan(x)) return "nan";
  if (x < 0) return "−" + short_number(-x);
  if (std::isinf(x)) return "∞";
  if (x == std::round(x) && x < 1e4) return number(x, 0);
  char text[64];
  if (x >= 1e-3 && x < 1e4) {
    const int decimals = std::max(x < 10 ? 2 : 0, 1 - static_cast<int>(std::floor(std::log10(x))));
    const auto end = std::to_chars(text, text + sizeof text, x, std::chars_format::fixed, decimals).ptr;
    return {text, end};
  }
  const auto end = std::to_chars(text, text + sizeof text, x, std::chars_format::scientific, 1).ptr;
  std::string result(text, end);
  // 5.0e-05 → 5e-5, 1.2e+04 → 1.2e4
  std::size_t e = result.find('e');
  if (result.compare(e - 2, 2, ".0") == 0) result.erase(e - 2, 2), e -= 2;
  if (result[e + 1] == '+') result.erase(e + 1, 1);
  const std::size_t digit = e + 1 + (result[e + 1] == '-');
  if (digit + 1 < result.size() && result[digit] == '0') result.erase(digit, 1);
  return result;
}

}  // namespace rapt::pictures
