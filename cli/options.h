#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "rapt/error.h"
#include "solve/choice.h"

// Argument parsing that the verbs share. `argument` begins error messages: "attend: --window".
namespace rapt::cli {

// "1,2,3": whole numbers, at least one.
std::vector<std::int64_t> parse_integers(std::string_view argument, std::string_view text, std::string_view takes);

// As many whole numbers as asked for: two with count = 2.
std::vector<std::int64_t> parse_integers(std::string_view argument, std::string_view text, std::string_view takes,
                                         std::size_t count);

// One whole number within [low, high].
std::int64_t parse_within(std::string_view argument, std::string_view text, std::int64_t low, std::int64_t high);

// "0.5,-1e3": finite numbers; empty if the text is anything else.
std::optional<std::vector<double>> try_numbers(std::string_view text);

// One finite number.
double parse_number(std::string_view argument, std::string_view text, std::string_view takes);

// From 1 to kMaxThreads.
inline constexpr int kMaxThreads = 1024;
int parse_threads(std::string_view argument, std::string_view text);

// "NAME=VALUE", neither part empty.
std::pair<std::string, std::string> parse_assignment(std::string_view argument, std::string_view text);

// "softmax|argmax|…": every normaliser.
std::string normalizer_names();

// Refuses an empty value, and one that looks like an option: in "--out --stats" the directory is missing.
CLI::Validator value_given();

// The text on one line, without control characters, for messages.
std::string one_line(std::string_view text);

// A number through printf's format; up to 63 characters.
std::string format_as(double value, const char* format);

// "1.5 GB"; "3.2 ms".
std::string format_bytes(double bytes);
std::string format_seconds(double seconds);

// Rows of cells in aligned columns; the last cell of a row is not padded. Widths count UTF-8 characters.
std::string format_table(const std::vector<std::vector<std::string>>& rows, std::string_view indent = "");

// Wraps a text at so many characters; a longer word gets its own line.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

// The number of UTF-8 characters.
std::size_t character_count(std::string_view text);

// Memory that this process may use: the machine's available memory, or less under a control group.
std::uint64_t available_memory();

}  // namespace rapt::cli
