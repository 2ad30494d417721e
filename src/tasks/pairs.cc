#include "tasks/pairs.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/files.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr std::uint64_t kPairsLimit = std::uint64_t{1} << 32;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kExpected = "expected source TAB target, got ";

const char* units_name(Units units) {
  return units == Units::characters ? "characters" : units == Units::words ? "words" : "subwords";
}

std::string side_error(const std::vector<std::string>& tokens, const char* name, Units units, std::int64_t max_length) {
  if (static_cast<std::int64_t>(tokens.size()) <= max_length) return "";
  return std::string("expected a ") + name + " of at most " + std::to_string(max_length) + " " + units_name(units) +
         " (--longest), got " + std::to_string(tokens.size());
}

Example parse_line(std::string_view line, Units source_units, Units target_units) {
  const std::size_t nul = line.find('\0');
  if (nul != std::string_view::npos)
    throw Error("expected text, got a NUL byte at byte " + std::to_string(nul) + " of the line");
  if (const std::size_t at = find_invalid_utf8(line); at != std::string_view::npos)
    throw Error("expected UTF-8, got an invalid byte at byte " + std::to_string(at) + " of the line");
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  if (tabs != 1) throw Error(std::string(kExpected) + (tabs == 0 ? "no tab" : std::to_string(tabs) + " tabs"));
  const std::size_t tab = line.find('\t');
  Example example;
  example.source = split(line.substr(0, tab), source_units);
  if (example.source.empty()) throw Error("expected a source before the tab, got none");
  example.target = split(line.substr(tab + 1), target_units);
  return example;
}

std::string text_of(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

// Distinct for distinct token lists: no token holds a NUL.
std::string key_of(const std::vector<std::string>& tokens) {
  std::string key;
  for (const std::string& token : tokens) (key += token) += '\0';
  return key;
}

}  // namespace

std::string length_error(const Example& example, Units source_units, Units target_units, std::int64_t max_length) {
  std::string error = side_error(example.source, "source", source_units, max_length);
  return error.empty() ? side_error(example.target, "target", target_units, max_length) : error;
}

PairFile parse_pairs(std::string_view text, const std::string& name, Units source_units, Units target_units,
                     std::int64_t max_length, bool skip_long) {
  if (max_length < 1) throw Error("read pairs: expected a max_length of at least 1, got " + std::to_string(max_length));
  // Subwords cannot be counted yet, so they count as 0.
  const auto too_long = [&](const Example& example) {
    std::string error;
    if (source_units != Units::subwords) error = side_error(example.source, "source", source_units, max_length);
    if (error.empty() && target_units != Units::subwords)
      error = side_error(example.target, "target", target_units, max_length);
    return error;
  };
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  PairFile file;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) {
      ++file.empty_lines;
      continue;
    }
    try {
      Example example = parse_line(line, source_units, target_units);
      const std::string error = too_long(example);
      if (!error.empty() && !skip_long) throw Error(error);
      if (!error.empty()) {
        ++file.long_lines;
        continue;
      }
      file.examples.push_back(std::move(example));
      file.lines.push_back(number);
    } catch (const Error& error) {
      throw Error(name + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  if (file.examples.empty() && file.long_lines > 0)
    throw Error(name + ": expected a line of at most " + counted(max_length, "token") +
                " a side (--longest), got none: all " + std::to_string(file.long_lines) + " are longer");
  if (file.examples.empty()) throw Error(name + ":1: expected lines of source TAB target, got no examples");
  return file;
}

PairFile read_pairs(const std::filesystem::path& path, Units source_units, Units target_units, std::int64_t max_length,
                    bool skip_long) {
  return parse_pairs(read_file(path, kPairsLimit), path.string(), source_units, target_units, max_length, skip_long);
}

std::uint64_t stable_hash(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

SplitPlaces places_by_hash(std::span<const Example> examples, double valid_fraction, double test_fraction) {
  if (!(valid_fraction >= 0 && test_fraction >= 0 && valid_fraction + test_fraction < 1))
    throw Error("split by hash: expected two fractions, 0 or more, whose sum is below 1, got " +
                std::to_string(valid_fraction) + " and " + std::to_string(test_fraction));
  SplitPlaces places;
  for (std::size_t n = 0; n < examples.size(); ++n) {
    const double place = static_cast<double>(stable_hash(text_of(examples[n].source)) >> 11) * 0x1p-53;
    std::vector<std::size_t>& part = place < test_fraction                    ? places.test
                                     : place < test_fraction + valid_fraction ? places.valid
                                                                              : places.train;
    part.push_back(n);
  }
  return places;
}

TaskData split_by_hash(std::span<const Example> examples, double valid_fraction, double test_fraction) {
  const SplitPlaces places = places_by_hash(examples, valid_fraction, test_fraction);
  const auto part = [&](const std::vector<std::size_t>& list) {
    std::vector<Example> result;
    for (const std::size_t n : list) result.push_back(examples[n]);
    return result;
  };
  return {part(places.train), part(places.valid), part(places.test)};
}

std::vector<References> group_by_source(std::span<const Example> examples) {
  std::vector<References> groups;
  std::unordered_map<std::string, std::size_t> places;
  for (const Example& example : examples) {
    const auto [entry, added] = places.emplace(key_of(example.source), groups.size());
    if (added) groups.push_back({example.source, {}});
    std::vector<std::vector<std::string>>& targets = groups[entry->second].targets;
    if (std::find(targets.begin(), targets.end(), example.target) == targets.end()) targets.push_back(example.target);
  }
  return groups;
}

}  // namespace rapt::inline v1::tasks
