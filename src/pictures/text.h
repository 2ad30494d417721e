#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::pictures {

// The text for XML: markup escaped, control characters and broken UTF-8 replaced.
std::string xml_text(std::string_view text);

bool is_utf8(std::string_view text);

// Calls visit(code, bytes) for each character; invalid bytes have the code U+FFFD.
void each_code(std::string_view text, const std::function<void(char32_t, std::string_view)>& visit);

// Whether it is drawn over the letter before it, or not at all.
bool is_combining(char32_t code);

// The number of characters; an invalid byte counts as one.
std::size_t characters(std::string_view text);

// A token in visible form: leading and trailing spaces, tabs and line ends as symbols, other control characters and
// broken UTF-8 replaced, direction marks left out.
std::string visible(std::string_view token);

// Its width in columns of a terminal.
std::size_t terminal_columns(std::string_view text);

// The width on the page in the widest of the usual fonts; others leave some room.
double text_width(std::string_view text, double size);

// The first characters that fit, then "…"; never part of one, nor a long run of combining marks.
std::string clipped(std::string_view text, double size, double width);

// Lines of at most that width, broken at spaces; what exceeds the number of lines is clipped.
std::vector<std::string> wrapped(std::string_view text, double size, double width, std::size_t max_lines);

// "3", "0.25": at most this many decimals, no trailing zeros. For coordinates.
std::string number(double x, int decimals = 2);

// Two significant digits, for people: 0.47, 0.035, 5e-5, −3.
std::string short_number(double x);

}  // namespace rapt::pictures
