#include "tasks/images.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "rapt/threads.h"
#include "tasks/digits.h"
#include "tasks/shapes.h"
#include "tensor/files.h"

namespace rapt::tasks::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

Bytes bytes_of(const ImageData& data) {
  const auto pixels = data.images.as<std::uint8_t>();
  return {pixels.begin(), pixels.end()};
}

std::string image_bytes(const ImageData& data, std::int64_t n) {
  return {data.image(n), data.image(n) + data.image_size()};
}

// Two images of 2×3 pixels of two channels.
ImageData small_data() {
  ImageData data;
  const Bytes pixels{0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15, 6, 16, 7, 17, 8, 18, 9, 19, 10, 20, 11, 21};
  data.images = Array::of<std::uint8_t>({2, 2, 3, 2}, pixels);
  data.labels = {1, 0};
  data.classes = {"a", "b"};
  return data;
}

const ChannelStatistics kPlain{.mean = {0, 0}, .deviation = {1 / 255.0, 1 / 255.0}};

Floats augmented(const ImageData& data, std::int64_t n, const Augmentation& a, std::uint64_t seed, std::int64_t epoch) {
  Floats out(static_cast<std::size_t>(data.image_size()));
  const std::vector<double> ones(static_cast<std::size_t>(data.channels()), 1 / data.white);
  augmented_image(data, n, {std::vector<double>(ones.size()), ones}, a, seed, epoch, out.data());
  return out;
}

