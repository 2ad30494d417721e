#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::pictures {

// The text as XML may hold it: marks escaped, control characters and broken UTF-8 replaced.
std::string xml_text(std::string_view text);

bool is_utf8(std::string_view text);

// Calls visit(code, bytes) for each character; what is none has the code U+FFFD.
void each_code(std::string_view text, const std::function<void(char32_t, std::string_view)>& visit);

// Drawn over the letter before it, or not at all.
bool is_combining(char32_t code);

// How many characters; a byte that is none counts as one.
std::size_t characters(std::string_view text);

// A token as a person can see it: leading and trailing spaces, tabs and line ends as signs, other control characters and
// broken UTF-8 replaced, marks that turn the direction of what follows left out.
std::string visible(std::string_view token);

// The columns of a terminal that it takes.
std::size_t terminal_columns(std::string_view text);

// The width on the page, for the widest of the usual fonts: others leave a little room.
double text_width(std::string_view text, double size);

// The first characters that fit, then "…"; never half of one, never a long run of marks above a single letter.
std::string clipped(std::string_view text, double size, double width);

// Lines of at most that width, broken at spaces; what does not fit into so many lines is clipped.
std::vector<std::string> wrapped(std::string_view text, double size, double width, std::size_t max_lines);

// "3", "0.25": so many digits after the point at most, no zeros at the end. For coordinates.
std::string number(double x, int decimals = 2);

// Two digits that count, for people: 0.47, 0.035, 5e-5, −3.
std::string short_number(double x);

}  // namespace rapt::pictures
