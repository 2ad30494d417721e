#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tensor/token_ids.h"
#include "tests/models/examples.h"

namespace rapt::models::test {
namespace {

class Padding : public testing::TestWithParam<Named> {};

// The logits of one sentence alone are those of the same sentence among longer and shorter ones.
TEST_P(Padding, ChangesNothing) {
  const SequenceModel model(GetParam().config, kSizes);
  Random random(1);
  std::vector<Pair> pairs;
  for (const auto& [source, target] : {std::pair{5, 4}, {1, 1}, {2, 0}, {7, 9}, {3, 2}, {1, 0}, {2, 3}})
    pairs.push_back(random_pair(random, source, target, 8));
  const Batch together = batch_of(pairs);
  const auto width = static_cast<std::size_t>(kSizes.target_symbols);
  const auto check = [&]<class T>(T tolerance) {
    const std::vector<T> values = random_values<T>(model, 1, 0.4);
    Alignment<T> maps;
    const std::vector<T> all = logits_of(model, values, together, &maps);
    for (std::size_t n = 0; n < pairs.size(); ++n) {
      Alignment<T> map;
      const Batch alone = batch_of({pairs[n]});
      const std::vector<T> one = logits_of(model, values, alone, &map);
      for (std::size_t t = 0; t <= pairs[n].target.size(); ++t) {
        for (std::size_t s = 0; s < width; ++s) {
          const T got = all[(t * pairs.size() + n) * width + s];
          const T want = one[t * width + s];
          if (tolerance == 0) ASSERT_EQ(got, want) << "sentence " << n << ", step " << t;
          else ASSERT_NEAR(got, want, tolerance) << "sentence " << n << ", step " << t;
        }
        if (!model.has_attention()) continue;
        T sum = 0;
        for (int s = 0; s < together.source_steps; ++s) {
          const T weight = maps.weights[(n * static_cast<std::size_t>(together.target_steps) + t) *
                                            static_cast<std::size_t>(together.source_steps) +
                                        static_cast<std::size_t>(s)];
          sum += weight;
          if (s < alone.source_steps)
            ASSERT_NEAR(weight, map.weights[t * pairs[n].source.size() + static_cast<std::size_t>(s)], 1e-6);
          else ASSERT_EQ(weight, 0);
        }
        const ModelConfig& config = GetParam().config;
        const bool normalized = config.seq2seq.normalize != "sigmoid" && config.transformer.normalize != "sigmoid";
        if (normalized) {
          ASSERT_NEAR(sum, 1, 1e-5);
        }
      }
    }
  };
  check(1e-12);
  const bool exact = GetParam().config.kind == Kind::transformer;
  check(exact ? 0.0F : 2e-5F);
}

INSTANTIATE_TEST_SUITE_P(All, Padding, testing::ValuesIn(all_models()), name_of);

// Without positions an encoder cannot tell "I like A more than B" from its swap; with them it can.
TEST(WordOrder, OnlyPositionsTellASentenceFromItsSwap) {
  const std::vector<int> sentence{4, 5, 6, 7, 8, 3};  // I like A more than B
  const std::vector<int> swapped{4, 5, 3, 7, 8, 6};
  const auto encodings = [](const TransformerConfig& config, const std::vector<int>& source) {
    layers::Parameters parameters;
    const Transformer model(config, kSizes, parameters);
    std::vector<double> values(static_cast<std::size_t>(parameters.size()));
    parameters.initialize(values.data(), 1);
    Tape<double> tape(false);
    layers::Graph<double> graph(tape, parameters, values.data(), nullptr);
    const Tensor<double> y = model.encode(graph, batch_of({{source, {}}}));
    std::vector<std::vector<double>> rows;
    for (std::int64_t s = 0; s < y.size(0); ++s)
      rows.emplace_back(y.data + s * y.size(2), y.data + (s + 1) * y.size(2));
    return rows;
  };
  const auto distance = [&](const TransformerConfig& config) {
    // Each token's encoding against that of the same token in the other sentence.
    const auto a = encodings(config, sentence);
    const auto b = encodings(config, swapped);
    double largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto j = static_cast<std::size_t>(std::ranges::find(swapped, sentence[i]) - swapped.begin());
      for (std::size_t d = 0; d < a[i].size(); ++d) largest = std::max(largest, std::abs(a[i][d] - b[j][d]));
    }
    return largest;
  };
  for (const Named& one : transformer_models()) {
    const TransformerConfig& c = one.config.transformer;
    const bool blind =
        c.positions == layers::Positions::none && (c.attention == "scaled_dot" || c.attention == "additive");
    if (blind) {
      EXPECT_LT(distance(c), 1e-12) << one.name;
    } else if (c.attention != "t5") {  // whose fresh tables are zero
      EXPECT_GT(distance(c), 1e-4) << one.name;
    }
  }
}

}  // namespace
}  // namespace rapt::models::test