TEST(Digits, AreThoseOfScikitLearn) {
  const ImageData data = digits_data();
  check(data, "digits");
  ASSERT_EQ(data.images.shape(), (std::vector<std::int64_t>{1797, 8, 8, 1}));
  EXPECT_EQ(data.white, 16);
  // Row 0 of load_digits(), the counts of its classes, its mean, and its last label.
  EXPECT_EQ((Bytes{data.image(0), data.image(0) + 16}), (Bytes{0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0}));
  std::vector<int> counts(10);
  for (const int label : data.labels) ++counts[static_cast<std::size_t>(label)];
  EXPECT_EQ(counts, (std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
  std::int64_t sum = 0, whites = 0;
  for (const std::uint8_t pixel : bytes_of(data)) sum += pixel, whites += pixel == 16;
  EXPECT_EQ(sum, 561718);
  EXPECT_EQ(whites, 10456);
  EXPECT_EQ((std::vector<int>{data.labels.begin(), data.labels.begin() + 4}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(data.labels.back(), 8);
}

TEST(Digits, TheLibraryHasTheFile) {
  const std::string file = read_file(std::string(RAPT_SOURCE_DIR) + "/data/digits.bin");
  const auto bytes = digits_bytes();
  EXPECT_TRUE(std::equal(file.begin(), file.end(), bytes.begin(), bytes.end(),
                         [](char a, unsigned char b) { return static_cast<unsigned char>(a) == b; }));
}

TEST(Digits, PartsAreFixedAndShareNothing) {
  const ImageTask task = digits_task();
  // Pinned: a change makes every recorded accuracy another one.
  EXPECT_EQ(task.train.count(), 1262);
  EXPECT_EQ(task.valid.count(), 175);
  EXPECT_EQ(task.test.count(), 360);
  std::set<std::string> seen;
  for (const ImageData* part : {&task.train, &task.valid, &task.test}) {
    std::set<int> labels(part->labels.begin(), part->labels.end());
    EXPECT_EQ(labels.size(), 10U);
    for (std::int64_t n = 0; n < part->count(); ++n) EXPECT_TRUE(seen.insert(image_bytes(*part, n)).second);
  }
  EXPECT_EQ(seen.size(), 1797U);
}

TEST(Digits, BadBytes) {
  std::vector<unsigned char> bytes(digits_bytes().begin(), digits_bytes().begin() + 82);
  EXPECT_EQ(parse_digits(bytes).count(), 2);
  EXPECT_THROW(parse_digits({}), Error);
  EXPECT_THROW(parse_digits(std::span(bytes).first(81)), Error);
  bytes[41] = 10;
  EXPECT_THROW(parse_digits(bytes), Error);
  bytes[41] = 9;
  bytes[50] = 0xff;
  EXPECT_THROW(parse_digits(bytes), Error);
}

TEST(Images, SplitByHashGivesEachImageOnePlace) {
  const ImageData data = digits_data();
  const ImageTask all = split_by_hash(data, 0.1, 0.2);
  // An image stays in its part when others are removed.
  std::vector<std::int64_t> some;
  for (std::int64_t n = 0; n < data.count(); n += 3) some.push_back(n);
  const ImageTask part = split_by_hash(select(data, some), 0.1, 0.2);
  std::set<std::string> test;
  for (std::int64_t n = 0; n < all.test.count(); ++n) test.insert(image_bytes(all.test, n));
  for (std::int64_t n = 0; n < part.test.count(); ++n) EXPECT_TRUE(test.contains(image_bytes(part.test, n)));
  EXPECT_EQ(split_by_hash(data, 0, 0).train.count(), data.count());
  EXPECT_THROW(split_by_hash(data, 0.5, 0.5), Error);
  EXPECT_THROW(split_by_hash(data, -0.1, 0.5), Error);
  EXPECT_THROW(split_by_hash(data, std::nan(""), 0.5), Error);
}

TEST(Images, ChecksAndSelects) {
  ImageData data = small_data();
  EXPECT_NO_THROW(check(data, "small"));
  const ImageData swapped = select(data, {1, 0, 1});
  EXPECT_EQ(swapped.labels, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(image_bytes(swapped, 1), image_bytes(data, 0));
  EXPECT_THROW(select(data, {2}), Error);
  EXPECT_THROW(select(data, {-1}), Error);
  data.labels = {1, 2};
  EXPECT_THROW(check(data, "small"), Error);
  data.labels = {1};
  EXPECT_THROW(check(data, "small"), Error);
}

TEST(Images, StatisticsAndNormalisation) {
  const ImageData data = small_data();
  const ChannelStatistics statistics = channel_statistics(data);
  EXPECT_NEAR(statistics.mean[0], 5.5 / 255, 1e-15);
  EXPECT_NEAR(statistics.mean[1], 15.5 / 255, 1e-15);
  EXPECT_NEAR(statistics.deviation[0], std::sqrt(143.0 / 12) / 255, 1e-15);
  std::vector<double> all(24);
  normalized_image(data, 0, statistics, all.data());
  normalized_image(data, 1, statistics, all.data() + 12);
  for (const int channel : {0, 1}) {
    double sum = 0, squares = 0;
    for (int n = channel; n < 24; n += 2)
      sum += all[static_cast<std::size_t>(n)], squares += std::pow(all[static_cast<std::size_t>(n)], 2);
    EXPECT_NEAR(sum, 0, 1e-12);
    EXPECT_NEAR(squares, 12, 1e-12);
  }
  EXPECT_NEAR(all[0], -5.5 / std::sqrt(143.0 / 12), 1e-12);
  ImageData constant = small_data();
  std::ranges::fill(constant.images.as<std::uint8_t>(), std::uint8_t{7});
  EXPECT_EQ(channel_statistics(constant).deviation, (std::vector<double>{1, 1}));
  EXPECT_THROW(normalized_image(data, 2, statistics, all.data()), Error);
  EXPECT_THROW(normalized_image(data, 0, {.mean = {0}, .deviation = {1}}, all.data()), Error);
}

TEST(Images, AugmentationFlipsAndShifts) {
  const ImageData data = small_data();
  Floats plain(12);
  normalized_image(data, 0, kPlain, plain.data());
  for (std::size_t n = 0; n < 12; ++n) EXPECT_NEAR(plain[n], data.image(0)[n], 1e-5);
  const Floats flipped{2, 12, 1, 11, 0, 10, 5, 15, 4, 14, 3, 13};
  std::map<bool, int> flips;
  for (int epoch = 0; epoch < 400; ++epoch) {
    Floats got = augmented(data, 0, {.flip = true}, 1, epoch);
    for (float& x : got) x = std::round(x);
    const bool turned = got == flipped;
    EXPECT_TRUE(turned || got == Floats({0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15}));
    ++flips[turned];
  }
  EXPECT_NEAR(flips[true], 200, 50);

  // Every one of the nine shifts happens, and what comes in is 0.
  std::map<Floats, int> shifts;
  for (int epoch = 0; epoch < 900; ++epoch) {
    Floats got = augmented(data, 1, {.crop_margin = 1}, 2, epoch);
    for (float& x : got) x = std::round(x);
    ++shifts[got];
  }
  EXPECT_EQ(shifts.size(), 9U);
  for (const auto& [image, count] : shifts) EXPECT_NEAR(count, 100, 50);
  EXPECT_TRUE(shifts.contains({9, 19, 10, 20, 11, 21, 0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(shifts.contains({0, 0, 6, 16, 7, 17, 0, 0, 9, 19, 10, 20}));
}

TEST(Images, AugmentationIsAFunctionOfSeedEpochAndNumber) {
  const ImageData data = shapes_task({.train = 4, .valid = 0, .test = 0}).train;
  const Augmentation all{.flip = true, .crop_margin = 4};
  EXPECT_EQ(augmented(data, 1, all, 3, 5), augmented(data, 1, all, 3, 5));
  EXPECT_NE(augmented(data, 1, all, 3, 5), augmented(data, 1, all, 3, 6));
  EXPECT_NE(augmented(data, 1, all, 3, 5), augmented(data, 1, all, 4, 5));
  EXPECT_THROW(augmented(data, 1, {.crop_margin = -1}, 3, 5), Error);
  EXPECT_THROW(augmented(data, 1, {.crop_margin = std::int64_t{1} << 62}, 3, 5), Error);
}

TEST(Shapes, SeedsDecideAndPartsDiffer) {
  const ShapesOptions options{.seed = 3, .train = 40, .valid = 20, .test = 20};
  const ImageTask task = shapes_task(options);
  check(task.train, "shapes");
  EXPECT_EQ(task.train.images.shape(), (std::vector<std::int64_t>{40, 32, 32, 3}));
  EXPECT_EQ(task.train.classes.size(), 10U);
  EXPECT_EQ(task.train.classes[3], "dotted square");
  for (int label = 0; label < 10; ++label)
    EXPECT_EQ(std::count(task.test.labels.begin(), task.test.labels.end(), label), 2);
  EXPECT_EQ(bytes_of(shapes_task(options).train), bytes_of(task.train));
  ShapesOptions other = options;
  other.seed = 4;
  EXPECT_NE(bytes_of(shapes_task(other).train), bytes_of(task.train));
  EXPECT_NE(bytes_of(task.valid), bytes_of(task.test));
  // More images do not change the first ones.
  other = options;
  other.train = 10;
  EXPECT_EQ(image_bytes(shapes_task(other).train, 9), image_bytes(task.train, 9));
  EXPECT_THROW(shapes_task({.train = -1}), Error);
  EXPECT_THROW(shapes_task({.train = std::int64_t{1} << 60}), Error);
}

TEST(Shapes, ThreadsDoNotMatter) {
  const int before = default_threads();
  std::vector<Bytes> results;
  for (const int threads : {1, 3}) {
    set_default_threads(threads);
    results.push_back(bytes_of(shapes_task({.train = 30, .valid = 0, .test = 0}).train));
  }
  set_default_threads(before);
  EXPECT_EQ(results[0], results[1]);
}

// Colours must not give the class away: their means over many images are close to each other.
TEST(Shapes, MeanColoursTellNothing) {
  const ImageData data = shapes_task({.train = 2000, .valid = 0, .test = 0}).train;
  std::vector<double> means(10);
  for (std::int64_t n = 0; n < data.count(); ++n) {
    double sum = 0;
    for (const std::uint8_t pixel : image_bytes(data, n)) sum += pixel;
    means[static_cast<std::size_t>(data.labels[static_cast<std::size_t>(n)])] += sum / 3072 / 200;
  }
  const auto [low, high] = std::ranges::minmax(means);
  EXPECT_LT(high - low, 10);
  EXPECT_GT(low, 40);
}

}  // namespace
}  // namespace rapt::tasks::test
