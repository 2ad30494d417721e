#include "training/batches.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tensor/random.h"
#include "tensor/token_ids.h"

namespace rapt::training::test {
namespace {

using Ids = std::vector<int>;

std::vector<EncodedExample> examples_of(int count) {
  Random random(77);
  std::vector<EncodedExample> examples(static_cast<std::size_t>(count));
  for (EncodedExample& one : examples) {
    one.source.resize(1 + random.below(20));
    one.target.resize(random.below(20));
    for (Ids* ids : {&one.source, &one.target})
      for (int& id : *ids) id = kFirstSymbol + static_cast<int>(random.below(9));
  }
  return examples;
}

// Column p without its padding.
Ids column(const Ids& ids, int steps, int size, std::size_t p) {
  Ids result;
  for (int t = 0; t < steps; ++t) result.push_back(ids[static_cast<std::size_t>(t * size) + p]);
  while (!result.empty() && result.back() == kPad) result.pop_back();
  return result;
}

void expect_consistent(const Batch& batch, std::span<const EncodedExample> examples) {
  std::size_t source_steps = 0;
  std::size_t target_steps = 0;
  ASSERT_EQ(batch.index.size(), static_cast<std::size_t>(batch.size));
  ASSERT_EQ(batch.source.size(), static_cast<std::size_t>(batch.size * batch.source_steps));
  ASSERT_EQ(batch.target_in.size(), static_cast<std::size_t>(batch.size * batch.target_steps));
  ASSERT_EQ(batch.target_out.size(), batch.target_in.size());
  ASSERT_EQ(batch.source_lengths.size(), batch.index.size());
  ASSERT_EQ(batch.target_lengths.size(), batch.index.size());
  for (std::size_t p = 0; p < batch.index.size(); ++p) {
    const EncodedExample& one = examples[static_cast<std::size_t>(batch.index[p])];
    source_steps = std::max(source_steps, one.source.size());
    target_steps = std::max(target_steps, one.target.size() + 1);
    EXPECT_EQ(column(batch.source, batch.source_steps, batch.size, p), one.source);
    Ids in = one.target;
    in.insert(in.begin(), kBegin);
    EXPECT_EQ(column(batch.target_in, batch.target_steps, batch.size, p), in);
    Ids out = one.target;
    out.push_back(kEnd);
    EXPECT_EQ(column(batch.target_out, batch.target_steps, batch.size, p), out);
    EXPECT_EQ(batch.source_lengths[p], static_cast<std::int64_t>(one.source.size()));
    EXPECT_EQ(batch.target_lengths[p], static_cast<std::int64_t>(out.size()));
  }
  EXPECT_EQ(static_cast<std::size_t>(batch.source_steps), source_steps);
  EXPECT_EQ(static_cast<std::size_t>(batch.target_steps), target_steps);
  EXPECT_EQ(batch.target_tokens(),
            std::count_if(batch.target_out.begin(), batch.target_out.end(), [](int id) { return id != kPad; }));
}

std::vector<std::vector<std::int64_t>> order_of(const Batches& batches) {
  std::vector<std::vector<std::int64_t>> order;
  Batch batch;
  for (std::int64_t n = 0; n < batches.count(); ++n) {
    batches.make(n, batch);
    order.push_back(batch.index);
  }
  return order;
}

TEST(BatchesOf, OneBatchByHand) {
  Batch batch;
  make_batch(std::vector<EncodedExample>{{{4, 5, 6}, {7}}, {{8}, {}}}, batch);
  EXPECT_EQ(batch.size, 2);
  EXPECT_EQ(batch.source_steps, 3);
  EXPECT_EQ(batch.target_steps, 2);
  EXPECT_EQ(batch.source, (Ids{4, 8, 5, 0, 6, 0}));
  EXPECT_EQ(batch.target_in, (Ids{1, 1, 7, 0}));
  EXPECT_EQ(batch.target_out, (Ids{7, 2, 2, 0}));
  EXPECT_EQ(batch.source_lengths, (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(batch.target_lengths, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(batch.index, (std::vector<std::int64_t>{0, 1}));
  make_batch({}, batch);
  EXPECT_EQ(batch.size, 0);
  EXPECT_TRUE(batch.source.empty());
}

TEST(BatchesOf, EveryExampleOncePerEpoch) {
  const std::vector<EncodedExample> examples = examples_of(1003);
  for (const int size : {1, 7, 64, 1003, 5000}) {
    Batches batches(examples, size, 1);
    EXPECT_EQ(batches.count(), (1003 + size - 1) / size);
    for (const int epoch : {0, 1}) {
      batches.start_epoch(epoch);
      std::set<std::int64_t> seen;
      Batch batch;
      int smaller = 0;
      for (std::int64_t n = 0; n < batches.count(); ++n) {
        batches.make(n, batch);
        expect_consistent(batch, examples);
        if (batch.size < size) ++smaller;
        for (const std::int64_t index : batch.index) EXPECT_TRUE(seen.insert(index).second);
      }
      EXPECT_EQ(seen.size(), examples.size());
      EXPECT_LE(smaller, 1);
    }
  }
}

TEST(BatchesOf, SeedAndEpochAloneDecideTheOrder) {
  const std::vector<EncodedExample> examples = examples_of(500);
  Batches batches(examples, 16, 5);
  const auto first = order_of(batches);
  batches.start_epoch(3);
  const auto fourth = order_of(batches);
  EXPECT_NE(first, fourth);
  Batches other(examples, 16, 5);
  EXPECT_EQ(order_of(other), first);
  other.start_epoch(3);
  EXPECT_EQ(order_of(other), fourth);
  EXPECT_NE(order_of(Batches(examples, 16, 6)), first);
}

// The whole recipe again, with a stable sort.
TEST(BatchesOf, PoolsAreSortedAndBatchesShuffled) {
  const std::vector<EncodedExample> examples = examples_of(700);
  constexpr int kSize = 4;
  Random random(9, 2);
  std::vector<std::int64_t> order(examples.size());
  std::iota(order.begin(), order.end(), 0);
  random.shuffle(std::span(order));
  for (auto begin = order.begin(); begin < order.end();) {
    const auto end = begin + std::min<std::ptrdiff_t>(50 * kSize, order.end() - begin);
    std::stable_sort(begin, end, [&](std::int64_t a, std::int64_t b) {
      const EncodedExample& x = examples[static_cast<std::size_t>(a)];
      const EncodedExample& y = examples[static_cast<std::size_t>(b)];
      return std::pair(x.target.size(), x.source.size()) < std::pair(y.target.size(), y.source.size());
    });
    begin = end;
  }
  std::vector<std::int64_t> batch_order(700 / kSize);
  std::iota(batch_order.begin(), batch_order.end(), 0);
  random.shuffle(std::span(batch_order));
  Batches batches(examples, kSize, 9);
  batches.start_epoch(2);
  const auto got = order_of(batches);
  ASSERT_EQ(got.size(), batch_order.size());
  for (std::size_t n = 0; n < got.size(); ++n)
    EXPECT_TRUE(std::equal(got[n].begin(), got[n].end(), order.begin() + batch_order[n] * kSize));
}

TEST(BatchesOf, LittlePadding) {
  const std::vector<EncodedExample> examples = examples_of(4000);
  const Batches batches(examples, 32, 1);
  Batch batch;
  std::int64_t filled = 0;
  std::int64_t places = 0;
  for (std::int64_t n = 0; n < batches.count(); ++n) {
    batches.make(n, batch);
    filled += batch.target_tokens();
    places += batch.size * batch.target_steps;
  }
  // Without the sorting only about half would be filled.
  EXPECT_GT(static_cast<double>(filled), 0.95 * static_cast<double>(places));
}

TEST(BatchesOf, PartsShareABatch) {
  const std::vector<EncodedExample> examples = examples_of(101);
  const Batches batches(examples, 10, 4);
  Batch whole;
  Batch part;
  for (std::int64_t n = 0; n < batches.count(); ++n) {
    batches.make(n, whole);
    for (const std::int64_t parts : {1, 2, 3, 4, 10, 13}) {
      std::vector<std::int64_t> joined(whole.index.size(), -1);
      for (std::int64_t k = 0; k < parts; ++k) {
        batches.make_part(n, k, parts, part);
        expect_consistent(part, examples);
        for (std::size_t p = 0; p < part.index.size(); ++p)
          joined[p * static_cast<std::size_t>(parts) + static_cast<std::size_t>(k)] = part.index[p];
      }
      EXPECT_EQ(joined, whole.index);
    }
  }
  EXPECT_THROW(batches.make_part(0, 2, 2, part), Error);
  EXPECT_THROW(batches.make_part(0, -1, 2, part), Error);
  EXPECT_THROW(batches.make_part(0, 0, 0, part), Error);
}

TEST(BatchesOf, MemoryIsReused) {
  const std::vector<EncodedExample> examples = examples_of(400);
  Batches batches(examples, 8, 1);
  Batch batch;
  batches.make(0, batch);
  const auto places = [&] {
    return std::vector<const void*>{batch.source.data(),         batch.target_in.data(),      batch.target_out.data(),
                                    batch.source_lengths.data(), batch.target_lengths.data(), batch.index.data()};
  };
  const std::vector<const void*> before = places();
  for (const int epoch : {0, 1, 2}) {
    batches.start_epoch(epoch);
    for (std::int64_t n = 0; n < batches.count(); ++n) {
      batches.make(n, batch);
      ASSERT_EQ(places(), before);
    }
  }
  EXPECT_EQ(batches.max_source_steps(), 20);
  EXPECT_EQ(batches.max_target_steps(), 20);
}

// What a model reads in one epoch, by example.
std::vector<std::pair<Ids, Ids>> inputs_of(const Batches& batches, std::span<const EncodedExample> examples,
                                           std::int64_t parts) {
  std::vector<std::pair<Ids, Ids>> result(examples.size());
  Batch batch;
  for (std::int64_t n = 0; n < batches.count(); ++n)
    for (std::int64_t part = 0; part < parts; ++part) {
      batches.make_part(n, part, parts, batch);
      for (std::size_t p = 0; p < batch.index.size(); ++p) {
        const auto index = static_cast<std::size_t>(batch.index[p]);
        result[index] = {column(batch.source, batch.source_steps, batch.size, p),
                         column(batch.target_in, batch.target_steps, batch.size, p)};
        Ids out = examples[index].target;
        out.push_back(kEnd);
        EXPECT_EQ(column(batch.target_out, batch.target_steps, batch.size, p), out);
      }
    }
  return result;
}

TEST(BatchesOf, TheUnknownSymbolIsReadInPlaceOfOthers) {
  // Symbol 4 is seen 2000 times, symbol 5 once in each of 3 sources, 6 in targets only.
  std::vector<EncodedExample> examples(1000, {{4, 4}, {6, 6, 6}});
  for (const std::size_t n : {7U, 300U, 999U}) examples[n].source.push_back(5);
  Batches batches(examples, 16, 3);
  batches.read_as_unknown(3);
  std::int64_t frequent = 0;
  std::int64_t rare = 0;
  std::int64_t targets = 0;
  constexpr int kEpochs = 60;
  std::vector<std::pair<Ids, Ids>> before;
  bool differs = false;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    batches.start_epoch(epoch);
    const auto inputs = inputs_of(batches, examples, 1);
    differs = differs || (epoch > 0 && inputs != before);
    if (epoch == 5) {
      EXPECT_EQ(inputs_of(batches, examples, 3), inputs);
    }
    before = inputs;
    for (std::size_t n = 0; n < examples.size(); ++n) {
      const auto& [source, target] = inputs[n];
      ASSERT_EQ(source.size(), examples[n].source.size());
      EXPECT_EQ(target.front(), kBegin);
      frequent += std::count(source.begin(), source.begin() + 2, kUnknown);
      rare += std::count(source.begin() + 2, source.end(), kUnknown);
      targets += std::count(target.begin(), target.end(), kUnknown);
    }
  }
  EXPECT_TRUE(differs);
  // weight · n/(weight + n) times an epoch: 3 · 2000/2003, 3 · 3/6 and 3 · 3000/3003.
  EXPECT_NEAR(frequent, kEpochs * 2.9955, 65);
  EXPECT_NEAR(rare, kEpochs * 1.5, 35);
  EXPECT_NEAR(targets, kEpochs * 2.997, 65);
  // A second object of the same seed, at the same epoch.
  Batches same(examples, 16, 3);
  same.read_as_unknown(3);
  same.start_epoch(kEpochs - 1);
  EXPECT_EQ(inputs_of(same, examples, 2), before);
  same.read_as_unknown(0);
  for (const auto& [source, target] : inputs_of(same, examples, 1))
    EXPECT_EQ(std::count(source.begin(), source.end(), kUnknown), 0);
}

TEST(BatchesOf, BadInput) {
  Batch batch;
  EXPECT_THROW(Batches({}, 4, 1), Error);
  EXPECT_THROW(Batches(examples_of(3), 0, 1), Error);
  EXPECT_THROW(Batches({{{}, {4}}}, 1, 1), Error);
  EXPECT_THROW(make_batch(std::vector<EncodedExample>{{{}, {4}}}, batch), Error);
  const Batches batches(examples_of(3), 2, 1);
  EXPECT_THROW(batches.make(2, batch), Error);
  EXPECT_THROW(batches.make(-1, batch), Error);
  EXPECT_EQ(Batches(examples_of(3), std::int64_t{1} << 62, 1).count(), 1);
}

}  // namespace
}  // namespace rapt::training::test
