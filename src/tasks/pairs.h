#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/units.h"

namespace rapt::inline v1::tasks {

struct Example {
  std::vector<std::string> source;
  std::vector<std::string> target;

  bool operator==(const Example&) const = default;
};

struct TaskData {
  std::vector<Example> train;
  std::vector<Example> valid;
  std::vector<Example> test;
};

struct PairFile {
  std::vector<Example> examples;
  std::vector<std::int64_t> lines;  // of each example, from 1
  std::int64_t empty_lines = 0;
  std::int64_t long_lines = 0;  // left out
};

// Which examples go to which part.
struct SplitPlaces {
  std::vector<std::size_t> train, valid, test;
};

// One source and all its targets, for scores that accept any of them.
struct References {
  std::vector<std::string> source;
  std::vector<std::vector<std::string>> targets;
};

// Reads lines of source TAB target: UTF-8, with or without a byte order mark, LF or CRLF. Empty lines are skipped and
// counted, a target may be empty; anything else throws rapt::Error "FILE:LINE: …". Lines with more than `max_length`
// units on a side throw, or with `skip_long` are left out and counted; subwords are not known yet.
PairFile read_pairs(const std::filesystem::path& path, Units source_units, Units target_units, std::int64_t max_length,
                    bool skip_long = false);

// The same from memory; `name` is what errors call it.
PairFile parse_pairs(std::string_view text, const std::string& name, Units source_units, Units target_units,
                     std::int64_t max_length, bool skip_long = false);

// The message for an example with more than `max_length` units on a side; empty if there is none.
std::string length_error(const Example& example, Units source_units, Units target_units, std::int64_t max_length);

// 64-bit FNV-1a, then the finaliser of MurmurHash3, so that the high bits alone are well mixed.
std::uint64_t stable_hash(std::string_view bytes);

// A source text's part depends on nothing else: its hash over 2⁶⁴ is below `test_fraction` (test), below `test_fraction
// + valid_fraction` (valid), or above (train). The order is kept.
SplitPlaces places_by_hash(std::span<const Example> examples, double valid_fraction, double test_fraction);
TaskData split_by_hash(std::span<const Example> examples, double valid_fraction, double test_fraction);

// In the order of the sources' first appearance; duplicate targets count once.
std::vector<References> group_by_source(std::span<const Example> examples);

}  // namespace rapt::inline v1::tasks
