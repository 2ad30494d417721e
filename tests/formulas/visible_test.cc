// Conditions: which keys a row sees, and which tiles are skipped.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "attend/problem.h"
#include "rapt/attend.h"
#include "rapt/formula.h"
#include "rapt/tiles.h"

namespace {

constexpr std::int64_t kRows = 300, kDim = 8;

using Range = std::pair<std::int64_t, std::int64_t>;

struct Arrays {
  std::vector<float> q, k, v, table;
  Arrays() {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (auto* x : {&q, &k, &v})
      for (std::int64_t n = 0; n < kRows * kDim; ++n) x->push_back(normal(random));
    for (std::int64_t n = 0; n < kRows; ++n) table.push_back(static_cast<float>(n / 90));
  }
  rapt::Inputs inputs() const {
    return {rapt::view(q.data(), {kRows, kDim}),
            rapt::view(k.data(), {kRows, kDim}),
            {rapt::view(v.data(), {kRows, kDim})}};
  }
};

std::vector<float> run(const Arrays& arrays, const rapt::AttendOptions& options) {
  std::vector<float> out(arrays.v.size());
  rapt::Outputs outputs;
  outputs.out = {rapt::view(out.data(), {kRows, kDim})};
  rapt::attend(arrays.inputs(), outputs, options);
  return out;
}

rapt::AttendOptions with(const std::string& visible) {
  rapt::AttendOptions options;
  options.score = rapt::formula("", {.visible = visible});
  return options;
}

TEST(VisibleFormulas, OfOffsetsAreTheBuiltInMasksBitForBit) {
  const Arrays arrays;
  rapt::AttendOptions causal, window, both;
  causal.mask.causal = rapt::Causal::top_left;
  window.mask.window = rapt::Window{40, 20};
  both.mask.causal = rapt::Causal::top_left;
  both.mask.window = rapt::Window{63, -1};
  EXPECT_EQ(run(arrays, with("j <= i")), run(arrays, causal));
  EXPECT_EQ(run(arrays, with("not j > i")), run(arrays, causal));
  EXPECT_EQ(run(arrays, with("i + 1 > j")), run(arrays, causal));
  EXPECT_EQ(run(arrays, with("i - j <= 40 and j - i <= 20")), run(arrays, window));
  EXPECT_EQ(run(arrays, with("-20 <= i - j <= 40")), run(arrays, window));
  EXPECT_EQ(run(arrays, with("j <= i and i - j < 64")), run(arrays, both));
  rapt::AttendOptions first = with("j <= i and i - j < 64");
  first.first_query = both.first_query = {17};
  EXPECT_EQ(run(arrays, first), run(arrays, both));
}

// What the problem makes of a condition before any tile is looked at.
TEST(VisibleFormulas, OfOffsetsBecomeRangesOfKeys) {
  const Arrays arrays;
  const auto offsets = [&](const std::string& visible) {
    const rapt::Problem p = rapt::make_problem("attend", arrays.inputs(), with(visible));
    return p.offsets_seen ? Range(p.first_offset, p.last_offset) : Range(999, 999);
  };
  EXPECT_EQ(offsets("j <= i and i - j < 256"), Range(-255, 0));
  EXPECT_EQ(offsets("abs(i - j) < 5"), Range(-4, 4));
  EXPECT_EQ(offsets("(i - j)^2 <= 100 and j < i"), Range(-10, -1));
  EXPECT_EQ(offsets("floor(abs(i - j)/10) == 0"), Range(-9, 9));
  EXPECT_EQ(offsets("i - j < keys - 298"), Range(-1, 299));
  EXPECT_EQ(offsets("abs(i - j) > 5").first, 999);  // two ranges
  EXPECT_EQ(offsets("j < 10").first, 999);
}

// Tiles of 64 keys by 32 queries, as the engine asks for them.
TEST(VisibleFormulas, AnswerForWholeTiles) {
  const Arrays arrays;
  const auto classes = [&](const std::string& visible, std::vector<rapt::NamedView> parameters = {}) {
    rapt::AttendOptions options = with(visible);
    options.score.parameters = std::move(parameters);
    const rapt::MechanismDefinition& definition = options.score.mechanism->definition();
    std::string all;
    for (std::int64_t q = 0; q < 256; q += 32)
      for (std::int64_t k = 0; k < 256; k += 64) {
        rapt::ScoreTile<float> tile;
        tile.object = options.score.object.get();
        tile.keys = 64;
        tile.columns = 32;
        tile.first_query = q;
        tile.first_key = k;
        tile.queries_total = tile.keys_total = kRows;
        tile.tables[0] = {.data = arrays.table.data(), .grad = nullptr, .rows = kRows, .cols = 1};
        // Against every pair of it.
        bool any = false, every = true;
        const rapt::Visible got = definition.scalar.f32.visible_tile(tile);
        std::vector<float> scores(64 * 32, 0);
        tile.scores = scores.data();
        tile.stride = 32;
        definition.scalar.f32.hide(tile);
        for (const float s : scores) {
          any = any || s == 0;
          every = every && s == 0;
        }
        if (got == rapt::Visible::none) {
          EXPECT_FALSE(any);
        }
        if (got == rapt::Visible::all) {
          EXPECT_TRUE(every);
        }
        all += got == rapt::Visible::none ? '.' : (got == rapt::Visible::all ? '#' : '+');
      }
    return all;
  };
  EXPECT_EQ(classes("j <= i"), "+...+...#+..#+..##+.##+.###+###+");
  EXPECT_EQ(classes("j <= i and i - j < 64"), "+...+...++..++...++..++...++..++");
  EXPECT_EQ(classes("j < 64 or j <= i"), "#...#...#+..#+..##+.##+.###+###+");
  EXPECT_EQ(classes("floor(i/64) == floor(j/64)"), "#...#....#...#....#...#....#...#");
  // Documents of 90 positions: tiles of two documents that do not meet are not looked into.
  const std::string documents = classes("doc[i] == doc[j]", {{"doc", rapt::view(arrays.table.data(), {kRows})}});
  EXPECT_EQ(documents, "#+..#+..+++..++..++..+++..+#..+#");
}

// A quotient that rounds to the bound in f32 is decided by the kernel, in a whole tile as in any other.
TEST(VisibleFormulas, OfQuotientsDoNotDependOnTheTile) {
  const float p = 0.42857142857142855F;  // 3/7
  for (const std::int64_t keys : {4, 5}) {
    const std::vector<float> zeros(static_cast<std::size_t>(keys)), values(static_cast<std::size_t>(keys), 1);
    float out = 0, lse = 0;
    rapt::AttendOptions options;
    options.score = rapt::formula("raw", {.visible = "j/7 < p"});
    options.score.parameters = {{"p", rapt::view(&p, {1})}};
    rapt::Outputs outputs;
    outputs.out = {rapt::view(&out, {1, 1, 1, 1})};
    outputs.lse = rapt::view(&lse, {1, 1, 1, 1});
    rapt::attend(rapt::Inputs{rapt::view(zeros.data(), {1, 1, 1, 1}),
                              rapt::view(zeros.data(), {1, 1, keys, 1}),
                              {rapt::view(values.data(), {1, 1, keys, 1})}},
                 outputs, options);
    EXPECT_NEAR(lse, std::log(3.0), 1e-6) << keys << " keys";
  }
}

TEST(VisibleFormulas, CombineWithMasksAndHideEverythingWhereNothingIsSeen) {
  const Arrays arrays;
  rapt::AttendOptions options = with("doc[i] == doc[j] and (j <= i or j < 3)");
  options.score.parameters = {{"doc", rapt::view(arrays.table.data(), {kRows})}};
  rapt::AttendOptions dense;
  std::vector<std::uint8_t> mask;
  for (std::int64_t i = 0; i < kRows; ++i)
    for (std::int64_t j = 0; j < kRows; ++j) mask.push_back(i / 90 == j / 90 && (j <= i || j < 3));
  dense.mask.dense = {mask.data(), {1, 1, kRows, kRows}, {0, 0, kRows, 1}};
  const std::vector<float> got = run(arrays, options), expected = run(arrays, dense);
  for (std::size_t n = 0; n < got.size(); ++n) ASSERT_NEAR(got[n], expected[n], 1e-5F) << n;
  for (const float x : run(arrays, with("i < 0"))) ASSERT_EQ(x, 0);
  for (const float x : run(arrays, with("j - i > 1000"))) ASSERT_EQ(x, 0);
}

// A place outside of a table is neither seen nor hidden: its rows are NaN, and no others. What settles the condition
// without that place, or hides the pair, leaves them as they are.
TEST(VisibleFormulas, ThatCannotBeAnsweredMakeTheirRowsNaN) {
  const Arrays arrays;
  constexpr std::int64_t kShort = 250;
  const auto nan_rows = [&](const std::string& score, const std::string& visible, rapt::Mask mask, rapt::Path path) {
    rapt::AttendOptions options;
    options.score = rapt::formula(score, {.visible = visible});
    options.score.parameters = {{"doc", rapt::view(arrays.table.data(), {kShort})}};
    options.mask = std::move(mask);
    options.path = path;
    const std::vector<float> out = run(arrays, options);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < kRows; ++i)
      if (std::isnan(out[static_cast<std::size_t>(i * kDim)])) rows.push_back(i);
    return rows.empty() ? Range(-1, -1) : Range(rows.front(), static_cast<std::int64_t>(rows.size()));
  };
  rapt::Mask lengths;
  lengths.key_lengths = {kShort};
  for (const rapt::Path path : {rapt::Path::automatic, rapt::Path::reference}) {
    EXPECT_EQ(nan_rows("", "doc[i] == doc[j]", {}, path), Range(0, kRows));
    EXPECT_EQ(nan_rows("", "doc[i] == doc[j] and j <= i", {}, path), Range(kShort, kRows - kShort));
    EXPECT_EQ(nan_rows("", "doc[i] != doc[j] or j <= i", {}, path), Range(0, kRows - 1));
    EXPECT_EQ(nan_rows("", "not (doc[i] == doc[j])", lengths, path), Range(kShort, kRows - kShort));
    EXPECT_EQ(nan_rows("", "j < 250 and i < 250 and doc[i] == doc[j]", {}, path), Range(-1, -1));
    EXPECT_EQ(nan_rows("", "where(j < 250, doc[min(j, 249)], 1) >= 0", {}, path), Range(-1, -1));
    EXPECT_EQ(nan_rows("", "where(doc[j] == 1, i < 5, j < 200) or j < 240", {}, path), Range(0, kRows));
    // A score that chooses by such a place.
    EXPECT_EQ(nan_rows("where(doc[j] == 1, raw, 0)", "j <= i", {}, path), Range(kShort, kRows - kShort));
  }
}

