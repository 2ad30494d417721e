#pragma once

#include <functional>
#include <vector>

#include "models/ensemble.h"
#include "models/search.h"
#include "training/batches.h"
#include "training/metrics.h"
#include "training/processes.h"

namespace rapt::inline v1::training {

using models::Ensemble;
using models::Hypothesis;
using models::SearchOptions;
using models::SequenceModel;

// The best targets of each source, whatever sources are beside it. An empty source gives an empty target. `longest`:
// the most tokens of a target; 0: twice the source and a little, or the longest of training. Once stop() says so, no
// further sources are begun, short ones come first, and those that are left have no hypotheses.
std::vector<std::vector<Hypothesis>> translate(const Ensemble& models, std::span<const std::vector<int>> sources,
                                               const SearchOptions& options, int threads, std::int64_t longest = 0,
                                               const std::function<bool()>& stop = {});

// What each step of a given target attends to: [target length + 1 (kEnd), source length], the mean over the models.
// Throws if a model has no attention.
std::vector<float> align(const Ensemble& models, const EncodedExample& example);

// A source and all targets that count as right.
struct Question {
  std::vector<int> source;
  std::vector<std::vector<int>> targets;
};

struct Validation {
  double loss = 0;  // nats for each token
  SequenceScores scores;
  std::vector<std::size_t> answered;  // which questions: all, or those that were done when stop() said so
  std::vector<Hypothesis> answers;    // the best one of each of these
};

// The canonical form of tokens with the same meaning.
using Canonical = std::function<std::vector<int>(const std::vector<int>&)>;

// Loss and token accuracy under teacher forcing; exact match and edit distance of decoded answers, made canonical like
// the targets if asked for. Processes share the work: all get loss and scores, and each the answers that it found.
Validation validate(const Ensemble& models, std::span<const Question> questions, const SearchOptions& options,
                    int threads, const Canonical& canonical = {}, const std::function<bool()>& stop = {},
                    const Processes& processes = Processes());

}  // namespace rapt::inline v1::training
