#include "models/search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tensor/random.h"
#include "tensor/token_ids.h"

namespace rapt::models::test {
namespace {

using Tokens = std::vector<int>;

// Logits are a fixed function of the source and the prefix, without a recurrent state.
class TableDecoder final : public Decoder<double> {
 public:
  using Logits = std::function<std::vector<double>(int source, const Tokens& prefix)>;
  TableDecoder(std::int64_t symbols, Logits logits) : symbols_(symbols), logits_(std::move(logits)) {}

  const double* step(std::span<const int> tokens, std::span<const int> parents) override {
    std::vector<State> next;
    values_.clear();
    for (std::size_t n = 0; n < tokens.size(); ++n) {
      State state = first_ ? State{parents[n], {}} : states_.at(static_cast<std::size_t>(parents[n]));
      if (first_) EXPECT_EQ(tokens[n], kBegin);
      else state.prefix.push_back(tokens[n]);
      longest = std::max(longest, state.prefix.size());
      const std::vector<double> row = logits_(state.source, state.prefix);
      values_.insert(values_.end(), row.begin(), row.end());
      next.push_back(std::move(state));
    }
    states_ = std::move(next);
    first_ = false;
    return values_.data();
  }
  std::int64_t symbols() const override { return symbols_; }

  std::size_t longest = 0;  // prefix that was asked about

 private:
  struct State {
    int source;
    Tokens prefix;
  };
  std::int64_t symbols_;
  Logits logits_;
  bool first_ = true;
  std::vector<State> states_;
  std::vector<double> values_;
};

TableDecoder::Logits random_logits(std::int64_t symbols, std::uint64_t seed, double spread = 1.5) {
  return [=](int source, const Tokens& prefix) {
    std::uint64_t key = seed * 1000 + static_cast<std::uint64_t>(source);
    for (const int token : prefix) key = key * 31 + static_cast<std::uint64_t>(token) + 1;
    Random random(key);
    std::vector<double> row;
    for (std::int64_t s = 0; s < symbols; ++s) row.push_back(spread * random.normal());
    return row;
  };
}

double log_probability(const std::vector<double>& row, int token) {
  double sum = 0;
  for (const double x : row) sum += std::exp(x);
  return row[static_cast<std::size_t>(token)] - std::log(sum);
}

struct Found {
  Tokens tokens;
  double log_probability, score;
};

// Every sequence of up to `longest` tokens with its end, best first.
std::vector<Found> enumerate(const TableDecoder::Logits& logits, int source, std::int64_t symbols, std::size_t longest,
                             double penalty) {
  std::vector<Found> all;
  const std::function<void(const Tokens&, double)> grow = [&](const Tokens& prefix, double so_far) {
    const std::vector<double> row = logits(source, prefix);
    const double ended = so_far + log_probability(row, kEnd);
    all.push_back({prefix, ended, ended / std::pow((5.0 + static_cast<double>(prefix.size()) + 1) / 6.0, penalty)});
    if (prefix.size() == longest) return;
    for (int s = kFirstSymbol; s < symbols; ++s) {
      Tokens next = prefix;
      next.push_back(s);
      grow(next, so_far + log_probability(row, s));
    }
  };
  grow({}, 0);
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
  return all;
}

// A beam that holds every prefix finds what enumeration finds, in the same order, with the same scores.
TEST(BeamSearch, WideBeamsAreExhaustive) {
  const std::int64_t symbols = kFirstSymbol + 3;
  for (const double penalty : {0.0, 0.6, 1.0, -0.5})
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const TableDecoder::Logits logits = random_logits(symbols, seed);
      const std::vector<std::int64_t> longest{4, 1, 3};
      TableDecoder decoder(symbols, logits);
      const auto results = search<double>(decoder, longest, {200, 40, penalty});
      ASSERT_EQ(results.size(), 3U);
      for (int source = 0; source < 3; ++source) {
        const auto limit = static_cast<std::size_t>(longest[static_cast<std::size_t>(source)]);
        const std::vector<Found> expected = enumerate(logits, source, symbols, limit, penalty);
        const auto& got = results[static_cast<std::size_t>(source)];
        ASSERT_EQ(got.size(), std::min<std::size_t>(40, expected.size()));
        for (std::size_t n = 0; n < got.size(); ++n) {
          EXPECT_EQ(got[n].tokens, expected[n].tokens) << "seed " << seed << ", " << n;
          EXPECT_NEAR(got[n].log_probability, expected[n].log_probability, 1e-10);
          EXPECT_NEAR(got[n].score, expected[n].score, 1e-10);
          EXPECT_TRUE(got[n].finished);
        }
      }
    }
}

TEST(BeamSearch, GreedyFollowsTheBestSymbol) {
  const std::int64_t symbols = kFirstSymbol + 5;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const TableDecoder::Logits logits = random_logits(symbols, seed, 1);
    TableDecoder decoder(symbols, logits);
    const Hypothesis got = search<double>(decoder, std::vector<std::int64_t>{12}, {})[0][0];
    Tokens tokens;
    double sum = 0;
    bool ended = false;
    while (!ended) {
      const std::vector<double> row = logits(0, tokens);
      int best = kEnd;
      for (int s = kFirstSymbol; s < symbols; ++s)
        if (row[static_cast<std::size_t>(s)] > row[static_cast<std::size_t>(best)]) best = s;
      if (tokens.size() == 12 && best != kEnd) break;
      sum += log_probability(row, best);
      ended = best == kEnd;
      if (!ended) tokens.push_back(best);
    }
    EXPECT_EQ(got.tokens, tokens);
    EXPECT_EQ(got.finished, ended);
    EXPECT_NEAR(got.log_probability, sum, 1e-10);
  }
}

