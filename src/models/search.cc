#include "models/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/simd/table.h"
#include "tensor/token_ids.h"

namespace rapt::inline v1::models {
namespace {

double normalized(double log_probability, std::int64_t length, double penalty) {
  if (penalty == 0) return log_probability;
  return log_probability / std::pow((5.0 + static_cast<double>(length)) / 6.0, penalty);
}

struct Candidate {
  double score;
  int row;  // of the hypotheses of this source
  int token;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.row != b.row ? a.row < b.row : a.token < b.token;
}

struct Growing {
  std::vector<int> tokens;
  double log_probability = 0;
  int row = 0;  // in the decoder's last step
};

// The search for one source.
class Beam {
 public:
  Beam(int source, std::int64_t longest, const SearchOptions& options)
      : options_(options), longest_(std::max<std::int64_t>(longest, 1)) {
    growing_.push_back({{}, 0, source});
  }

  const std::vector<Growing>& growing() const { return growing_; }

  // rows: log probabilities of what follows each growing hypothesis, in order; first: the decoder's row of the first.
  template <class T>
  void advance(const std::vector<const T*>& rows, std::int64_t symbols, int first) {
    // At the longest length a hypothesis may end but not grow.
    const bool full = static_cast<std::int64_t>(growing_[0].tokens.size()) >= longest_;
    collect(rows, symbols);
    if (spoiled_) {
      // Any choice would be arbitrary; the score tells the caller.
      finished_.assign(1, {growing_[0].tokens, std::nan(""), std::nan(""), false});
      growing_.clear();
      return;
    }
    std::vector<Growing> next;
    for (const Candidate& c : candidates_) {
      const Growing& parent = growing_[static_cast<std::size_t>(c.row)];
      if (c.token == kEnd) {
        finish(parent.tokens, c.score, true);
        continue;
      }
      if (full || static_cast<int>(next.size()) == options_.beam) continue;
      next.push_back({parent.tokens, c.score, first + c.row});
      next.back().tokens.push_back(c.token);
    }
    if (next.empty() && finished_.empty())
      for (const Growing& g : growing_) finish(g.tokens, g.log_probability, false);
    growing_ = std::move(next);
    stop_where_settled();
  }

  std::vector<Hypothesis> result() {
    std::stable_sort(finished_.begin(), finished_.end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    if (static_cast<int>(finished_.size()) > options_.nbest) finished_.resize(static_cast<std::size_t>(options_.nbest));
    return std::move(finished_);
  }

 private:
  // The best continuations: enough of them that the beam stays full when some end.
  template <class T>
  void collect(const std::vector<const T*>& rows, std::int64_t symbols) {
    candidates_.clear();
    const auto most = static_cast<std::size_t>(2 * options_.beam);
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::int64_t s = 0; s < symbols; ++s) {
        if (s == kPad || s == kBegin || s == kUnknown) continue;
        const Candidate c{growing_[r].log_probability + static_cast<double>(rows[r][s]), static_cast<int>(r),
                          static_cast<int>(s)};
        spoiled_ = spoiled_ || std::isnan(c.score);
        if (!(c.score > -std::numeric_limits<double>::infinity())) continue;  // impossible
        if (candidates_.size() == most && !better(c, candidates_.back())) continue;
        candidates_.insert(std::upper_bound(candidates_.begin(), candidates_.end(), c, better), c);
        if (candidates_.size() > most) candidates_.pop_back();
      }
    // With one hypothesis the best continuation decides; an end that is not the best is not taken.
    if (options_.beam == 1) candidates_.resize(std::min<std::size_t>(candidates_.size(), 1));
  }

  void finish(const std::vector<int>& tokens, double log_probability, bool ended) {
    const auto length = static_cast<std::int64_t>(tokens.size()) + 1;
    finished_.push_back({tokens, log_probability, normalized(log_probability, length, options_.length_penalty), ended});
  }

  void stop_where_settled() {
    if (growing_.empty() || static_cast<int>(finished_.size()) < options_.beam) return;
    // No growing hypothesis can overtake the last one that is wanted.
    std::vector<double> scores;
    for (const Hypothesis& h : finished_) scores.push_back(h.score);
    std::sort(scores.rbegin(), scores.rend());
    const double worst =
        scores[static_cast<std::size_t>(std::min<int>(options_.nbest, static_cast<int>(scores.size())) - 1)];
    const double bound =
        std::max(normalized(growing_[0].log_probability, longest_ + 1, options_.length_penalty),
                 normalized(growing_[0].log_probability, static_cast<std::int64_t>(growing_[0].tokens.size()) + 1,
                            options_.length_penalty));
    if (bound <= worst) growing_.clear();
  }

  SearchOptions options_;
  std::int64_t longest_;
  std::vector<Growing> growing_;
  std::vector<Hypothesis> finished_;
  bool spoiled_ = false;  // a probability was NaN
  std::vector<Candidate> candidates_;
};

}  // namespace

template <class T>
std::vector<std::vector<Hypothesis>> search(Decoder<T>& decoder, std::span<const std::int64_t> longest,
                                            const SearchOptions& options) {
  if (options.beam < 1 || options.nbest < 1 || options.nbest > options.beam)
    throw Error("search: expected a beam of 1 or more and at most as many answers, got a beam of " +
                std::to_string(options.beam) + " and " + counted(options.nbest, "answer"));
  std::vector<Beam> beams;
  for (std::size_t n = 0; n < longest.size(); ++n) beams.emplace_back(static_cast<int>(n), longest[n], options);
  std::vector<int> tokens;
  std::vector<int> parents;
  std::vector<T> row_memory;
  std::vector<const T*> rows;
  for (bool first = true;; first = false) {
    tokens.clear();
    parents.clear();
    for (const Beam& beam : beams)
      for (const Growing& g : beam.growing()) {
        tokens.push_back(first ? kBegin : g.tokens.back());
        parents.push_back(g.row);
      }
    if (tokens.empty()) break;
    const std::int64_t symbols = decoder.symbols();
    const T* logits = decoder.step(tokens, parents);
    row_memory.assign(logits, logits + static_cast<std::int64_t>(tokens.size()) * symbols);
    int row = 0;
    for (Beam& beam : beams) {
      if (beam.growing().empty()) continue;
      const int begin = row;
      rows.clear();
      for (std::size_t n = 0; n < beam.growing().size(); ++n, ++row) {
        T* scores = row_memory.data() + static_cast<std::int64_t>(row) * symbols;
        tensor_kernels<T>().log_softmax(scores, symbols);
        rows.push_back(scores);
      }
      beam.advance(rows, symbols, begin);
    }
  }
  std::vector<std::vector<Hypothesis>> results;
  for (Beam& beam : beams) results.push_back(beam.result());
  return results;
}

template std::vector<std::vector<Hypothesis>> search(Decoder<float>&, std::span<const std::int64_t>,
                                                     const SearchOptions&);
template std::vector<std::vector<Hypothesis>> search(Decoder<double>&, std::span<const std::int64_t>,
                                                     const SearchOptions&);

}  // namespace rapt::inline v1::models
