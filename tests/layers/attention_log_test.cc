#include "layers/attention_log.h"

#include <gtest/gtest.h>

#include "layers/attention.h"
#include "models/sequence_model.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "support/layers.h"
#include "tensor/token_ids.h"

namespace rapt::layers::test {
namespace {

using std::int64_t;
using support::random_input;

struct Model {
  Parameters parameters;
  MultiHeadAttention layer;
  std::vector<double> values;

  explicit Model(const char* mechanism, std::array<int64_t, 2> grid = {}) {
    MultiHeadShape shape;
    shape.score = choose_score(mechanism);
    shape.score.max_length = 16;
    shape.score.grid = grid;
    shape.query_in = shape.key_in = 6;
    shape.heads = 2;
    layer = MultiHeadAttention(parameters, "block.3.self", shape);
    Random random(4);
    values = support::random_numbers(random, parameters.size());
  }
};

// Recomputed weights are those that the layer used.
TEST(AttentionLog, GivesTheWeightsOfTheLayer) {
  for (const char* mechanism : {"scaled_dot", "additive", "alibi", "transformer_xl", "t5", "quadratic", "learned_2d"}) {
    SCOPED_TRACE(mechanism);
    const bool grid = rapt::mechanism(mechanism).grid();
    const Model model(mechanism, grid ? std::array<int64_t, 2>{3, 4} : std::array<int64_t, 2>{});
    const int64_t steps = grid ? 12 : 9;
    Random random(8);
    support::Held<double> x(random_input("x", {steps, 2, 6}, random));
    Mask mask;
    mask.causal = Causal::top_left;
    mask.key_lengths = {steps, 5};
    std::vector<double> weights(static_cast<std::size_t>(2 * 2 * steps * steps));
    AttentionLog<double> log;
    {
      Tape<double> tape(false);
      Graph<double> graph(tape, model.parameters, model.values.data(), nullptr);
      graph.observe(log);
      model.layer(graph, x.tensor(false), x.tensor(false), {.mask = mask, .weights = weights.data()});
    }
    ASSERT_EQ(log.records().size(), 1U);
    const AttentionRecord& record = log.records()[0];
    EXPECT_EQ(record.name, "block.3.self");
    EXPECT_EQ(record.options.score.mechanism->name(), mechanism);
    EXPECT_EQ(record.batches(), 2);
    EXPECT_EQ(record.heads(), 2);
    EXPECT_EQ(record.rows(), steps);
    EXPECT_EQ(record.keys(), steps);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 2; ++h)
        for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, steps}, {3, 4}, {steps - 2, steps}}) {
          std::vector<float> rows(static_cast<std::size_t>((end - begin) * steps));
          record.weights(b, h, begin, end, rows.data());
          for (int64_t i = begin; i < end; ++i)
            for (int64_t j = 0; j < steps; ++j)
              EXPECT_NEAR(rows[static_cast<std::size_t>((i - begin) * steps + j)],
                          weights[static_cast<std::size_t>(((b * 2 + h) * steps + i) * steps + j)], 1e-6)
                  << b << " " << h << " " << i << " " << j;
        }
  }
}

// Two steps are scored beside a third that is padding; it is not shown.
TEST(AttentionLog, CountsTheStepsThatWereAsked) {
  const Model model("scaled_dot");
  Random random(1);
  support::Held<double> x(random_input("x", {2, 1, 6}, random));
  std::vector<double> weights(2 * 2 * 2);
  AttentionLog<double> log;
  Tape<double> tape(false);
  Graph<double> graph(tape, model.parameters, model.values.data(), nullptr);
  graph.observe(log);
  model.layer(graph, x.tensor(false), x.tensor(false), {.weights = weights.data()});
  const AttentionRecord& record = log.records().at(0);
  EXPECT_EQ(record.rows(), 2);
  std::vector<float> rows(4);
  record.weights(0, 1, 0, 2, rows.data());
  for (std::size_t n = 0; n < 4; ++n) EXPECT_NEAR(rows[n], weights[4 + n], 1e-6);
  EXPECT_THROW(record.weights(0, 1, 0, 3, rows.data()), Error);
  EXPECT_THROW(record.weights(0, 1, 1, 1, rows.data()), Error);
  EXPECT_THROW(record.weights(0, 2, 0, 1, rows.data()), Error);
}

