#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::inline v1::training {

// BLEU and chrF of a corpus of texts, with the figures of sacreBLEU's defaults: BLEU of up to 4-grams of tokens "13a",
// zero counts smoothed exponentially; chrF2 of up to 6 characters, white space left out.
class TextScores {
 public:
  // Throws without references.
  void add(std::string_view hypothesis, std::span<const std::string> references);

  // From 0 to 1; 0 without anything added.
  double bleu() const;
  double chrf() const;

 private:
  static constexpr std::size_t kWords = 4;
  static constexpr std::size_t kCharacters = 6;
  struct Counts {
    std::int64_t hypothesis = 0, reference = 0, matching = 0;
  };
  using CharacterCounts = std::array<Counts, kCharacters>;
  static double f_score(const CharacterCounts& counts);

  std::array<std::int64_t, kWords> matching_{}, total_{};
  std::int64_t hypothesis_words_ = 0, reference_words_ = 0;
  CharacterCounts characters_{};
};

// The tokens that sacreBLEU's tokenizer "13a" makes of a text.
std::vector<std::string> tokenize_13a(std::string_view text);

}  // namespace rapt::inline v1::training
