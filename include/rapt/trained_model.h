#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/api.h"

namespace rapt::inline v1 {

struct DecodeOptions {
  int beam = 1;               // hypotheses kept while searching; 1: greedy
  int nbest = 1;              // answers per text, at most beam
  double length_penalty = 0;  // scores are divided by ((5 + length)/6)^X
  int threads = 0;            // 0: default_threads()
};

struct Answer {
  std::string text{};
  std::vector<std::string> tokens{};
  double log_probability = 0;
  double score = 0;      // with the length penalty
  bool finished = true;  // false: cut off at the longest length
};

// What the model attended to for an answer, several on average: weights [answer tokens and the end, source tokens].
struct AttentionMap {
  std::vector<std::string> source{};
  std::vector<std::string> target{};  // the last one is "<end>"
  std::vector<float> weights{};
};

// A model trained by `rapt train`, from its directory. Several threads may use it at once.
class RAPT_API TrainedModel {
 public:
  // Throws rapt::Error if the directory does not hold a run with weights.
  explicit TrainedModel(const std::filesystem::path& run);
  // Several models that answer together: the probability of a token is the mean of theirs. Throws, too, if their
  // symbols differ.
  static TrainedModel ensemble(std::span<const std::filesystem::path> runs);
  ~TrainedModel();
  TrainedModel(TrainedModel&&) noexcept;
  TrainedModel& operator=(TrainedModel&&) noexcept;

  // The best answers to each text, best first; they do not depend on the other texts. Throws for broken UTF-8.
  std::vector<std::vector<Answer>> decode(std::span<const std::string> texts, const DecodeOptions& options = {}) const;

  // The best answer to one text.
  std::string operator()(std::string_view text) const;

  bool has_attention() const;
  // Throws without attention.
  AttentionMap attention(std::string_view source, const Answer& answer) const;

 private:
  struct Parts;
  explicit TrainedModel(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace rapt::inline v1
