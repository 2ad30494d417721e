#include <numeric>
#include <set>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tasks/sequence_run.h"

// The data of a run on sequences, and how texts become tokens and back.
namespace rapt::inline v1::tasks {
namespace {

std::vector<std::string> subwords_of(const LearnedSubwords& subwords, std::span<const std::string> words) {
  if (words.empty()) return {};
  return subwords.model->split(join(words, Units::words));
}

std::vector<std::string> tokens_of(std::string_view text, Units units, const LearnedSubwords& subwords) {
  std::vector<std::string> tokens = split(text, units);
  return units == Units::subwords ? subwords_of(subwords, tokens) : tokens;
}

PairFile read_lines(const DataConfig& data, const std::string& path) {
  return read_pairs(path, data.source_units, data.target_units, data.longest, data.symbols.skip_long);
}

void learn(DataConfig& data, const PairFile& file, std::span<const std::size_t> train) {
  const auto side = [&](Units units, std::vector<std::string> Example::*words, LearnedSubwords& subwords,
                        const char* name) {
    if (units != Units::subwords || subwords.model) return;
    std::vector<std::string> lines;
    for (const std::size_t n : train)
      if (!(file.examples[n].*words).empty()) lines.push_back(join(file.examples[n].*words, Units::words));
    subwords = learn_subwords(lines, data.symbols, name);
  };
  side(data.source_units, &Example::source, data.source_subwords, "source");
  side(data.target_units, &Example::target, data.target_subwords, "target");
}

// The examples of one part of a file; only now is it known which lines are too long in subwords.
std::vector<Example> take(const DataConfig& data, const PairFile& file, const std::string& path,
                          std::span<const std::size_t> places, std::set<std::int64_t>& skipped) {
  std::vector<Example> result;
  for (const std::size_t n : places) {
    Example example = file.examples[n];
    if (data.source_units == Units::subwords) example.source = subwords_of(data.source_subwords, example.source);
    if (data.target_units == Units::subwords) example.target = subwords_of(data.target_subwords, example.target);
    const std::string error = length_error(example, data.source_units, data.target_units, data.longest);
    if (error.empty()) result.push_back(std::move(example));
    else if (data.symbols.skip_long) skipped.insert(file.lines[n]);
    else throw Error(path + ":" + std::to_string(file.lines[n]) + ": " + error);
  }
  return result;
}

std::vector<std::size_t> all_of(const PairFile& file) {
  std::vector<std::size_t> places(file.examples.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  return places;
}

void check_hash(DataConfig& data, std::span<const Example> examples) {
  std::uint64_t hash = 0;
  for (const Example& e : examples)
    hash = hash * 0x9e3779b97f4a7c15U + stable_hash(join(e.source, Units::words) + "\t" + join(e.target, Units::words));
  if (data.train_hash != 0 && data.train_hash != hash)
    throw Error(data.train +
                ": expected the examples that the run was started with, got others; restore them, or start a new run");
  data.train_hash = hash;
}

}  // namespace

std::vector<std::string> DataConfig::split_source(std::string_view text) const {
  if (source == Source::cases) return split_case_source(text);
  return tokens_of(text, source == Source::pairs ? source_units : Units::characters, source_subwords);
}

std::vector<std::string> DataConfig::split_target(std::string_view text) const {
  return tokens_of(text, source == Source::pairs ? target_units : Units::characters, target_subwords);
}

std::string DataConfig::join_source(std::span<const std::string> tokens) const {
  return join(tokens, source == Source::pairs ? source_units : Units::characters);
}

std::string DataConfig::join_target(std::span<const std::string> tokens) const {
  return join(tokens, source == Source::pairs ? target_units : Units::characters);
}

std::vector<Example> load_examples(DataConfig& data, const std::string& path) {
  const PairFile file = read_lines(data, path);
  std::set<std::int64_t> skipped;
  std::vector<Example> result = take(data, file, path, all_of(file), skipped);
  data.skipped_lines += file.long_lines + static_cast<std::int64_t>(skipped.size());
  if (result.empty())
    throw Error(path + ": expected a line of at most " + counted(data.longest, "token") +
                " a side (--longest), got none");
  return result;
}

TaskData load_data(DataConfig& data) {
  if (data.source == Source::reverse) return reverse_data(data.reverse);
  if (data.source == Source::cases) return case_data(data.cases);
  data.skipped_lines = 0;
  const PairFile file = read_lines(data, data.train);
  check_hash(data, file.examples);
  const bool alone = data.valid.empty() && data.test.empty();
  SplitPlaces places;
  if (alone) places = places_by_hash(file.examples, 0.05, 0.05);
  if (places.train.empty()) places.train = all_of(file);
  learn(data, file, places.train);
  std::set<std::int64_t> skipped;
  TaskData result{take(data, file, data.train, places.train, skipped),
                  take(data, file, data.train, places.valid, skipped),
                  take(data, file, data.train, places.test, skipped)};
  data.skipped_lines = file.long_lines + static_cast<std::int64_t>(skipped.size());
  if (result.train.empty())
    throw Error(data.train + ": expected a line of at most " + counted(data.longest, "token") +
                " a side (--longest) to train on, got none");
  if (!data.valid.empty()) result.valid = load_examples(data, data.valid);
  if (!data.test.empty()) result.test = load_examples(data, data.test);
  return result;
}

}  // namespace rapt::inline v1::tasks
