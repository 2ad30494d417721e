#include <cmath>

#include <gtest/gtest.h>

#include "tensor/token_ids.h"
#include "tests/models/examples.h"

namespace rapt::models::test {
namespace {

class WholeModel : public testing::TestWithParam<Named> {};

double loss_of(const SequenceModel& model, const std::vector<double>& values, const Batch& batch) {
  // By the definition, from the logits.
  const std::vector<double> logits = logits_of(model, values, batch);
  const auto width = static_cast<std::size_t>(model.sizes().target_symbols);
  double loss = 0;
  for (std::size_t r = 0; r < batch.target_out.size(); ++r) {
    if (batch.target_out[r] == kPad) continue;
    const double* x = logits.data() + r * width;
    double sum = 0;
    for (std::size_t n = 0; n < width; ++n) sum += std::exp(x[n]);
    loss += std::log(sum) - x[batch.target_out[r]];
  }
  return loss;
}

// At least three numbers of every parameter tensor, against central differences of the whole loss.
TEST_P(WholeModel, Gradients) {
  const SequenceModel model(GetParam().config, kSizes);
  std::vector<double> values = random_values<double>(model, 1, 0.4);
  Random random(2);
  const Batch batch = batch_of({random_pair(random, 5, 4, 8), random_pair(random, 2, 6, 8),
                                random_pair(random, 3, 0, 8), random_pair(random, 1, 1, 8)});
  std::vector<double> gradients(values.size());
  double recorded = 0;
  {
    Tape<double> tape;
    layers::Graph<double> graph(tape, model.parameters(), values.data(), gradients.data());
    const Tensor<double> logits = model.logits(graph, batch);
    recorded = cross_entropy(tape, logits, batch.target_out, kPad, 0.0, 1.0).loss;
    tape.backward();
  }
  EXPECT_NEAR(recorded, loss_of(model, values, batch), 1e-10);
  int checked = 0;
  const auto tensors = model.parameters().list().size();
  const std::int64_t each =
      std::max<std::int64_t>(3, (40 + static_cast<std::int64_t>(tensors) - 1) / static_cast<std::int64_t>(tensors));
  for (const layers::Parameter& p : model.parameters().list()) {
    double largest = 0;
    for (std::int64_t n = 0; n < p.count; ++n)
      largest = std::max(largest, std::abs(gradients[static_cast<std::size_t>(p.offset + n)]));
    const bool argmax = GetParam().config.seq2seq.attention == "argmax";
    // Softmax cancels what all keys share; everything else has an effect.
    const bool unfelt = p.name.ends_with("key.bias");
    if (!unfelt && !argmax) {
      EXPECT_GT(largest, 1e-12) << p.name;
    }
    for (std::int64_t n = 0; n < std::min(each, p.count); ++n) {
      // The place of the largest gradient and random ones: most of a table is not used by a small batch.
      std::int64_t place = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(p.count)));
      if (n == 0)
        for (std::int64_t q = 0; q < p.count; ++q)
          if (std::abs(gradients[static_cast<std::size_t>(p.offset + q)]) == largest) place = q;
      double& x = values[static_cast<std::size_t>(p.offset + place)];
      const double middle = x;
      constexpr double kStep = 1e-5;
      x = middle + kStep;
      const double above = loss_of(model, values, batch);
      x = middle - kStep;
      const double below = loss_of(model, values, batch);
      x = middle;
      const double slope = (above - below) / (2 * kStep);
      ASSERT_NEAR(gradients[static_cast<std::size_t>(p.offset + place)], slope, 2e-7 * (1 + std::abs(slope)))
          << p.name << " " << place;
      ++checked;
    }
  }
  EXPECT_GE(checked, 40);
}

// The padding between parameters has no gradient.
TEST_P(WholeModel, GapsStayZero) {
  const SequenceModel model(GetParam().config, kSizes);
  const std::vector<float> values = random_values<float>(model, 1, 0.4);
  Random random(3);
  const Batch batch = batch_of({random_pair(random, 3, 2, 8), random_pair(random, 1, 4, 8)});
  std::vector<float> gradients(values.size());
  Tape<float> tape;
  layers::Graph<float> graph(tape, model.parameters(), values.data(), gradients.data());
  cross_entropy(tape, model.logits(graph, batch), batch.target_out, kPad, 0.1F, 1.0F);
  tape.backward();
  std::vector<bool> taken(values.size());
  for (const layers::Parameter& p : model.parameters().list()) std::fill_n(taken.begin() + p.offset, p.count, true);
  for (std::size_t n = 0; n < taken.size(); ++n) {
    ASSERT_TRUE(std::isfinite(gradients[n]));
    if (!taken[n]) {
      ASSERT_EQ(gradients[n], 0.0F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, WholeModel, testing::ValuesIn(all_models()), name_of);

}  // namespace
}  // namespace rapt::models::test
