#include "cli/options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>

#include "rapt/normalizer.h"

namespace rapt::cli {
namespace {

// Calls parse(part) for each part between commas, until one fails.
template <class F>
bool each_part(std::string_view text, F&& parse) {
  while (true) {
    const std::size_t comma = text.find(',');
    if (!parse(text.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

template <class T>
bool read_whole(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

std::string format_scaled(double value, double step, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (value >= step && unit + 1 != units.end()) {
    value /= step;
    ++unit;
  }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s", value, *unit);
  return text.data();
}

}  // namespace

std::vector<std::int64_t> parse_integers(std::string_view argument, std::string_view text, std::string_view takes) {
  std::vector<std::int64_t> values;
  const bool good = each_part(text, [&](std::string_view part) { return read_whole(part, values.emplace_back()); });
  if (!good) refuse(argument, text, takes);
  return values;
}

std::vector<std::int64_t> parse_integers(std::string_view argument, std::string_view text, std::string_view takes,
                                         std::size_t count) {
  std::vector<std::int64_t> values = parse_integers(argument, text, takes);
  if (values.size() != count) refuse(argument, text, takes);
  return values;
}

std::int64_t parse_within(std::string_view argument, std::string_view text, std::int64_t low, std::int64_t high) {
  const std::string takes = std::to_string(low) + " to " + std::to_string(high);
  const std::int64_t n = parse_integers(argument, text, takes, 1)[0];
  if (n < low || n > high) refuse(argument, text, takes);
  return n;
}

std::optional<std::vector<double>> try_numbers(std::string_view text) {
  std::vector<double> values;
  const bool good = each_part(text, [&](std::string_view part) {
    return read_whole(part, values.emplace_back()) && std::isfinite(values.back());
  });
  if (!good) return std::nullopt;
  return values;
}

double parse_number(std::string_view argument, std::string_view text, std::string_view takes) {
  double value = 0;
  if (!read_whole(text, value) || !std::isfinite(value)) refuse(argument, text, takes);
  return value;
}

int parse_threads(std::string_view argument, std::string_view text) {
  int threads = 0;
  if (!read_whole(text, threads) || threads < 1 || threads > kMaxThreads)
    refuse(argument, text, "an integer from 1 to " + std::to_string(kMaxThreads));
  return threads;
}

std::pair<std::string, std::string> parse_assignment(std::string_view argument, std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    refuse(argument, text, "NAME=FILE.npy or NAME=NUMBER[,NUMBER…]");
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

std::string normalizer_names() {
  std::string names;
  for (const NormalizerInfo& info : all_normalizers()) names.append(names.empty() ? "" : "|").append(info.name);
  return names;
}

CLI::Validator value_given() {
  // CLI11 would print a description with every option of the help; it stays empty.
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text.empty()) return "expected a value, got an empty one";
        if (text.starts_with("--")) return "expected a value, got the option '" + text + "'";
        return {};
      },
      "");
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (!control) line += c;
    else if (c == '\n' && !line.empty() && line.back() != ' ') line += ' ';
    else if (c != '\n') line += '?';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string format_as(double value, const char* format) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string format_bytes(double bytes) {
  return format_scaled(bytes, 1000, {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"});
}

std::string format_seconds(double seconds) {
  if (seconds >= 1000) return format_as(seconds, "%.0f s");
  if (seconds >= 1) return format_scaled(seconds, std::numeric_limits<double>::infinity(), {"s"});
  return format_scaled(seconds * 1e6, 1000, {"µs", "ms", "s"});
}

std::string format_table(const std::vector<std::vector<std::string>>& rows, std::string_view indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t n = 0; n + 1 < row.size(); ++n) {
      if (widths.size() <= n) widths.push_back(0);
      widths[n] = std::max(widths[n], character_count(row[n]));
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line(indent);
    for (std::size_t n = 0; n < row.size(); ++n) {
      line += row[n];
      if (n + 1 < row.size()) line.append(widths[n] - character_count(row[n]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines{""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && character_count(lines.back()) + 1 + character_count(word) > width)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::uint64_t available_memory() {
  std::uint64_t limit =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  std::ifstream memory("/proc/meminfo");
  std::string word;
  while (memory >> word) {
    std::uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && memory >> kilobytes) limit = std::min(limit, kilobytes * 1024);
  }
  // "max" means no limit: the read fails and changes nothing.
  std::ifstream group("/sys/fs/cgroup/memory.max");
  std::uint64_t bytes = 0;
  if (group >> bytes) limit = std::min(limit, bytes);
  return limit;
}

}  // namespace rapt::cli
