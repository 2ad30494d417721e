#include "training/evaluation.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tensor/random.h"
#include "tensor/token_ids.h"
#include "tests/training/tiny_run.h"

namespace rapt::training::test {
namespace {

struct Ready {
  std::unique_ptr<SequenceModel> model;
  Bits values;
};

std::vector<Ready> models() {
  std::vector<Ready> list;
  const auto add = [&](const models::ModelConfig& config) {
    Ready one;
    one.model = std::make_unique<SequenceModel>(config, models::Sizes{7, 7, 20, 12});
    Random random(1, list.size());
    for (std::int64_t n = 0; n < one.model->parameters().size(); ++n)
      one.values.push_back(static_cast<float>(0.5 * random.normal()));
    list.push_back(std::move(one));
  };
  for (const char* attention : {"dot", "none", "shaw", "transformer_xl", "argmax"}) {
    models::ModelConfig config = tiny_seq2seq();
    config.seq2seq.attention = attention;
    config.seq2seq.bidirectional = true;
    add(config);
  }
  models::ModelConfig feeding = tiny_seq2seq();
  feeding.seq2seq.input_feeding = true;
  add(feeding);
  add(tiny_transformer());
  models::ModelConfig relative = tiny_transformer();
  relative.transformer.attention = "t5";
  relative.transformer.positions = layers::Positions::learned;
  add(relative);
  return list;
}

std::vector<std::vector<int>> sources(int count) {
  Random random(9);
  std::vector<std::vector<int>> list(static_cast<std::size_t>(count));
  for (auto& source : list) {
    source.resize(random.below(12));
    for (int& id : source) id = kUnknown + static_cast<int>(random.below(4));
  }
  return list;
}

void expect_equal(const std::vector<Hypothesis>& got, const std::vector<Hypothesis>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t n = 0; n < got.size(); ++n) {
    EXPECT_EQ(got[n].tokens, want[n].tokens) << what;
    EXPECT_EQ(got[n].log_probability, want[n].log_probability) << what;
    EXPECT_EQ(got[n].finished, want[n].finished) << what;
  }
}

TEST(Translating, DoesNotDependOnTheBatch) {
  for (const Ready& ready : models())
    for (const SearchOptions& options : {SearchOptions{1, 1, 0}, SearchOptions{4, 3, 0.6}}) {
      const auto all = sources(150);
      const auto together = translate({*ready.model, ready.values.data()}, all, options, 1);
      ASSERT_EQ(together.size(), all.size());
      for (std::size_t n = 0; n < all.size(); n += 3) {
        const auto alone = translate({*ready.model, ready.values.data()}, std::span(all).subspan(n, 1), options, 1);
        expect_equal(alone[0], together[n],
                     ready.model->config().seq2seq.attention + " source " + std::to_string(n) + ", beam " +
                         std::to_string(options.beam));
        if (all[n].empty()) {
          EXPECT_TRUE(alone[0].at(0).tokens.empty());
        }
      }
    }
}

TEST(TranslatingThreads, ChangeNoBit) {
  for (const Ready& ready : models()) {
    const auto all = sources(200);
    const SearchOptions options{2, 2, 0};
    const auto first = translate({*ready.model, ready.values.data()}, all, options, 1);
    const Validation checked =
        validate({*ready.model, ready.values.data()}, questions_of(reversed_strings(150, 1)), {}, 1);
    for (const int threads : {2, 3, 5}) {
      const auto again = translate({*ready.model, ready.values.data()}, all, options, threads);
      for (std::size_t n = 0; n < all.size(); ++n) expect_equal(again[n], first[n], std::to_string(threads));
      const Validation same =
          validate({*ready.model, ready.values.data()}, questions_of(reversed_strings(150, 1)), {}, threads);
      EXPECT_EQ(same.loss, checked.loss);
      EXPECT_EQ(same.scores.exact(), checked.scores.exact());
      EXPECT_EQ(same.scores.edits(), checked.scores.edits());
    }
  }
}

// A model that never ends an answer, with and without tables of positions: cut off, not an error.
TEST(Translating, EndsWithTheLongestTarget) {
  for (Ready& ready : models()) {
    for (const layers::Parameter& p : ready.model->parameters().list())
      if (p.name == "decoder.output.bias") ready.values[static_cast<std::size_t>(p.offset + kEnd)] = -1e4F;
    const std::vector<std::vector<int>> one{{4, 5, 6, 4, 5, 6, 4, 5, 6}};
    const Hypothesis best = translate({*ready.model, ready.values.data()}, one, {}, 1)[0][0];
    if (ready.model->has_length_limit()) EXPECT_LE(best.tokens.size(), 19U);
    else EXPECT_EQ(best.tokens.size(), 34U);
  }
}

// The probability that translate() reports is the one that the whole pass gives to the same tokens.
TEST(Translating, ScoresAreThoseOfTheWholePass) {
  for (const Ready& ready : models()) {
    const auto all = sources(20);
    const auto found = translate({*ready.model, ready.values.data()}, all, {3, 3, 0}, 1);
    for (std::size_t n = 0; n < all.size(); ++n) {
      if (all[n].empty()) continue;
      for (const Hypothesis& h : found[n]) {
        Batch batch;
        make_batch(std::vector<EncodedExample>{{all[n], h.tokens}}, batch);
        Tape<float> tape(false);
        layers::Graph<float> graph(tape, ready.model->parameters(), ready.values.data(), nullptr);
        const Tensor<float> logits = ready.model->logits<float>(graph, batch);
        double sum = 0;
        for (int t = 0; t < batch.target_steps - (h.finished ? 0 : 1); ++t) {
          double total = 0;
          for (int s = 0; s < 7; ++s) total += std::exp(static_cast<double>(logits.data[t * 7 + s]));
          sum +=
              static_cast<double>(logits.data[t * 7 + batch.target_out[static_cast<std::size_t>(t)]]) - std::log(total);
        }
        EXPECT_NEAR(h.log_probability, sum, 1e-4 * (1 + std::abs(sum)));
      }
    }
  }
}

TEST(Aligning, RowsSumToOne) {
  for (const Ready& ready : models()) {
    const EncodedExample example{{4, 5, 6, 5}, {6, 5}};
    if (!ready.model->has_attention()) {
      EXPECT_THROW(align({*ready.model, ready.values.data()}, example), Error);
      continue;
    }
    const std::vector<float> map = align({*ready.model, ready.values.data()}, example);
    ASSERT_EQ(map.size(), 12U);
    for (std::size_t t = 0; t < 3; ++t) {
      float sum = 0;
      for (std::size_t s = 0; s < 4; ++s) {
        EXPECT_GE(map[t * 4 + s], 0);
        sum += map[t * 4 + s];
        if (ready.model->config().seq2seq.attention == "argmax") {
          EXPECT_TRUE(map[t * 4 + s] == 0 || map[t * 4 + s] == 1);
        }
      }
      EXPECT_NEAR(sum, 1, 1e-5);
    }
    // An empty target still has its end.
    EXPECT_EQ(align({*ready.model, ready.values.data()}, {{4, 5}, {}}).size(), 2U);
    EXPECT_THROW(align({*ready.model, ready.values.data()}, {{}, {4}}), Error);
  }
}

TEST(Validating, EqualsTheDefinition) {
  for (const Ready& ready : models()) {
    std::vector<Question> questions = questions_of(reversed_strings(70, 3));
    questions[0].targets.push_back({4});  // two right answers
    const auto answer =
        translate({*ready.model, ready.values.data()}, std::vector<std::vector<int>>{questions[1].source}, {}, 1)[0][0]
            .tokens;
    questions[1].targets = {answer};  // one question is answered
    double loss = 0;
    std::int64_t tokens = 0;
    std::int64_t correct = 0;
    std::int64_t exact = 0;
    for (const Question& q : questions) {
      const auto got =
          translate({*ready.model, ready.values.data()}, std::vector<std::vector<int>>{q.source}, {}, 1)[0][0].tokens;
      bool any = false;
      for (const std::vector<int>& target : q.targets) {
        any = any || target == got;
        Batch batch;
        make_batch(std::vector<EncodedExample>{{q.source, target}}, batch);
        Tape<float> tape(false);
        layers::Graph<float> graph(tape, ready.model->parameters(), ready.values.data(), nullptr);
        const Tensor<float> logits = ready.model->logits<float>(graph, batch);
        for (int t = 0; t < batch.target_steps; ++t, ++tokens) {
          const float* row = logits.data + t * 7;
          const int right = batch.target_out[static_cast<std::size_t>(t)];
          double total = 0;
          for (int s = 0; s < 7; ++s) total += std::exp(static_cast<double>(row[s]));
          loss += std::log(total) - static_cast<double>(row[right]);
          correct += std::max_element(row, row + 7) - row == right ? 1 : 0;
        }
      }
      exact += any ? 1 : 0;
    }
    const Validation got = validate({*ready.model, ready.values.data()}, questions, {}, 1);
    EXPECT_NEAR(got.loss, loss / static_cast<double>(tokens), 1e-5);
    EXPECT_NEAR(got.scores.token_accuracy(), static_cast<double>(correct) / static_cast<double>(tokens), 1e-12);
    EXPECT_EQ(got.scores.exact(), exact);
    EXPECT_GE(exact, 1);
    EXPECT_EQ(got.scores.sequences(), 70);
  }
}

}  // namespace
}  // namespace rapt::training::test
