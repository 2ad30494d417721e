#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "benchmarks/rows.h"
#include "cli/options.h"

// What the kinds of `rapt bench` share: parsing arguments and printing rows.
namespace rapt::cli {

using Json = nlohmann::ordered_json;
using Table = std::vector<std::vector<std::string>>;

std::vector<bench::Direction> parse_direction(const std::string& text);
// Nothing if the text is empty.
std::optional<int> parse_repeat(const std::string& text);

inline std::string optional_text(const std::optional<double>& value, const char* format = "%.3g") {
  return value ? format_as(*value, format) : "–";
}

template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// The result as JSON; it says if Ctrl-C ended the rows.
void print_bench(Json result, bool stopped);

// "B,H,S,D".
std::string shape_text(const bench::Spec& spec);
Json shape_json(const bench::Spec& spec);

Json roofs_json(const bench::Roofs& roofs);
void print_roofs(const bench::Roofs& roofs, int threads);

Json measurement_json(const bench::Measurement& m, const bench::Roofs& roofs, int threads);
// "±3%": half the interquartile range.
std::string quarters_text(const bench::Spread& seconds);
// With its unit; for one query the rate of reading memory too.
std::string rate_text(const bench::Measurement& m, const bench::Roofs& roofs);

}  // namespace rapt::cli
