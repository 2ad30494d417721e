#include <algorithm>

#include <gtest/gtest.h>

#include "layers/observer.h"
#include "rapt/error.h"
#include "support/tensors.h"
#include "tensor/token_ids.h"
#include "tests/models/examples.h"

namespace rapt::models::test {
namespace {

constexpr int kLongest = 70;  // steps: past a tile of 64

class Decoding : public testing::TestWithParam<Named> {
 protected:
  // The Transformer's steps have the bits of the full pass; the others agree to rounding.
  void expect_same(const float* got, const float* want, const std::string& where) const {
    for (std::int64_t s = 0; s < kSizes.target_symbols; ++s) {
      if (GetParam().config.kind == Kind::transformer) ASSERT_EQ(got[s], want[s]) << where << ", symbol " << s;
      else ASSERT_NEAR(got[s], want[s], 1e-4F) << where << ", symbol " << s;
    }
  }
};

TEST(Formulas, OfCrossAttentionHaveParametersOfTheirOwn) {
  const std::vector<Named> all = transformer_models();
  const auto found = std::ranges::find_if(all, [](const Named& one) { return one.name.ends_with("formulas"); });
  ASSERT_NE(found, all.end());
  const SequenceModel model(found->config, kSizes);
  std::vector<std::string> cross, self;
  for (const layers::Parameter& p : model.parameters().list()) {
    if (p.name.starts_with("decoder.0.cross")) cross.push_back(p.name.substr(p.name.rfind('.') + 1));
    if (p.name.starts_with("decoder.0.self.")) self.push_back(p.name.substr(p.name.rfind('.') + 1));
  }
  for (const char* name : {"c", "t", "w"}) {
    EXPECT_EQ(std::ranges::count(cross, name), 1) << name;
    EXPECT_EQ(std::ranges::count(self, name), 0) << name;
  }
  EXPECT_EQ(std::ranges::count(self, "m"), 1);
  EXPECT_EQ(std::ranges::count(cross, "m"), 0);
}

TEST_P(Decoding, EveryStepEqualsTheWholePass) {
  const SequenceModel model(GetParam().config, kSizes);
  const std::vector<float> values = random_values<float>(model, 3, 0.4);
  Random random(4);
  const support::IsaScope scope;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    const std::vector<Pair> pairs{random_pair(random, 6, kLongest - 1, 8), random_pair(random, 1, kLongest - 1, 8),
                                  random_pair(random, 70, kLongest - 1, 8)};
    const Batch batch = batch_of(pairs);
    const std::vector<float> whole = logits_of(model, values, batch);
    const auto decoder = model.decoder(values.data(), batch);
    ASSERT_EQ(decoder->symbols(), kSizes.target_symbols);
    const std::vector<int> parents{0, 1, 2};
    for (int t = 0; t < kLongest; ++t) {
      const std::span<const int> tokens(batch.target_in.data() + t * 3, 3);
      const float* got = decoder->step(tokens, parents);
      for (int n = 0; n < 3; ++n)
        expect_same(
            got + n * kSizes.target_symbols, whole.data() + (t * 3 + n) * kSizes.target_symbols,
            std::string(rapt::name_of(isa)) + ", sentence " + std::to_string(n) + ", step " + std::to_string(t));
      if (HasFatalFailure()) return;
    }
  }
}

// Passes over the first steps alone: a step does not see how many follow.
TEST_P(Decoding, WholePassesOfAnyLengthAgree) {
  const SequenceModel model(GetParam().config, kSizes);
  const std::vector<float> values = random_values<float>(model, 5, 0.4);
  Random random(6);
  Pair pair = random_pair(random, 4, kLongest - 1, 8);
  const std::vector<float> whole = logits_of(model, values, batch_of({pair}));
  for (int steps = kLongest - 1; steps > 0; --steps) {
    pair.target.resize(static_cast<std::size_t>(steps) - 1);
    const std::vector<float> part = logits_of(model, values, batch_of({pair}));
    for (int t = 0; t < steps; ++t) {
      expect_same(part.data() + t * kSizes.target_symbols, whole.data() + t * kSizes.target_symbols,
                  "step " + std::to_string(t) + " of " + std::to_string(steps));
      if (HasFatalFailure()) return;
    }
  }
}

// As in a beam: hypotheses are dropped, duplicated and moved, and their number changes.
TEST_P(Decoding, BranchesEqualTheWholePass) {
  const SequenceModel model(GetParam().config, kSizes);
  const std::vector<float> values = random_values<float>(model, 7, 0.4);
  Random random(8);
  const std::vector<Pair> sources{random_pair(random, 3, 0, 8), random_pair(random, 9, 0, 8),
                                  random_pair(random, 1, 0, 8)};
  const auto decoder = model.decoder(values.data(), batch_of(sources));
  std::vector<Pair> hypotheses;
  for (int t = 0; t < kLongest; ++t) {
    const bool first = t == 0;
    // Now and then all of one source end.
    const std::uint64_t count = 1 + random.below(6);
    std::vector<int> tokens;
    std::vector<int> parents;
    std::vector<Pair> next;
    const std::uint64_t known = first ? sources.size() : hypotheses.size();
    const bool unchanged = !first && random.below(3) == 0;
    for (std::uint64_t n = 0; n < (unchanged ? known : count); ++n) {
      parents.push_back(static_cast<int>(unchanged ? n : random.below(known)));
      tokens.push_back(first ? kBegin : kFirstSymbol + static_cast<int>(random.below(4)));
      next.push_back(first ? sources[static_cast<std::size_t>(parents.back())]
                           : hypotheses[static_cast<std::size_t>(parents.back())]);
      if (!first) next.back().target.push_back(tokens.back());
    }
    hypotheses = std::move(next);
    const float* got = decoder->step(tokens, parents);
    if (t % 9 != 0 && t > 3 && t < kLongest - 3) continue;
    for (std::size_t n = 0; n < hypotheses.size(); ++n) {
      const std::vector<float> whole = logits_of(model, values, batch_of({hypotheses[n]}));
      expect_same(got + static_cast<std::int64_t>(n) * kSizes.target_symbols,
                  whole.data() + static_cast<std::int64_t>(t) * kSizes.target_symbols,
                  "hypothesis " + std::to_string(n) + ", step " + std::to_string(t));
      if (HasFatalFailure()) return;
    }
  }
}

// Counts work, not time: a step has one query per hypothesis in every layer, and no more keys than there are.
TEST_P(Decoding, AStepAsksOneQuery) {
  struct Counter final : layers::AttentionObserver<float> {
    void attended(const layers::Attended<float>& use) override {
      EXPECT_EQ(use.call.q.size(0), 2) << use.name;
      EXPECT_EQ(use.call.q.size(2), 1) << use.name;
      EXPECT_EQ(use.call.k.size(2), use.name.ends_with("self") ? step + 1 : 6) << use.name;
      EXPECT_EQ(use.call.first_query, step) << use.name;
      ++uses;
    }
    std::int64_t step = 0;
    int uses = 0;
  };
  const SequenceModel model(GetParam().config, kSizes);
  const std::vector<float> values = random_values<float>(model, 3, 0.4);
  Random random(4);
  const Batch batch = batch_of({random_pair(random, 6, 20, 8), random_pair(random, 3, 20, 8)});
  const auto decoder = model.decoder(values.data(), batch);
  Counter counter;
  decoder->observe(counter);
  const int layers = GetParam().config.kind == Kind::transformer ? 2 * GetParam().config.transformer.layers
                                                                 : (model.has_attention() ? 1 : 0);
  for (; counter.step < 20; ++counter.step) {
    counter.uses = 0;
    decoder->step(std::span<const int>(batch.target_in.data() + counter.step * 2, 2), std::vector<int>{0, 1});
    EXPECT_EQ(counter.uses, layers);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Decoding, testing::ValuesIn(all_models()), name_of);

// Tables that know two steps only.
TEST(DecodingLimits, ShortestTables) {
  for (const Named& one : transformer_models())
    for (const std::int64_t longest : {1, 2, 3}) {
      Sizes sizes = kSizes;
      sizes.max_length = longest;
      const SequenceModel model(one.config, sizes);
      const std::vector<float> values = random_values<float>(model, 1, 0.4);
      Random random(1);
      const Batch batch = batch_of({random_pair(random, static_cast<int>(longest), static_cast<int>(longest) - 1, 8)});
      const std::vector<float> whole = logits_of(model, values, batch);
      const auto decoder = model.decoder(values.data(), batch);
      for (std::int64_t t = 0; t < longest; ++t) {
        const float* got = decoder->step(std::span<const int>(batch.target_in.data() + t, 1), std::vector<int>{0});
        for (std::int64_t s = 0; s < kSizes.target_symbols; ++s)
          ASSERT_EQ(got[s], whole[static_cast<std::size_t>(t * kSizes.target_symbols + s)]) << one.name << " " << t;
      }
    }
}

// The engine divides thousands of keys among threads; here that must not distinguish steps from the full pass.
TEST(DecodingLimits, ThousandsOfSteps) {
  ModelConfig config = transformer_models()[0].config;
  config.transformer.layers = 1;
  Sizes sizes = kSizes;
  sizes.max_length = 2200;
  const SequenceModel model(config, sizes);
  const std::vector<float> values = random_values<float>(model, 1, 0.4);
  Random random(1);
  const Batch batch = batch_of({random_pair(random, 2200, 2199, 8)});
  const std::vector<float> whole = logits_of(model, values, batch);
  const auto decoder = model.decoder(values.data(), batch);
  for (std::int64_t t = 0; t < 2200; ++t) {
    const float* got = decoder->step(std::span<const int>(batch.target_in.data() + t, 1), std::vector<int>{0});
    for (std::int64_t s = 0; s < kSizes.target_symbols; ++s)
      ASSERT_EQ(got[s], whole[static_cast<std::size_t>(t * kSizes.target_symbols + s)]) << t;
  }
}

TEST(DecodingLimits, GridMechanismsAreRefused) {
  for (const char* name : {"quadratic", "gaussian", "learned_2d"}) {
    ModelConfig config;
    config.seq2seq.attention = name;
    EXPECT_THROW(SequenceModel(config, kSizes), Error) << name;
    config.kind = Kind::transformer;
    config.transformer.attention = name;
    EXPECT_THROW(SequenceModel(config, kSizes), Error) << name;
  }
}

TEST(DecodingLimits, SourcesLongerThanTheTablesAreErrors) {
  for (const Named& one : transformer_models()) {
    const TransformerConfig& c = one.config.transformer;
    const bool limited = c.positions == layers::Positions::learned || c.positions == layers::Positions::one_hot ||
                         c.attention == "transformer_xl" ||
                         c.cross_formula.score.find('[') != std::string::npos;  // a table of offsets
    Sizes sizes = kSizes;
    sizes.max_length = 5;
    const SequenceModel model(one.config, sizes);
    const std::vector<float> values = random_values<float>(model, 1, 0.4);
    Random random(1);
    const Batch batch = batch_of({random_pair(random, 6, 2, 8)});
    if (limited) EXPECT_THROW(logits_of(model, values, batch), Error) << one.name;
    else EXPECT_NO_THROW(logits_of(model, values, batch)) << one.name;
  }
}

}  // namespace
}  // namespace rapt::models::test
