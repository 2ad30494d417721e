#include <algorithm>
#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tensor/random.h"
#include "tensor/token_ids.h"
#include "tests/training/tiny_run.h"
#include "training/evaluation.h"

// Several models that answer together.
namespace rapt::training::test {
namespace {

constexpr int kSymbols = 7;

struct Trained {
  std::unique_ptr<SequenceModel> model;
  Bits values;
};

Trained make(const models::ModelConfig& config, std::uint64_t seed, const models::Sizes& sizes = {7, 7, 20, 12}) {
  Trained one{std::make_unique<SequenceModel>(config, sizes), {}};
  Random random(seed, 3);
  for (std::int64_t n = 0; n < one.model->parameters().size(); ++n)
    one.values.push_back(static_cast<float>(0.6 * random.normal()));
  return one;
}

// Models of different kinds, one of them with tables of positions that end sooner.
std::vector<Trained> three() {
  models::ModelConfig relative = tiny_transformer();
  relative.transformer.positions = layers::Positions::learned;
  std::vector<Trained> list;
  list.push_back(make(tiny_seq2seq(), 1));
  list.push_back(make(tiny_transformer(), 2));
  list.push_back(make(relative, 3, {7, 7, 9, 8}));
  return list;
}

Ensemble together(const std::vector<Trained>& list) {
  Ensemble all(*list[0].model, list[0].values.data());
  for (std::size_t n = 1; n < list.size(); ++n) all.add(*list[n].model, list[n].values.data());
  return all;
}

// The mean of the models' probabilities of each symbol after each token of a target, from their whole passes.
std::vector<std::vector<double>> probabilities(const std::vector<Trained>& list, const EncodedExample& example) {
  Batch batch;
  make_batch(std::vector<EncodedExample>{example}, batch);
  std::vector<std::vector<double>> mean(static_cast<std::size_t>(batch.target_steps), std::vector<double>(kSymbols));
  for (const Trained& one : list) {
    Tape<float> tape(false);
    layers::Graph<float> graph(tape, one.model->parameters(), one.values.data(), nullptr);
    const Tensor<float> logits = one.model->logits<float>(graph, batch);
    for (std::size_t t = 0; t < mean.size(); ++t) {
      const float* row = logits.data + t * kSymbols;
      double total = 0;
      for (int s = 0; s < kSymbols; ++s) total += std::exp(static_cast<double>(row[s]));
      for (int s = 0; s < kSymbols; ++s)
        mean[t][static_cast<std::size_t>(s)] +=
            std::exp(static_cast<double>(row[s])) / total / static_cast<double>(list.size());
    }
  }
  return mean;
}

double log_probability(const std::vector<Trained>& list, const EncodedExample& example, bool finished) {
  const auto mean = probabilities(list, example);
  double sum = 0;
  for (std::size_t t = 0; t < example.target.size(); ++t)
    sum += std::log(mean[t][static_cast<std::size_t>(example.target[t])]);
  return finished ? sum + std::log(mean.back()[kEnd]) : sum;
}

TEST(Ensemble, AnswersByTheMeanOfProbabilities) {
  const std::vector<Trained> list = three();
  const std::vector<std::vector<int>> sources{{4, 5, 6}, {6}, {}, {5, 5, 4, 6, 4}};
  const auto found = translate(together(list), sources, {3, 3, 0}, 1);
  for (std::size_t n = 0; n < sources.size(); ++n) {
    if (sources[n].empty()) continue;
    ASSERT_FALSE(found[n].empty());
    for (const Hypothesis& h : found[n])
      EXPECT_NEAR(h.log_probability, log_probability(list, {sources[n], h.tokens}, h.finished),
                  1e-4 * (1 + std::abs(h.log_probability)));
  }
}

TEST(Ensemble, GreedyTokensAreTheLikeliestOfTheMean) {
  const std::vector<Trained> list = three();
  const std::vector<std::vector<int>> source{{4, 6, 5, 5}};
  const Hypothesis best = translate(together(list), source, {}, 1)[0][0];
  const auto mean = probabilities(list, {source[0], best.tokens});
  for (std::size_t t = 0; t < best.tokens.size(); ++t)
    for (int s = kEnd; s < kSymbols; ++s)
      if (s != kUnknown) {
        EXPECT_GE(mean[t][static_cast<std::size_t>(best.tokens[t])], mean[t][static_cast<std::size_t>(s)] - 1e-6);
      }
}

TEST(Ensemble, LossIsThatOfTheMean) {
  const std::vector<Trained> list = three();
  const std::vector<EncodedExample> examples = reversed_strings(70, 4);
  double loss = 0;
  std::int64_t tokens = 0;
  for (const EncodedExample& one : examples) {
    loss -= log_probability(list, one, true);
    tokens += static_cast<std::int64_t>(one.target.size()) + 1;
  }
  const Validation got = validate(together(list), questions_of(examples), {}, 1);
  EXPECT_NEAR(got.loss, loss / static_cast<double>(tokens), 1e-5);
  EXPECT_EQ(validate(together(list), questions_of(examples), {}, 3).loss, got.loss);
}

TEST(Ensemble, AlignmentIsTheMean) {
  const std::vector<Trained> list = three();
  const EncodedExample example{{4, 5, 6, 5}, {6, 5}};
  const std::vector<float> map = align(together(list), example);
  ASSERT_EQ(map.size(), 12U);
  for (std::size_t n = 0; n < map.size(); ++n) {
    double sum = 0;
    for (const Trained& one : list) sum += static_cast<double>(align({*one.model, one.values.data()}, example)[n]);
    EXPECT_NEAR(map[n], sum / 3, 1e-6);
  }
  models::ModelConfig none = tiny_seq2seq();
  none.seq2seq.attention = "none";
  const Trained blind = make(none, 5);
  Ensemble all = together(list);
  all.add(*blind.model, blind.values.data());
  EXPECT_THROW(align(all, example), Error);
}

// Positions of the third model end after 9.
TEST(Ensemble, EndsWithTheShortestTable) {
  std::vector<Trained> list = three();
  for (Trained& one : list)
    for (const layers::Parameter& p : one.model->parameters().list())
      if (p.name == "decoder.output.bias") one.values[static_cast<std::size_t>(p.offset + kEnd)] = -1e4F;
  EXPECT_EQ(together(list).longest_target(6), 8);
  EXPECT_LE(translate(together(list), std::vector<std::vector<int>>{{4, 5, 6, 4, 5, 6}}, {}, 1)[0][0].tokens.size(),
            8U);
}

// If a model gives NaN, the search must say so, not choose.
TEST(Ensemble, AProbabilityThatIsNoNumberIsNotHidden) {
  std::vector<Trained> list = three();
  std::fill(list[1].values.begin(), list[1].values.end(), std::nanf(""));
  EXPECT_TRUE(std::isnan(translate(together(list), std::vector<std::vector<int>>{{4, 5}}, {}, 1)[0][0].score));
}

TEST(Ensemble, TakesModelsOfTheSameSymbolsAlone) {
  const Trained one = make(tiny_seq2seq(), 1);
  const Trained other = make(tiny_seq2seq(), 1, {7, 8, 20, 12});
  Ensemble all(*one.model, one.values.data());
  const std::string error = error_of([&] { all.add(*other.model, other.values.data()); });
  EXPECT_NE(error.find("expected a model of 7 source symbols and 7 target symbols, got one of 7 source symbols and 8"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace rapt::training::test
