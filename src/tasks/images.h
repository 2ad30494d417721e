#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/array.h"

namespace rapt::inline v1::tasks {

// Images of one size with a class each.
struct ImageData {
  Array images;             // u8 [N, R, C, channels]
  std::vector<int> labels;  // [N], indices into `classes`
  std::vector<std::string> classes;
  double white = 255;  // the largest value that a pixel may have

  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t rows() const { return images.shape()[1]; }
  std::int64_t cols() const { return images.shape()[2]; }
  std::int64_t channels() const { return images.shape()[3]; }
  std::int64_t image_size() const { return rows() * cols() * channels(); }
  const std::uint8_t* image(std::int64_t n) const { return images.as<std::uint8_t>().data() + n * image_size(); }
};

struct ImageTask {
  ImageData train;
  ImageData valid;
  ImageData test;
};

// Throws rapt::Error if sizes and labels do not fit each other; `name` is what errors call the data.
void check(const ImageData& data, const std::string& name);

// The images at these indices, in this order.
ImageData select(const ImageData& data, const std::vector<std::int64_t>& places);

// An image goes to one part by the hash of its pixels, whatever else there is, as split_by_hash of pairs.h has it.
ImageTask split_by_hash(const ImageData& data, double valid_fraction, double test_fraction);

// Of every channel over all images, in units of white.
struct ChannelStatistics {
  std::vector<double> mean;
  std::vector<double> deviation;  // 1 for a channel that is the same everywhere
};

ChannelStatistics channel_statistics(const ImageData& data);

struct Augmentation {
  bool flip = false;             // mirrored left to right, half of the time
  std::int64_t crop_margin = 0;  // shifted by up to this many pixels; what comes in is black
};

// (pixel / white − mean) / deviation, as [R, C, channels].
template <class T>
void normalized_image(const ImageData& data, std::int64_t n, const ChannelStatistics& statistics, T* out);

// The same of an augmented image. The augmentation is a function of the seed, the epoch and n alone.
template <class T>
void augmented_image(const ImageData& data, std::int64_t n, const ChannelStatistics& statistics,
                     const Augmentation& augmentation, std::uint64_t seed, std::int64_t epoch, T* out);

}  // namespace rapt::inline v1::tasks