TEST(BeamSearch, BestAreSortedDifferentAndNoBetterWithLessBeam) {
  const std::int64_t symbols = kFirstSymbol + 6;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const double penalty : {0.0, 0.8}) {
      const TableDecoder::Logits logits = random_logits(symbols, seed);
      for (const int beam : {2, 5}) {
        TableDecoder decoder(symbols, logits);
        const auto best = search<double>(decoder, std::vector<std::int64_t>{7}, {beam, beam, penalty})[0];
        ASSERT_FALSE(best.empty());
        ASSERT_LE(best.size(), static_cast<std::size_t>(beam));
        for (std::size_t n = 0; n < best.size(); ++n) {
          // Scores are the log probabilities of the tokens.
          double sum = 0;
          Tokens prefix;
          for (const int token : best[n].tokens) {
            sum += log_probability(logits(0, prefix), token);
            prefix.push_back(token);
          }
          if (best[n].finished) sum += log_probability(logits(0, prefix), kEnd);
          EXPECT_NEAR(best[n].log_probability, sum, 1e-10);
          EXPECT_NEAR(best[n].score,
                      sum / std::pow((5.0 + static_cast<double>(best[n].tokens.size()) + 1) / 6.0, penalty), 1e-10);
          if (n > 0) {
            EXPECT_LE(best[n].score, best[n - 1].score);
          }
          for (std::size_t m = 0; m < n; ++m) EXPECT_NE(best[n].tokens, best[m].tokens);
          for (const int token : best[n].tokens) EXPECT_GE(token, kFirstSymbol);
        }
      }
    }
}

// Special symbols are never produced, however likely they are.
TEST(BeamSearch, SpecialSymbolsAreNeverSaid) {
  const std::int64_t symbols = kFirstSymbol + 2;
  const TableDecoder::Logits logits = [](int, const Tokens& prefix) {
    return std::vector<double>{50, 40, prefix.size() < 3 ? -5.0 : 5.0, 60, 1, 2};
  };
  for (const int beam : {1, 3}) {
    TableDecoder decoder(symbols, logits);
    const auto best = search<double>(decoder, std::vector<std::int64_t>{10}, {beam, 1, 0})[0];
    EXPECT_TRUE(best[0].finished);
    for (const int token : best[0].tokens) EXPECT_GE(token, kFirstSymbol);
    if (beam == 1) {
      EXPECT_EQ(best[0].tokens, (Tokens{5, 5, 5}));
    }
  }
}

