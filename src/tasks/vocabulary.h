#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tasks/pairs.h"
#include "tensor/token_ids.h"

namespace rapt::inline v1::tasks {

using rapt::kBegin;
using rapt::kEnd;
using rapt::kFirstSymbol;
using rapt::kPad;
using rapt::kUnknown;

enum class Side { source, target, both };

// Which symbols of the training data a vocabulary keeps; all others are unknown.
struct SymbolLimits {
  std::int64_t min_count = 1;                // times that a symbol is seen
  std::int64_t most = 0;                     // symbols, the most frequent ones; 0: all
  std::span<const std::string> always = {};  // kept however often they are seen
};

// Symbols and their ids. The four special ids come first; the only text that maps to one is an unknown symbol.
class Vocabulary {
 public:
  Vocabulary() = default;

  // The symbols of ids 4, 5, …; throws if one is empty or appears twice.
  explicit Vocabulary(std::vector<std::string> symbols);

  // The more frequent symbols first, equally frequent ones in the order of their bytes. Throws if there are symbols and
  // the limits leave none.
  static Vocabulary from_examples(std::span<const Example> examples, Side side, const SymbolLimits& limits = {});

  // The number of ids, special ones included.
  int size() const { return kFirstSymbol + static_cast<int>(symbols_.size()); }

  // Without the special ones: what the constructor takes.
  const std::vector<std::string>& symbols() const { return symbols_; }

  int id(std::string_view symbol) const;

  // "<pad>", "<begin>", "<end>" and "<unknown>" for the special ids. Throws for ids that are not in [0, size).
  const std::string& symbol(int id) const;

  std::vector<int> encode(std::span<const std::string> tokens) const;

  // Up to the first kEnd, without kPad and kBegin.
  std::vector<std::string> decode(std::span<const int> ids) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::vector<std::string> symbols_;
  std::unordered_map<std::string, int, Hash, std::equal_to<>> ids_;
};

// A sentence for every token that is read as unknown; each token once.
std::vector<std::string> unknown_notes(std::span<const std::string> tokens, std::span<const int> ids);

}  // namespace rapt::inline v1::tasks
