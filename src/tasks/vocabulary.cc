#include "tasks/vocabulary.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>
#include <utility>

#include "rapt/error.h"
#include "tasks/units.h"

namespace rapt::inline v1::tasks {

Vocabulary::Vocabulary(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {
  if (symbols_.size() > static_cast<std::size_t>(std::numeric_limits<int>::max() - kFirstSymbol))
    throw Error("vocabulary: expected fewer than 2³¹ − 4 symbols, got " + std::to_string(symbols_.size()));
  ids_.reserve(symbols_.size());
  for (std::size_t n = 0; n < symbols_.size(); ++n) {
    const std::string place = "symbol " + std::to_string(n);
    if (symbols_[n].empty()) throw Error("vocabulary: expected text, got an empty " + place);
    const auto [entry, added] = ids_.emplace(symbols_[n], kFirstSymbol + static_cast<int>(n));
    if (!added)
      throw Error("vocabulary: expected each symbol once, got '" + symbols_[n] + "' as " + place + " and as symbol " +
                  std::to_string(entry->second - kFirstSymbol));
  }
}

Vocabulary Vocabulary::from_examples(std::span<const Example> examples, Side side, const SymbolLimits& limits) {
  std::unordered_map<std::string, std::int64_t> counts;
  const std::unordered_set<std::string_view> always(limits.always.begin(), limits.always.end());
  for (const std::string& symbol : limits.always) counts[symbol] = 0;
  for (const Example& example : examples) {
    if (side != Side::target)
      for (const std::string& token : example.source) ++counts[token];
    if (side != Side::source)
      for (const std::string& token : example.target) ++counts[token];
  }
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<std::string> symbols;
  for (auto& [symbol, count] : sorted) {
    if (limits.most > 0 && static_cast<std::int64_t>(symbols.size()) == limits.most) break;
    if (count >= limits.min_count || always.contains(symbol)) symbols.push_back(symbol);
  }
  if (symbols.empty() && !sorted.empty())
    throw Error("setting min_count: expected at most " + std::to_string(sorted.front().second) +
                ", the count of the most frequent " + (side == Side::target ? "target" : "source") + " symbol, got " +
                std::to_string(limits.min_count));
  return Vocabulary(std::move(symbols));
}

int Vocabulary::id(std::string_view symbol) const {
  const auto found = ids_.find(symbol);
  return found == ids_.end() ? kUnknown : found->second;
}

const std::string& Vocabulary::symbol(int id) const {
  static const std::array<std::string, kFirstSymbol> kSpecial{"<pad>", "<begin>", "<end>", "<unknown>"};
  if (id < 0 || id >= size())
    throw Error("vocabulary: expected an id from 0 to " + std::to_string(size() - 1) + ", got " + std::to_string(id));
  const auto n = static_cast<std::size_t>(id);
  return id < kFirstSymbol ? kSpecial[n] : symbols_[n - kFirstSymbol];
}

std::vector<int> Vocabulary::encode(std::span<const std::string> tokens) const {
  std::vector<int> ids;
  ids.reserve(tokens.size());
  for (const std::string& token : tokens) ids.push_back(id(token));
  return ids;
}

std::vector<std::string> Vocabulary::decode(std::span<const int> ids) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int id : ids) {
    if (id == kEnd) break;
    if (id != kPad && id != kBegin) tokens.push_back(symbol(id));
  }
  return tokens;
}

namespace {

// A tab or another control character is shown as its number, since it is invisible itself.
std::string quoted(const std::string& token) {
  const auto code = static_cast<unsigned char>(token.empty() ? 'x' : token[0]);
  if (token.size() != 1 || (code >= 0x20 && code != 0x7f)) return "'" + token + "'";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return std::string("U+00") + kDigits[code >> 4U] + kDigits[code & 15U];
}

}  // namespace

std::vector<std::string> unknown_notes(std::span<const std::string> tokens, std::span<const int> ids) {
  std::vector<std::string> notes;
  std::unordered_set<std::string_view> seen;
  for (std::size_t n = 0; n < ids.size(); ++n)
    if (ids[n] == kUnknown && tokens[n] != kWordBegin && seen.insert(tokens[n]).second)
      notes.push_back(quoted(tokens[n]) + " is not in the vocabulary; it is read as unknown");
  return notes;
}

}  // namespace rapt::inline v1::tasks