// An impossible end, an end less likely than all other symbols, and NaN logits.
TEST(BeamSearch, WhatNeverEndsIsCut) {
  const auto row = [](double end, double others) {
    return [=](int, const Tokens&) {
      std::vector<double> logits(kFirstSymbol + 8, others);
      logits[kEnd] = end;
      logits[kFirstSymbol + 1] = others + 1;
      return logits;
    };
  };
  for (const auto& logits : {row(-std::numeric_limits<double>::infinity(), 0), row(-1e9, 0)})
    for (const int beam : {1, 3}) {
      TableDecoder decoder(kFirstSymbol + 8, logits);
      const auto results = search<double>(decoder, std::vector<std::int64_t>{7, 3}, {beam, 1, 0});
      EXPECT_EQ(results[0][0].tokens, Tokens(7, 5));
      EXPECT_EQ(results[1][0].tokens, Tokens(3, 5));
      EXPECT_FALSE(results[0][0].finished);
      EXPECT_FALSE(results[1][0].finished);
      EXPECT_LE(decoder.longest, 7U);
    }
  TableDecoder broken(kFirstSymbol + 8, row(std::nan(""), std::nan("")));
  const auto results = search<double>(broken, std::vector<std::int64_t>{7, 3}, {3, 2, 0});
  for (const auto& best : results) {
    ASSERT_FALSE(best.empty());
    EXPECT_FALSE(best[0].finished);
  }
}

// A target of exactly the longest length can end, and is not lost to a worse one that ended before.
TEST(BeamSearch, TheLongestTargetCanEnd) {
  const std::int64_t symbols = kFirstSymbol + 1;
  const TableDecoder::Logits logits = [](int, const Tokens& prefix) {
    return std::vector<double>{-20, -20, prefix.size() == 5 ? 9.0 : 0.0, -20, 3};
  };
  for (const int beam : {1, 2, 4}) {
    TableDecoder decoder(symbols, logits);
    const auto best = search<double>(decoder, std::vector<std::int64_t>{5}, {beam, 1, 0})[0];
    EXPECT_EQ(best[0].tokens, Tokens(5, 4)) << beam;
    EXPECT_TRUE(best[0].finished) << beam;
    EXPECT_LE(decoder.longest, 5U);
  }
}

TEST(BeamSearch, EmptyAnswersArePossible) {
  TableDecoder decoder(kFirstSymbol + 2, [](int, const Tokens&) { return std::vector<double>{0, 0, 9, 0, 1, 2}; });
  const auto best = search<double>(decoder, std::vector<std::int64_t>{5}, {})[0];
  EXPECT_TRUE(best[0].tokens.empty());
  EXPECT_TRUE(best[0].finished);
  // A vocabulary without symbols of its own.
  TableDecoder bare(kFirstSymbol, [](int, const Tokens&) { return std::vector<double>{0, 0, 0, 0}; });
  EXPECT_TRUE(search<double>(bare, std::vector<std::int64_t>{5}, {4, 2, 0})[0][0].tokens.empty());
}

// A longer answer wins where the penalty says so.
TEST(BeamSearch, LengthPenaltyPrefersLongerAnswers) {
  const std::int64_t symbols = kFirstSymbol + 1;
  const TableDecoder::Logits logits = [](int, const Tokens& prefix) {
    return std::vector<double>{-50, -50, prefix.size() == 4 ? 10.0 : 0.2, -50, prefix.size() == 4 ? -10.0 : 0.0};
  };
  TableDecoder plain(symbols, logits);
  EXPECT_TRUE(search<double>(plain, std::vector<std::int64_t>{6}, {6, 1, 0})[0][0].tokens.empty());
  TableDecoder rewarded(symbols, logits);
  EXPECT_EQ(search<double>(rewarded, std::vector<std::int64_t>{6}, {6, 1, 4})[0][0].tokens, Tokens(4, 4));
}

TEST(BeamSearch, BadOptionsAreErrors) {
  TableDecoder decoder(kFirstSymbol + 1, random_logits(kFirstSymbol + 1, 1));
  const std::vector<std::int64_t> longest{3};
  EXPECT_THROW(search<double>(decoder, longest, {0, 1, 0}), Error);
  EXPECT_THROW(search<double>(decoder, longest, {2, 3, 0}), Error);
  EXPECT_THROW(search<double>(decoder, longest, {2, 0, 0}), Error);
}

}  // namespace
}  // namespace rapt::models::test
