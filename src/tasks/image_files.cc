#include "tasks/image_files.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/files.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr std::uint64_t kImagesLimit = std::uint64_t{1} << 32;
constexpr std::int64_t kCifarSide = 32;
constexpr std::int64_t kPlane = kCifarSide * kCifarSide;
constexpr std::uint32_t kImagesMagic = 0x803, kLabelsMagic = 0x801;
constexpr std::uint32_t kLargestSide = 4096;

[[noreturn]] void refuse(const std::string& name, std::uint64_t offset, const std::string& got,
                         const std::string& takes) {
  throw Error(std::string("read '") + name + "': at byte " + std::to_string(offset) + ": expected " + takes + ", got " +
              got);
}

void refuse_gzip(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with("\x1f\x8b")) refuse(name, 0, "a gzip file: unpack it first", "an uncompressed file");
}

std::uint8_t byte_at(std::string_view bytes, std::size_t n) { return static_cast<std::uint8_t>(bytes[n]); }

std::vector<std::string> numbered_classes(int count) {
  std::vector<std::string> names;
  for (int n = 0; n < count; ++n) names.push_back(std::to_string(n));
  return names;
}

// Records of `label_bytes` labels, each below its limit, and three planes; the label `chosen` is kept.
struct CifarFormat {
  std::array<int, 2> limits{};
  std::size_t label_bytes = 1;
  std::size_t chosen = 0;
};

ImageData parse_cifar(std::string_view bytes, const CifarFormat& format, const std::string& name) {
  refuse_gzip(bytes, name);
  const std::size_t record = format.label_bytes + 3 * static_cast<std::size_t>(kPlane);
  const std::size_t count = bytes.size() / record, rest = bytes.size() % record;
  const std::string records = "records of " + counted(record, "byte");
  if (rest != 0)
    refuse(name, count * record, counted(rest, "byte") + " after " + counted(count, "whole record"), records);
  if (count == 0) refuse(name, 0, "an empty file", records);
  for (std::size_t n = 0; n < count; ++n)
    for (std::size_t k = 0; k < format.label_bytes; ++k)
      if (const int label = byte_at(bytes, n * record + k); label >= format.limits[k])
        refuse(name, n * record + k, "label " + std::to_string(label), "0 to " + std::to_string(format.limits[k] - 1));
  ImageData data;
  data.images = Array(ElementType::u8, {static_cast<std::int64_t>(count), kCifarSide, kCifarSide, 3});
  std::uint8_t* out = data.images.as<std::uint8_t>().data();
  for (std::size_t n = 0; n < count; ++n) {
    data.labels.push_back(byte_at(bytes, n * record + format.chosen));
    const std::string_view planes = bytes.substr(n * record + format.label_bytes, record - format.label_bytes);
    for (std::size_t p = 0; p < static_cast<std::size_t>(kPlane); ++p)
      for (std::size_t c = 0; c < 3; ++c) *out++ = byte_at(planes, c * static_cast<std::size_t>(kPlane) + p);
  }
  return data;
}

std::uint32_t big_endian(std::string_view bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t n = 0; n < 4; ++n) value = value << 8 | byte_at(bytes, offset + n);
  return value;
}

std::string hex(std::uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

// The sizes of an IDX file of bytes, each from 1 to its limit, after checks of its magic and of its length.
std::vector<std::uint32_t> parse_idx(std::string_view bytes, std::uint32_t magic, const std::string& name) {
  refuse_gzip(bytes, name);
  const std::size_t dimensions = magic & 0xff, header = 4 + 4 * dimensions;
  if (bytes.size() < header)
    refuse(name, bytes.size(), "the end of the file", "a header of " + counted(header, "byte"));
  if (big_endian(bytes, 0) != magic) refuse(name, 0, "magic " + hex(big_endian(bytes, 0)), hex(magic));
  std::vector<std::uint32_t> sizes;
  std::uint64_t total = 1;
  for (std::size_t n = 0; n < dimensions; ++n) {
    sizes.push_back(big_endian(bytes, 4 + 4 * n));
    if (sizes[n] == 0 || (n > 0 && sizes[n] > kLargestSide))
      refuse(name, 4 + 4 * n, "size " + std::to_string(sizes[n]),
             n > 0 ? "1 to " + std::to_string(kLargestSide) : "1 or more");
    total *= sizes[n];
  }
  if (const std::uint64_t got = bytes.size() - header; got != total)
    refuse(name, header, counted(got, "byte"), std::to_string(total) + ", which is what the header says");
  return sizes;
}

std::filesystem::path find_mnist(const std::filesystem::path& directory, const std::string& stem,
                                 const std::string& kind) {
  const std::filesystem::path dashed = directory / (stem + "-" + kind), dotted = directory / (stem + "." + kind);
  std::error_code ignored;
  return std::filesystem::exists(dotted, ignored) && !std::filesystem::exists(dashed, ignored) ? dotted : dashed;
}

ImageData joined(const std::vector<ImageData>& parts) {
  std::vector<std::int64_t> shape = parts.front().images.shape();
  shape[0] = 0;
  for (const ImageData& part : parts) shape[0] += part.count();
  ImageData all{.images = Array(ElementType::u8, shape), .labels = {}, .classes = parts.front().classes};
  std::uint8_t* out = all.images.as<std::uint8_t>().data();
  for (const ImageData& part : parts) {
    out = std::ranges::copy(part.images.as<std::uint8_t>(), out).out;
    all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
  }
  return all;
}

ImageTask task_of(const ImageData& train, ImageData test, double valid_fraction) {
  ImageTask task = split_by_hash(train, valid_fraction, 0);
  task.test = std::move(test);
  return task;
}

}  // namespace