// Rows that are blocks apart: the engine computes only those that are requested.
TEST(AttentionLog, TakesRowsFromTheMiddle) {
  const Model model("scaled_dot");
  const int64_t steps = 300;
  Random random(5);
  support::Held<double> x(random_input("x", {steps, 1, 6}, random));
  Mask mask;
  mask.causal = Causal::top_left;
  std::vector<double> weights(static_cast<std::size_t>(2 * steps * steps));
  AttentionLog<double> log;
  Tape<double> tape(false);
  Graph<double> graph(tape, model.parameters, model.values.data(), nullptr);
  graph.observe(log);
  model.layer(graph, x.tensor(false), x.tensor(false), {.mask = mask, .weights = weights.data()});
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {130, 133}, {62, 66}, {299, 300}}) {
    std::vector<float> rows(static_cast<std::size_t>((end - begin) * steps), -1.0F);
    log.records().at(0).weights(0, 1, begin, end, rows.data());
    for (std::size_t n = 0; n < rows.size(); ++n)
      ASSERT_NEAR(rows[n], weights[static_cast<std::size_t>((steps + begin) * steps) + n], 1e-6) << begin << " " << n;
  }
}

models::Batch one_pair() {
  models::Batch batch;
  batch.size = 1;
  batch.source = {4, 5, 6, 5, 7};
  batch.source_steps = 5;
  batch.source_lengths = {5};
  batch.target_in = {kBegin, 6, 5, 4};
  batch.target_out = {6, 5, 4, kEnd};
  batch.target_steps = 4;
  batch.target_lengths = {4};
  return batch;
}

// A decoder with input feeding attends step by step; the record has all steps.
TEST(AttentionLog, JoinsTheStepsOfARecurrentDecoder) {
  for (const char* mechanism : {"dot", "additive", "alibi", "transformer_xl"})
    for (const bool feeding : {false, true}) {
      SCOPED_TRACE(std::string(mechanism) + (feeding ? ", fed" : ""));
      models::ModelConfig config;
      config.kind = models::Kind::seq2seq;
      config.seq2seq.attention = mechanism;
      config.seq2seq.hidden = config.seq2seq.embedding = 8;
      config.seq2seq.input_feeding = feeding;
      const models::SequenceModel model(config, {8, 8, 12, 8});
      Random random(3);
      const auto values = support::random_numbers(random, model.parameters().size());
      const models::Batch batch = one_pair();
      Tape<double> tape(false);
      Graph<double> graph(tape, model.parameters(), values.data(), nullptr);
      AttentionLog<double> log;
      graph.observe(log);
      models::Alignment<double> alignment;
      model.logits(graph, batch, &alignment);
      ASSERT_EQ(log.records().size(), 1U);
      const AttentionRecord& record = log.records()[0];
      EXPECT_EQ(record.name, "attention");
      ASSERT_EQ(record.rows(), 4);
      ASSERT_EQ(record.keys(), 5);
      std::vector<float> rows(20);
      record.weights(0, 0, 0, 4, rows.data());
      for (std::size_t n = 0; n < 20; ++n) EXPECT_NEAR(rows[n], alignment.weights[n], 1e-6) << n;
    }
}

TEST(AttentionLog, NamesTheLayersOfATransformer) {
  models::ModelConfig config;
  config.kind = models::Kind::transformer;
  config.transformer.width = 8;
  config.transformer.heads = 2;
  config.transformer.inner = 8;
  config.transformer.layers = 2;
  const models::SequenceModel model(config, {8, 8, 12, 8});
  Random random(3);
  const auto values = support::random_numbers(random, model.parameters().size());
  Tape<double> tape(false);
  Graph<double> graph(tape, model.parameters(), values.data(), nullptr);
  AttentionLog<double> log;
  graph.observe(log);
  model.logits<double>(graph, one_pair());
  std::vector<std::string> names;
  for (const AttentionRecord& record : log.records()) names.push_back(record.name);
  const std::vector<std::string> expected{"encoder.0.self",  "encoder.1.self", "decoder.0.self",
                                          "decoder.0.cross", "decoder.1.self", "decoder.1.cross"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(log.records()[2].rows(), 4);
  EXPECT_EQ(log.records()[2].keys(), 4);
  EXPECT_EQ(log.records()[3].keys(), 5);
}

}  // namespace
}  // namespace rapt::layers::test
