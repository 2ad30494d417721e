// Formulas in layers: the initial values of their parameters.

#include <gtest/gtest.h>

#include "layers/score.h"

namespace {

// A formula has eight slots for numbers; those beyond them, and longer lists, lie in tables, and start as numbers do.
TEST(FormulaLayers, StartAllNumbersAlike) {
  std::string text = "raw";
  for (int n = 0; n < 12; ++n) text += "*p" + std::to_string(n);
  rapt::layers::ScoreChoice choice = rapt::layers::choose_score(
      "", "softmax", {.score = text + " + list[0]*list[9] + t[j]", .pair = "", .visible = ""});
  choice.query_dim = choice.key_dim = 4;
  choice.heads = 2;
  choice.max_length = 10;
  rapt::layers::Parameters parameters;
  const rapt::layers::ScoreLayer layer(parameters, "score", choice);
  std::vector<double> values(static_cast<std::size_t>(parameters.size()));
  parameters.initialize(values.data(), 1);
  int numbers = 0;
  for (const rapt::layers::Parameter& p : parameters.list()) {
    const double expected = p.name == "score.t" ? 0 : 1;
    numbers += p.name == "score.t" ? 0 : 1;
    for (std::int64_t n = 0; n < p.count; ++n)
      EXPECT_EQ(values[static_cast<std::size_t>(p.offset + n)], expected) << p.name;
  }
  EXPECT_EQ(numbers, 13);
}

}  // namespace