ImageData parse_cifar10(std::string_view bytes, const std::string& name) {
  ImageData data = parse_cifar(bytes, {.limits = {10, 0}, .label_bytes = 1, .chosen = 0}, name);
  data.classes = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  return data;
}

ImageData parse_cifar100(std::string_view bytes, CifarLabels labels, const std::string& name) {
  const bool fine = labels == CifarLabels::fine;
  ImageData data = parse_cifar(bytes, {.limits = {20, 100}, .label_bytes = 2, .chosen = fine ? 1U : 0U}, name);
  data.classes = numbered_classes(fine ? 100 : 20);
  return data;
}

ImageData parse_mnist(std::string_view images, const std::string& images_name, std::string_view labels,
                      const std::string& labels_name) {
  const std::vector<std::uint32_t> sizes = parse_idx(images, kImagesMagic, images_name);
  const std::uint32_t count = parse_idx(labels, kLabelsMagic, labels_name)[0];
  if (count != sizes[0])
    refuse(labels_name, 4, counted(count, "label"), std::to_string(sizes[0]) + ", one for each image");
  ImageData data;
  data.classes = numbered_classes(10);
  data.images = Array(ElementType::u8, {sizes[0], sizes[1], sizes[2], 1});
  std::transform(images.end() - data.images.count(), images.end(), data.images.as<std::uint8_t>().begin(),
                 [](char c) { return static_cast<std::uint8_t>(c); });
  for (std::size_t n = 8; n < labels.size(); ++n) {
    if (byte_at(labels, n) > 9) refuse(labels_name, n, "label " + std::to_string(byte_at(labels, n)), "0 to 9");
    data.labels.push_back(byte_at(labels, n));
  }
  return data;
}

ImageData read_cifar10(const std::filesystem::path& path) {
  return parse_cifar10(read_file(path, kImagesLimit), path.string());
}

ImageData read_cifar100(const std::filesystem::path& path, CifarLabels labels) {
  return parse_cifar100(read_file(path, kImagesLimit), labels, path.string());
}

ImageData read_mnist(const std::filesystem::path& images, const std::filesystem::path& labels) {
  return parse_mnist(read_file(images, kImagesLimit), images.string(), read_file(labels, kImagesLimit),
                     labels.string());
}

ImageTask cifar10_task(const std::filesystem::path& directory, double valid_fraction) {
  std::vector<ImageData> batches;
  for (int n = 1; n <= 5; ++n)
    batches.push_back(read_cifar10(directory / ("data_batch_" + std::to_string(n) + ".bin")));
  return task_of(joined(batches), read_cifar10(directory / "test_batch.bin"), valid_fraction);
}

ImageTask cifar100_task(const std::filesystem::path& directory, CifarLabels labels, double valid_fraction) {
  return task_of(read_cifar100(directory / "train.bin", labels), read_cifar100(directory / "test.bin", labels),
                 valid_fraction);
}

ImageTask mnist_task(const std::filesystem::path& directory, double valid_fraction) {
  const auto read = [&](const std::string& part) {
    return read_mnist(find_mnist(directory, part + "-images", "idx3-ubyte"),
                      find_mnist(directory, part + "-labels", "idx1-ubyte"));
  };
  const ImageData train = read("train");
  ImageData test = read("t10k");
  if (train.rows() != test.rows() || train.cols() != test.cols())
    throw Error("read mnist: expected images of one size, got " + to_string(train.images.shape()) +
                " to train on and " + to_string(test.images.shape()) + " to test");
  return task_of(train, std::move(test), valid_fraction);
}

}  // namespace rapt::inline v1::tasks