// Tiles of 64 keys by 64 queries of a grid of 16 columns: 4 rows each.
TEST(VisibleFormulas, OfTheGridAnswerForWholeTiles) {
  const auto classes = [&](const std::string& visible) {
    const rapt::Score score = rapt::formula("", {.visible = visible});
    std::string all;
    for (std::int64_t q = 0; q < 256; q += 64)
      for (std::int64_t k = 0; k < 256; k += 64) {
        rapt::ScoreTile<float> tile;
        tile.object = score.object.get();
        tile.keys = tile.columns = 64;
        tile.first_query = q;
        tile.first_key = k;
        tile.grid_cols = 16;
        const rapt::Visible got = score.mechanism->definition().scalar.f32.visible_tile(tile);
        all += got == rapt::Visible::none ? '.' : (got == rapt::Visible::all ? '#' : '+');
      }
    return all;
  };
  EXPECT_EQ(classes("abs(row) <= 1"), "++..+++..+++..++");
  EXPECT_EQ(classes("row^2 + col^2 < 25"), "++..+++..+++..++");
  EXPECT_EQ(classes("abs(col) < 16"), "################");
  EXPECT_EQ(classes("abs(row) < 8"), "##+.###++###.+##");
}

TEST(VisibleFormulas, TablesOfOffsetsNeedNoRowsForHiddenPairs) {
  const Arrays arrays;
  const std::vector<float> table(64, 0.5F);
  rapt::AttendOptions options;
  options.score = rapt::formula("raw*scale + t[i-j]", {.visible = "j <= i and i - j < 64"});
  options.score.parameters = {{"t", rapt::view(table.data(), {64})}};
  for (const float x : run(arrays, options)) ASSERT_TRUE(std::isfinite(x));
  options.score = rapt::formula("raw*scale + t[i-j]", {.visible = "j <= i"});
  options.score.parameters = {{"t", rapt::view(table.data(), {64})}};
  EXPECT_ANY_THROW(run(arrays, options));
}

}  // namespace
