#include "tasks/subwords.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tasks/units.h"

namespace rapt::inline v1::tasks {
namespace {

using Counts = std::unordered_map<std::string, std::int64_t>;

std::optional<SubwordLibrary>& linked_library() {
  static std::optional<SubwordLibrary> library;
  return library;
}

bool is_one_character(const std::string& part) { return split(part, Units::characters).size() == 1; }

// The lines with rare characters replaced by spaces, so that no part holds them, and how many other characters there
// are.
std::vector<std::string> without_rare(std::span<const std::string> lines, std::int64_t min_count,
                                      std::int64_t& characters) {
  Counts counts;
  for (const std::string& line : lines)
    for (std::string& one : split(line, Units::characters)) ++counts[std::move(one)];
  counts.erase(" ");
  characters = std::count_if(counts.begin(), counts.end(), [&](const auto& one) { return one.second >= min_count; });
  std::vector<std::string> result;
  for (const std::string& line : lines) {
    std::string text;
    for (const std::string& one : split(line, Units::characters)) {
      const auto found = counts.find(one);
      text += found != counts.end() && found->second >= min_count ? one : " ";
    }
    text = join(split(text, Units::words), Units::words);
    if (!text.empty()) result.push_back(std::move(text));
  }
  return result;
}

// The parts of several characters that occur often enough in the lines.
std::vector<std::string> frequent_parts(const Subwords& model, std::span<const std::string> lines,
                                        std::int64_t min_count, bool& rare) {
  Counts counts;
  for (const std::string& line : lines)
    for (std::string& part : model.split(line)) ++counts[std::move(part)];
  std::vector<std::string> frequent;
  rare = false;
  for (const auto& [part, count] : counts) {
    if (is_one_character(part)) continue;
    if (count >= min_count) frequent.push_back(part);
    else rare = true;
  }
  std::sort(frequent.begin(), frequent.end());
  return frequent;
}

}  // namespace

void use_subword_library(const SubwordLibrary& library) { linked_library() = library; }

const SubwordLibrary& subword_library() {
  if (!linked_library())
    throw Error(
        "subwords: expected a program that is built with SentencePiece, got one without it: the tool needs the library "
        "when "
        "it is built (scripts/bootstrap installs it), a program rapt::subwords and a call of rapt::use_subwords()");
  return *linked_library();
}

LearnedSubwords learn_subwords(std::span<const std::string> lines, const SymbolOptions& options,
                               const std::string& side) {
  const SubwordLibrary& library = subword_library();
  if (lines.empty()) throw Error("subwords: expected text to learn from, got only empty " + side + "s");
  std::int64_t characters = 0;
  const std::vector<std::string> texts = without_rare(lines, options.min_count, characters);
  if (texts.empty())
    throw Error("setting min_count: expected a count that keeps at least one " + side + " character, got " +
                std::to_string(options.min_count));
  const std::int64_t most = options.vocabulary > 0 ? options.vocabulary : kUsualSubwords;
  // Each character is a part, and so is the beginning of a word.
  if (most < characters + 1)
    throw Error("setting vocabulary: expected at least " + std::to_string(characters + 1) +
                ", a subword for each of the " + counted(characters, "character") + " of the " + side +
                "s and one for the space, got " + std::to_string(most) + "; --min-count leaves rare characters out");
  std::unique_ptr<Subwords> model = library.open(library.learn(texts, options.subwords, most));
  // Splitting a part changes how often others occur. There are fewer parts each time, so this ends.
  std::vector<std::string> kept;
  for (bool rare = true; rare;) {
    kept = frequent_parts(*model, texts, options.min_count, rare);
    model->keep(kept);
  }
  return {std::move(model), std::move(kept)};
}

}  // namespace rapt::inline v1::tasks
