#include "tasks/pairs.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "rapt/error.h"
#include "tensor/files.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr std::uint64_t kPairsLimit = std::uint64_t{1} << 32;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kExpected = "expected source TAB target, got ";

struct Format {
  Units source_units;
  Units target_units;
  std::int64_t max_length;
};

const char* units_name(Units units) { return units == Units::characters ? "characters" : "words"; }

std::vector<std::string> parse_side(std::string_view side, const char* name, Units units, std::int64_t max_length) {
  std::vector<std::string> tokens = split(side, units);
  if (static_cast<std::int64_t>(tokens.size()) > max_length)
    throw Error(std::string("expected a ") + name + " of at most " + std::to_string(max_length) + " " +
                units_name(units) + " (--longest), got " + std::to_string(tokens.size()));
  return tokens;
}

Example parse_line(std::string_view line, const Format& format) {
  const std::size_t nul = line.find('\0');
  if (nul != std::string_view::npos)
    throw Error("expected text, got a NUL byte at byte " + std::to_string(nul) + " of the line");
  if (const std::size_t at = find_invalid_utf8(line); at != std::string_view::npos)
    throw Error("expected UTF-8, got an invalid byte at byte " + std::to_string(at) + " of the line");
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  if (tabs != 1) throw Error(std::string(kExpected) + (tabs == 0 ? "no tab" : std::to_string(tabs) + " tabs"));
  const std::size_t tab = line.find('\t');
  Example example;
  example.source = parse_side(line.substr(0, tab), "source", format.source_units, format.max_length);
  if (example.source.empty()) throw Error("expected a source before the tab, got none");
  example.target = parse_side(line.substr(tab + 1), "target", format.target_units, format.max_length);
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

PairFile parse_pairs(std::string_view text, const std::string& name, Units source_units, Units target_units,
                     std::int64_t max_length) {
  if (max_length < 1) throw Error("read pairs: expected a max_length of at least 1, got " + std::to_string(max_length));
  const Format format{source_units, target_units, max_length};
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
      file.examples.push_back(parse_line(line, format));
    } catch (const Error& error) {
      throw Error(name + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  if (file.examples.empty()) throw Error(name + ":1: expected lines of source TAB target, got no examples");
  return file;
}

PairFile read_pairs(const std::filesystem::path& path, Units source_units, Units target_units,
                    std::int64_t max_length) {
  return parse_pairs(read_file(path, kPairsLimit), path.string(), source_units, target_units, max_length);
}

std::uint64_t stable_hash(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

TaskData split_by_hash(std::span<const Example> examples, double valid_fraction, double test_fraction) {
  if (!(valid_fraction >= 0 && test_fraction >= 0 && valid_fraction + test_fraction < 1))
    throw Error("split by hash: expected two fractions, 0 or more, whose sum is below 1, got " +
                std::to_string(valid_fraction) + " and " + std::to_string(test_fraction));
  TaskData data;
  for (const Example& example : examples) {
    const double place = static_cast<double>(stable_hash(text_of(example.source)) >> 11) * 0x1p-53;
    std::vector<Example>& part = place < test_fraction                    ? data.test
                                 : place < test_fraction + valid_fraction ? data.valid
                                                                          : data.train;
    part.push_back(example);
  }
  return data;
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
