#include "training/evaluation.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/parallel.h"
#include "rapt/error.h"
#include "tensor/token_ids.h"

namespace rapt::inline v1::training {
namespace {

constexpr std::size_t kAtOnce = 64;

// Sorts by length, so that blocks hold sources of similar lengths.
std::vector<std::vector<std::size_t>> blocks_by_length(std::span<const std::vector<int>> sources) {
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < sources.size(); ++n)
    if (!sources[n].empty()) order.push_back(n);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() < sources[b].size(); });
  std::vector<std::vector<std::size_t>> blocks;
  for (std::size_t n = 0; n < order.size(); n += kAtOnce)
    blocks.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(n),
                        order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), n + kAtOnce)));
  return blocks;
}

}  // namespace

std::vector<std::vector<Hypothesis>> translate(const Ensemble& models, std::span<const std::vector<int>> sources,
                                               const SearchOptions& options, int threads, std::int64_t longest,
                                               const std::function<bool()>& stop) {
  std::vector<std::vector<Hypothesis>> results(sources.size());
  for (std::size_t n = 0; n < sources.size(); ++n)
    if (sources[n].empty()) results[n].push_back({});
  const std::vector<std::vector<std::size_t>> blocks = blocks_by_length(sources);
  const auto packs = models.packs();
  parallel_for(static_cast<std::int64_t>(blocks.size()), threads, [&](std::int64_t b, int) {
    if (stop && stop()) return;
    const std::vector<std::size_t>& block = blocks[static_cast<std::size_t>(b)];
    std::vector<EncodedExample> examples;
    std::vector<std::int64_t> most;
    for (const std::size_t n : block) {
      examples.push_back({sources[n], {}});
      most.push_back(longest > 0 ? longest : models.longest_target(static_cast<std::int64_t>(sources[n].size())));
    }
    Batch batch;
    make_batch(examples, batch);
    const auto decoder = models.decoder(batch, packs);
    std::vector<std::vector<Hypothesis>> found = models::search(*decoder, most, options);
    for (std::size_t n = 0; n < block.size(); ++n) results[block[n]] = std::move(found[n]);
  });
  return results;
}

std::vector<float> align(const Ensemble& models, const EncodedExample& example) {
  if (!models.has_attention()) throw Error("align: expected a model with attention, got one without");
  Batch batch;
  make_batch(std::span<const EncodedExample>(&example, 1), batch);
  return std::move(models.alignment(batch).weights);
}

Validation validate(const Ensemble& models, std::span<const Question> questions, const SearchOptions& options,
                    int threads, const Canonical& canonical, const std::function<bool()>& stop,
                    const Processes& processes) {
  Validation result;
  std::vector<std::vector<int>> sources;
  const auto is_own = [&](std::size_t n) { return processes.computes(static_cast<std::int64_t>(n)); };
  for (std::size_t n = 0; n < questions.size(); ++n)
    if (is_own(n)) sources.push_back(questions[n].source);
  const std::vector<std::vector<Hypothesis>> answers = translate(models, sources, options, threads, 0, stop);
  std::vector<EncodedExample> examples;
  std::vector<SequenceScores> scores(static_cast<std::size_t>(processes.size()));
  std::size_t own = 0;
  for (std::size_t n = 0; n < questions.size(); ++n) {
    if (is_own(n)) {
      const std::vector<Hypothesis>& found = answers[own++];
      if (found.empty()) continue;
      const std::vector<int>& tokens = found.front().tokens;
      scores[static_cast<std::size_t>(processes.rank())].add(canonical ? canonical(tokens) : tokens,
                                                             questions[n].targets);
      result.answered.push_back(n);
      result.answers.push_back(found.front());
    }
    for (const std::vector<int>& target : questions[n].targets) examples.push_back({questions[n].source, target});
  }
  processes.share_results(std::span(scores));
  for (const SequenceScores& one : scores) result.scores.merge(one);

  std::stable_sort(examples.begin(), examples.end(),
                   [](const EncodedExample& a, const EncodedExample& b) { return a.target.size() < b.target.size(); });
  const std::size_t blocks = (examples.size() + kAtOnce - 1) / kAtOnce;
  std::vector<LossSums> sums(blocks);
  parallel_for(static_cast<std::int64_t>(blocks), threads, [&](std::int64_t b, int) {
    if (!processes.computes(b)) return;
    const std::size_t begin = static_cast<std::size_t>(b) * kAtOnce;
    const std::size_t count = std::min(kAtOnce, examples.size() - begin);
    Batch batch;
    make_batch(std::span<const EncodedExample>(examples).subspan(begin, count), batch);
    Tape<float> tape(false);
    const Tensor<float> logits = models.logits(tape, batch);
    sums[static_cast<std::size_t>(b)] = cross_entropy(tape, logits, batch.target_out, kPad, 0.0F, 0.0F);
  });
  processes.share_results(std::span(sums));
  double loss = 0;
  std::int64_t tokens = 0;
  for (const LossSums& s : sums) {
    loss += s.loss;
    tokens += s.tokens;
    result.scores.add_tokens(s.correct, s.tokens);
  }
  result.loss = tokens > 0 ? loss / static_cast<double>(tokens) : 0;
  return result;
}

}  // namespace rapt::inline v1::training
