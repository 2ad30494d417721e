#include "explorer/weights.h"

#include <cmath>

#include <gtest/gtest.h>

#include "explorer/epochs.h"
#include "rapt/error.h"
#include "tensor/files.h"
#include "tests/explorer/exhibits.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::explorer::test {
namespace {

using std::int64_t;

std::shared_ptr<const Weights> stored(int64_t queries, int64_t keys, const std::vector<float>& numbers) {
  return std::make_shared<StoredWeights>(
      std::make_shared<const Array>(Array::of<float>({1, 1, queries, keys}, std::span<const float>(numbers))), 0);
}

TEST(ExplorerWeights, RowsOfTheRightLayerAndHead) {
  const Exhibit exhibit = some_exhibit(2, 3, 4, 5);
  const std::vector<float> all = some_weights(2, 3, 4, 5);
  std::vector<float> rows(10);
  exhibit.layers[1].weights->rows(2, 1, 3, rows.data());
  for (std::size_t n = 0; n < 10; ++n) EXPECT_EQ(rows[n], all[(1 * 3 + 2) * 20 + 5 + n]);
  EXPECT_EQ(exhibit.cells(), 2 * 3 * 4 * 5);
}

TEST(ExplorerWeights, SummaryByHand) {
  // Entropies log 2, 0 and log 4; the third row sees nothing and does not count.
  const std::vector<float> numbers{0.5F, 0.5F, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0.25F, 0.25F, 0.25F, 0.25F};
  const HeadSummary s = summarize(*stored(4, 4, numbers), 0, {});
  EXPECT_NEAR(s.entropy, (std::log(2.0) + 0 + std::log(4.0)) / 3, 1e-6);
  EXPECT_NEAR(s.distance, (0.5 + 2 + 1.5) / 3, 1e-6);
  EXPECT_NEAR(s.largest, (0.5 + 1 + 0.25) / 3, 1e-6);
  EXPECT_EQ(s.peak, 1);
  ASSERT_EQ(s.rows * s.cols, 16);
  EXPECT_EQ(s.thumbnail[7], 255);
  EXPECT_EQ(s.thumbnail[0], std::lround(255 * std::sqrt(0.5)));
  EXPECT_EQ(s.thumbnail[2], 0);
}

TEST(ExplorerWeights, DistancesOnAGrid) {
  // From the corner (0, 0) of a 2 × 3 grid to (1, 2), and from (1, 2) to (1, 0).
  std::vector<float> numbers(36, 0.0F);
  numbers[5] = 1;
  numbers[5 * 6 + 3] = 1;
  EXPECT_NEAR(summarize(*stored(6, 6, numbers), 0, {2, 3}).distance, (std::sqrt(5.0) + 2) / 2, 1e-6);
}

TEST(ExplorerWeights, NothingVisibleIsNoError) {
  const HeadSummary s = summarize(*stored(2, 3, std::vector<float>(6, 0.0F)), 0, {});
  EXPECT_EQ(s.entropy, 0);
  EXPECT_EQ(s.peak, 0);
  EXPECT_EQ(s.thumbnail, std::vector<std::uint8_t>(6, 0));
}

TEST(ExplorerWeights, ThumbnailsKeepTheLargest) {
  std::vector<float> numbers(200 * 100, 0.001F);
  numbers[137 * 100 + 61] = 0.9F;
  const HeadSummary s = summarize(*stored(200, 100, numbers), 0, {});
  ASSERT_EQ(s.rows, kThumbnailSide);
  ASSERT_EQ(s.cols, kThumbnailSide);
  EXPECT_EQ(s.thumbnail[static_cast<std::size_t>(137 * 48 / 200 * 48 + 61 * 48 / 100)], 255);
}

// Every cell is the largest of the weights that fall into it, and every weight falls into one.
TEST(ExplorerWeights, PoolingByMaxima) {
  const int64_t queries = 37, keys = 53;
  const Exhibit exhibit = some_exhibit(1, 1, queries, keys);
  const std::vector<float> all = some_weights(1, 1, queries, keys);
  for (const Part& part : {Part{0, queries, 0, keys}, Part{3, 20, 11, 12}, Part{36, 37, 0, keys}})
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {5, 7}, {17, 53}, {1000, 1000}}) {
      const Pooled pooled = pool(*exhibit.layers[0].weights, 0, part, height, width);
      const int64_t rows = part.bottom - part.top, cols = part.right - part.left;
      ASSERT_EQ(pooled.height, std::min(height, rows));
      ASSERT_EQ(pooled.width, std::min(width, cols));
      std::vector<float> expected(pooled.cells.size(), 0.0F);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) {
          float& cell =
              expected[static_cast<std::size_t>(i * pooled.height / rows * pooled.width + j * pooled.width / cols)];
          cell = std::max(cell, all[static_cast<std::size_t>((part.top + i) * keys + part.left + j)]);
        }
      EXPECT_EQ(pooled.cells, expected);
    }
}

TEST(ExplorerEpochs, ReadsCentersAndRefusesBrokenLines) {
  const rapt::test::TemporaryDirectory dir;
  EXPECT_TRUE(read_epochs(dir / "none.jsonl").empty());
  write_file(
      dir / "m.jsonl",
      "{\"epoch\": 3, \"centers\": [[[1, -2], [0.5, 0]]], \"covariances\": [[[[1, 0], [0, 2]], [[3, 1], [1, 3]]]]}\n"
      "{\"epoch\": 4, \"loss\": 1}\n\n{\"epoch\": 5, \"centers\": [[[0, 0], [1, 1]]]}\n");
  const std::vector<Epoch> epochs = read_epochs(dir / "m.jsonl");
  ASSERT_EQ(epochs.size(), 2U);
  EXPECT_EQ(epochs[0].number, 3);
  EXPECT_EQ(epochs[0].centers[0][0][1], -2);
  EXPECT_EQ(epochs[0].covariances[0][1][0][1], 1);
  EXPECT_EQ(epochs[1].number, 5);
  EXPECT_TRUE(epochs[1].covariances.empty());
  for (const char* bad : {"{", "{\"centers\": 3}", "{\"centers\": [[[1]]]}", "{\"centers\": [[[1, \"a\"]]]}",
                          "{\"centers\": [[[1, 2]]], \"covariances\": [[]]}"}) {
    write_file(dir / "bad.jsonl", std::string("{\"epoch\": 1}\n") + bad + "\n");
    try {
      read_epochs(dir / "bad.jsonl");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("bad.jsonl:2"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace rapt::explorer::test
