#include "tasks/images.h"

#include <algorithm>
#include <cmath>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tasks/pairs.h"
#include "tensor/random.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr std::int64_t kLargestMargin = 1 << 20;

struct Change {
  bool flip = false;
  std::int64_t down = 0;
  std::int64_t right = 0;
};

void check_call(const ImageData& data, std::int64_t n, const ChannelStatistics& statistics) {
  if (n < 0 || n >= data.count())
    throw Error("image: expected a number from 0 to " + std::to_string(data.count() - 1) + ", got " +
                std::to_string(n));
  const auto channels = static_cast<std::size_t>(data.channels());
  if (statistics.mean.size() != channels || statistics.deviation.size() != channels)
    throw Error("image: expected statistics of " + counted(channels, "channel") + ", got " +
                std::to_string(statistics.mean.size()) + " and " + std::to_string(statistics.deviation.size()));
}

template <class T>
void write_image(const ImageData& data, std::int64_t n, const ChannelStatistics& statistics, const Change& change,
                 T* out) {
  const std::int64_t rows = data.rows(), cols = data.cols(), channels = data.channels();
  const std::uint8_t* image = data.image(n);
  std::vector<double> factor, shift;
  for (std::size_t c = 0; c < statistics.mean.size(); ++c) {
    factor.push_back(1 / (data.white * statistics.deviation[c]));
    shift.push_back(-statistics.mean[c] / statistics.deviation[c]);
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t row = r + change.down, col = (change.flip ? cols - 1 - c : c) + change.right;
      const bool inside = row >= 0 && row < rows && col >= 0 && col < cols;
      const std::uint8_t* pixel = inside ? image + (row * cols + col) * channels : nullptr;
      for (std::size_t k = 0; k < factor.size(); ++k)
        *out++ = static_cast<T>((pixel != nullptr ? pixel[k] * factor[k] : 0.0) + shift[k]);
    }
}

}  // namespace

void check(const ImageData& data, const std::string& name) {
  if (data.images.type() != ElementType::u8 || data.images.rank() != 4)
    throw Error(name + ": images: expected u8 [N, rows, columns, channels], got " + name_of(data.images.type()) + " " +
                to_string(data.images.shape()));
  if (data.images.shape()[0] != data.count())
    throw Error(name + ": expected as many labels as images, got " + counted(data.images.shape()[0], "image") +
                " and " + counted(data.count(), "label"));
  const int classes = static_cast<int>(data.classes.size());
  for (std::size_t n = 0; n < data.labels.size(); ++n)
    if (data.labels[n] < 0 || data.labels[n] >= classes)
      throw Error(name + ": image " + std::to_string(n) + ": expected a label from 0 to " +
                  std::to_string(classes - 1) + ", got " + std::to_string(data.labels[n]));
}

ImageData select(const ImageData& data, const std::vector<std::int64_t>& places) {
  std::vector<std::int64_t> shape = data.images.shape();
  shape[0] = static_cast<std::int64_t>(places.size());
  ImageData result{.images = Array(ElementType::u8, shape), .labels = {}, .classes = data.classes, .white = data.white};
  std::uint8_t* out = result.images.as<std::uint8_t>().data();
  for (const std::int64_t n : places) {
    if (n < 0 || n >= data.count())
      throw Error("select images: expected numbers from 0 to " + std::to_string(data.count() - 1) + ", got " +
                  std::to_string(n));
    out = std::copy_n(data.image(n), data.image_size(), out);
    result.labels.push_back(data.labels[static_cast<std::size_t>(n)]);
  }
  return result;
}

ImageTask split_by_hash(const ImageData& data, double valid_fraction, double test_fraction) {
  if (!(valid_fraction >= 0 && test_fraction >= 0 && valid_fraction + test_fraction < 1))
    throw Error("split by hash: expected two fractions, 0 or more, whose sum is below 1, got " +
                std::to_string(valid_fraction) + " and " + std::to_string(test_fraction));
  std::vector<std::int64_t> train, valid, test;
  for (std::int64_t n = 0; n < data.count(); ++n) {
    const std::string_view bytes(reinterpret_cast<const char*>(data.image(n)),
                                 static_cast<std::size_t>(data.image_size()));
    const double place = static_cast<double>(stable_hash(bytes) >> 11) * 0x1p-53;
    (place < test_fraction ? test : place < test_fraction + valid_fraction ? valid : train).push_back(n);
  }
  return {select(data, train), select(data, valid), select(data, test)};
}

ChannelStatistics channel_statistics(const ImageData& data) {
  const auto channels = static_cast<std::size_t>(data.channels());
  // Integers, so that the sums are exact.
  std::vector<std::uint64_t> sums(channels), squares(channels);
  std::size_t n = 0;
  for (const std::uint8_t pixel : data.images.as<std::uint8_t>()) {
    sums[n] += pixel;
    squares[n] += std::uint64_t{pixel} * pixel;
    n = n + 1 == channels ? 0 : n + 1;
  }
  ChannelStatistics result;
  const double count = std::max(1.0, static_cast<double>(data.count() * data.rows() * data.cols()));
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sums[c]) / count;
    const double variance = static_cast<double>(squares[c]) / count - mean * mean;
    result.mean.push_back(mean / data.white);
    result.deviation.push_back(variance > 1e-9 ? std::sqrt(variance) / data.white : 1);
  }
  return result;
}

template <class T>
void normalized_image(const ImageData& data, std::int64_t n, const ChannelStatistics& statistics, T* out) {
  check_call(data, n, statistics);
  write_image(data, n, statistics, {}, out);
}

template <class T>
void augmented_image(const ImageData& data, std::int64_t n, const ChannelStatistics& statistics,
                     const Augmentation& augmentation, std::uint64_t seed, std::int64_t epoch, T* out) {
  check_call(data, n, statistics);
  const std::int64_t margin = augmentation.crop_margin;
  if (margin < 0 || margin > kLargestMargin)
    throw Error("augment: crop_margin: expected 0 to " + std::to_string(kLargestMargin) + ", got " +
                std::to_string(margin));
  // The last id distinguishes this stream from those for other purposes.
  Random random(seed, epoch, n, 0x6175676d656e74);
  Change change;
  // Always drawn, so that one option does not change what the other does.
  change.flip = random.below(2) == 1 && augmentation.flip;
  change.down = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(2 * margin + 1))) - margin;
  change.right = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(2 * margin + 1))) - margin;
  write_image(data, n, statistics, change, out);
}

template void normalized_image<float>(const ImageData&, std::int64_t, const ChannelStatistics&, float*);
template void normalized_image<double>(const ImageData&, std::int64_t, const ChannelStatistics&, double*);
template void augmented_image<float>(const ImageData&, std::int64_t, const ChannelStatistics&, const Augmentation&,
                                     std::uint64_t, std::int64_t, float*);
template void augmented_image<double>(const ImageData&, std::int64_t, const ChannelStatistics&, const Augmentation&,
                                      std::uint64_t, std::int64_t, double*);

}  // namespace rapt::inline v1::tasks
