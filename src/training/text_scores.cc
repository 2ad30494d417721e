#include "training/text_scores.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "rapt/error.h"

namespace rapt::inline v1::training {
namespace {

using Tally = std::unordered_map<std::string, std::int64_t>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// All of ASCII's punctuation but ' , - and the full stop, which the next steps look at.
bool stands_alone(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// A regular expression's replacement of two neighbours, left to right, without overlap.
template <class Matches, class Put>
std::string replace_pairs(const std::string& text, Matches&& matches, Put&& put) {
  std::string result;
  for (std::size_t n = 0; n < text.size(); ++n) {
    if (n + 1 < text.size() && matches(text[n], text[n + 1])) {
      put(result, text[n], text[n + 1]);
      ++n;
    } else {
      result += text[n];
    }
  }
  return result;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t n = 0; n < text.size();) {
    const std::size_t begin = n;
    while (n < text.size() && !is_space(text[n])) ++n;
    if (n > begin) words.emplace_back(text.substr(begin, n - begin));
    while (n < text.size() && is_space(text[n])) ++n;
  }
  return words;
}

// Every UTF-8 character but white space.
std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> list;
  for (const char c : text) {
    if (is_space(c)) continue;
    const bool continues = (static_cast<unsigned char>(c) & 0xc0) == 0x80 && !list.empty();
    if (continues) list.back() += c;
    else list.emplace_back(1, c);
  }
  return list;
}

// No token holds a line break, so that the keys of different n-grams differ.
Tally n_grams(std::span<const std::string> tokens, std::size_t n) {
  Tally tally;
  for (std::size_t begin = 0; begin + n <= tokens.size(); ++begin) {
    std::string key;
    for (std::size_t m = begin; m < begin + n; ++m) (key += tokens[m]) += '\n';
    ++tally[key];
  }
  return tally;
}

std::int64_t count_of(std::span<const std::string> tokens, std::size_t n) {
  return tokens.size() < n ? 0 : static_cast<std::int64_t>(tokens.size() - n + 1);
}

std::int64_t overlap(const Tally& a, const Tally& b) {
  std::int64_t sum = 0;
  for (const auto& [key, count] : a)
    if (const auto found = b.find(key); found != b.end()) sum += std::min(count, found->second);
  return sum;
}

}  // namespace

std::vector<std::string> tokenize_13a(std::string_view text) {
  std::string line(text);
  replace_all(line, "<skipped>", "");
  replace_all(line, "-\n", "");
  for (const auto& [from, to] : {std::pair{"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}})
    replace_all(line, from, to);
  std::string spaced = " ";
  for (const char c : line) {
    if (stands_alone(c)) ((spaced += ' ') += c) += ' ';
    else spaced += c;
  }
  spaced += ' ';
  const auto stop = [](char c) { return c == '.' || c == ','; };
  spaced = replace_pairs(
      spaced, [&](char a, char b) { return !is_digit(a) && stop(b); },
      [](std::string& to, char a, char b) { (((to += a) += ' ') += b) += ' '; });
  spaced = replace_pairs(
      spaced, [&](char a, char b) { return stop(a) && !is_digit(b); },
      [](std::string& to, char a, char b) { (((to += ' ') += a) += ' ') += b; });
  spaced = replace_pairs(
      spaced, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& to, char a, char b) { (((to += a) += ' ') += b) += ' '; });
  return words_of(spaced);
}

void TextScores::add(std::string_view hypothesis, std::span<const std::string> references) {
  if (references.empty()) throw Error("text scores: expected at least one reference, got none");
  const std::vector<std::string> words = tokenize_13a(hypothesis);
  std::vector<std::vector<std::string>> reference_words;
  for (const std::string& reference : references) reference_words.push_back(tokenize_13a(reference));
  for (std::size_t n = 1; n <= kWords; ++n) {
    Tally most;
    for (const auto& reference : reference_words)
      for (const auto& [key, count] : n_grams(reference, n)) most[key] = std::max(most[key], count);
    matching_[n - 1] += overlap(n_grams(words, n), most);
    total_[n - 1] += count_of(words, n);
  }
  hypothesis_words_ += static_cast<std::int64_t>(words.size());
  // The reference of the nearest length, the shorter one of two as near.
  std::int64_t nearest = -1;
  const auto length = static_cast<std::int64_t>(words.size());
  for (const auto& reference : reference_words) {
    const auto own = static_cast<std::int64_t>(reference.size());
    const std::int64_t apart = std::abs(own - length), before = std::abs(nearest - length);
    if (nearest < 0 || apart < before || (apart == before && own < nearest)) nearest = own;
  }
  reference_words_ += nearest;

  const std::vector<std::string> characters = characters_of(hypothesis);
  CharacterCounts best{};
  double best_score = -1;
  for (const std::string& reference : references) {
    const std::vector<std::string> own = characters_of(reference);
    CharacterCounts counts{};
    for (std::size_t n = 1; n <= kCharacters; ++n)
      counts[n - 1] = {own.size() < n ? 0 : count_of(characters, n), count_of(own, n),
                       overlap(n_grams(characters, n), n_grams(own, n))};
    const double score = f_score(counts);
    if (score <= best_score) continue;
    best_score = score;
    best = counts;
  }
  for (std::size_t n = 0; n < kCharacters; ++n) {
    characters_[n].hypothesis += best[n].hypothesis;
    characters_[n].reference += best[n].reference;
    characters_[n].matching += best[n].matching;
  }
}

double TextScores::bleu() const {
  if (std::all_of(matching_.begin(), matching_.end(), [](std::int64_t n) { return n == 0; })) return 0;
  double sum = 0;
  double smooth = 1;
  for (std::size_t n = 0; n < kWords; ++n) {
    if (total_[n] == 0) return 0;
    const auto total = static_cast<double>(total_[n]);
    if (matching_[n] == 0) smooth *= 2;
    sum += std::log(matching_[n] == 0 ? 1 / (smooth * total) : static_cast<double>(matching_[n]) / total);
  }
  const double ratio = static_cast<double>(reference_words_) / static_cast<double>(hypothesis_words_);
  const double penalty = ratio > 1 ? std::exp(1 - ratio) : 1;
  return penalty * std::exp(sum / static_cast<double>(kWords));
}

double TextScores::f_score(const CharacterCounts& counts) {
  double precision = 0, recall = 0;
  int orders = 0;
  for (const Counts& c : counts) {
    if (c.hypothesis == 0 || c.reference == 0) continue;
    precision += static_cast<double>(c.matching) / static_cast<double>(c.hypothesis);
    recall += static_cast<double>(c.matching) / static_cast<double>(c.reference);
    ++orders;
  }
  if (orders == 0 || precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  constexpr double kRecallWeight = 4;  // β² of chrF2
  return (1 + kRecallWeight) * precision * recall / (kRecallWeight * precision + recall);
}

double TextScores::chrf() const { return f_score(characters_); }

}  // namespace rapt::inline v1::training
