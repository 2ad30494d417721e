#include "tasks/case.h"

#include <array>
#include <cstddef>
#include <unordered_set>
#include <utility>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tasks/generated.h"

namespace rapt::inline v1::tasks {
namespace {

using Words = std::vector<std::string_view>;

// "an" precedes the vowels below; every word here sounds as it is spelled.
constexpr auto kNouns = std::to_array<std::string_view>(
    {"student", "teacher", "doctor", "writer",  "engineer", "artist", "farmer", "cat",    "dog",     "owl",
     "horse",   "book",    "letter", "picture", "window",   "table",  "island", "river",  "forest",  "bridge",
     "engine",  "machine", "puzzle", "zebra",   "jacket",   "kettle", "violin", "garden", "question"});
constexpr auto kAdjectives = std::to_array<std::string_view>(
    {"happy", "quiet", "old",  "young", "small", "large", "green", "yellow", "brave", "lazy",
     "quick", "empty", "open", "extra", "warm",  "cold",  "kind",  "sharp",  "fuzzy", "simple"});
constexpr auto kVerbs = std::to_array<std::string_view>(
    {"saw", "found", "liked", "drew", "moved", "fixed", "lost", "carried", "watched", "visited", "opened", "kept"});
constexpr auto kPlaces = std::to_array<std::string_view>({"near", "behind", "under", "beside", "above", "without"});
constexpr auto kJoints = std::to_array<std::string_view>({"and", "but", "because", "while", "when"});

// The form of "to be" for each, and whether it is singular.
struct Pronoun {
  std::string_view word;
  std::string_view be;
  bool single;
};
constexpr auto kPronouns = std::to_array<Pronoun>({{"i", "am", true},
                                                   {"you", "are", true},
                                                   {"she", "is", true},
                                                   {"he", "is", true},
                                                   {"it", "is", true},
                                                   {"we", "are", false},
                                                   {"they", "are", false}});

template <class T, std::size_t N>
const T& pick(const std::array<T, N>& from, Random& random) {
  return from[static_cast<std::size_t>(random.below(N))];
}

bool flip(Random& random) { return random.below(2) == 0; }

void add_thing(Words& words, bool definite, Random& random) {
  const std::size_t article = words.size();
  words.emplace_back("the");
  if (random.below(3) == 0) words.push_back(pick(kAdjectives, random));
  words.push_back(pick(kNouns, random));
  if (definite) return;
  const bool vowel = std::string_view("aeiou").find(words[article + 1].front()) != std::string_view::npos;
  words[article] = vowel ? "an" : "a";
}

void add_clause(Words& words, Random& random) {
  Pronoun subject{"", "is", true};
  if (flip(random)) {
    subject = pick(kPronouns, random);
    words.push_back(subject.word);
  } else {
    add_thing(words, true, random);
  }
  if (flip(random)) {
    words.push_back(pick(kVerbs, random));
    add_thing(words, flip(random), random);
    if (flip(random)) {
      words.push_back(pick(kPlaces, random));
      add_thing(words, true, random);
    }
    return;
  }
  words.push_back(subject.be);
  if (subject.single && flip(random)) add_thing(words, false, random);
  else words.push_back(pick(kAdjectives, random));
}

// As many words of a grammatical text as fit; lower case.
std::string sentence(std::size_t length, Random& random) {
  Words words;
  std::string text;
  for (std::size_t n = 0;; ++n) {
    if (n == words.size()) {
      if (n > 0) words.push_back(pick(kJoints, random));
      add_clause(words, random);
    }
    if (text.size() + (n > 0 ? 1 : 0) + words[n].size() > length) return text;
    if (n > 0) text += ' ';
    text += words[n];
  }
}

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string upper(std::string text) {
  for (char& c : text) c = upper(c);
  return text;
}

// Half of them as people write; the others word by word in lower case, upper case, capitalised or mixed.
std::string mixed_case(std::string text, Random& random) {
  const bool usual = flip(random);
  std::uint64_t style = 0;
  for (std::size_t n = 0; n < text.size(); ++n) {
    const bool first = n == 0 || text[n - 1] == ' ';
    const bool last = n + 1 == text.size() || text[n + 1] == ' ';
    if (first) style = random.below(4);
    const bool large = usual ? n == 0 || (first && last && text[n] == 'i')
                             : style == 1 || (style == 2 && first) || (style == 3 && flip(random));
    if (large) text[n] = upper(text[n]);
  }
  return text;
}

}  // namespace

TaskData case_data(const CaseOptions& options) {
  constexpr int kMostTries = 10000;
  const Amount amount{"case", options.train, options.valid, options.test, options.min_length, options.max_length};
  check(amount);
  // Ids that neither other tasks nor batches use.
  Random random(options.seed, 0x63617365);
  std::unordered_set<std::string> taken;
  std::vector<Example> examples;
  const auto lengths = static_cast<std::uint64_t>(options.max_length - options.min_length + 1);
  int tries = 0;
  while (static_cast<std::int64_t>(examples.size()) < amount.total()) {
    if (++tries > kMostTries)
      throw Error("case: expected at most about " + std::to_string(examples.size()) + ", got " +
                  std::to_string(amount.total()) + " sentences of " + std::to_string(options.min_length) + " to " +
                  counted(options.max_length, "character"));
    const std::string lower = sentence(static_cast<std::size_t>(options.min_length) + random.below(lengths), random);
    if (static_cast<std::int64_t>(lower.size()) < options.min_length || !taken.insert(lower).second) continue;
    tries = 0;
    const bool to_upper = flip(random);
    Example example;
    example.source = split_case_source((to_upper ? "<U> " : "<L> ") + mixed_case(lower, random));
    example.target = split(to_upper ? upper(lower) : lower, Units::characters);
    examples.push_back(std::move(example));
  }
  return cut(std::move(examples), amount, random);
}

std::vector<std::string> split_case_source(std::string_view text) {
  constexpr std::size_t kTag = 3;
  if (!text.starts_with("<U> ") && !text.starts_with("<L> "))
    throw Error("case: expected \"<U> text\" or \"<L> text\", got a text without a tag");
  std::vector<std::string> tokens = split(text.substr(kTag + 1), Units::characters);
  tokens.emplace(tokens.begin(), text.substr(0, kTag));
  return tokens;
}

}  // namespace rapt::inline v1::tasks
