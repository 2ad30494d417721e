#include "tasks/image_files.h"

#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::tasks::test {
namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// A record whose red, green and blue at place p are p, p + 1 and p + 2, and `first` more.
std::string cifar_record(const std::string& labels, int first) {
  std::string record = labels;
  for (int c = 0; c < 3; ++c)
    for (int p = 0; p < 1024; ++p) record += static_cast<char>((p + c + first) & 0xff);
  return record;
}

std::string idx_images(std::uint32_t count, std::uint32_t rows, std::uint32_t cols, const std::string& pixels) {
  return big_endian(0x803) + big_endian(count) + big_endian(rows) + big_endian(cols) + pixels;
}

std::string idx_labels(std::uint32_t count, const std::string& labels) {
  return big_endian(0x801) + big_endian(count) + labels;
}

void expect_error(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
    FAIL() << "no error";
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what() << " lacks " << part;
  }
}

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST(Cifar, PlanesBecomePixels) {
  const ImageData data = parse_cifar10(cifar_record("\x09", 0) + cifar_record(std::string(1, '\0'), 7), "file");
  check(data, "cifar10");
  EXPECT_EQ(data.images.shape(), (std::vector<std::int64_t>{2, 32, 32, 3}));
  EXPECT_EQ(data.labels, (std::vector<int>{9, 0}));
  EXPECT_EQ(data.classes[9], "truck");
  for (int p = 0; p < 1024; ++p)
    for (int c = 0; c < 3; ++c) {
      ASSERT_EQ(data.image(0)[p * 3 + c], (p + c) % 256);
      ASSERT_EQ(data.image(1)[p * 3 + c], (p + c + 7) % 256);
    }
}

TEST(Cifar, HundredHasTwoLabels) {
  const std::string bytes = cifar_record("\x13\x63", 0);
  EXPECT_EQ(parse_cifar100(bytes, CifarLabels::coarse, "file").labels, std::vector<int>{19});
  EXPECT_EQ(parse_cifar100(bytes, CifarLabels::fine, "file").labels, std::vector<int>{99});
  EXPECT_EQ(parse_cifar100(bytes, CifarLabels::fine, "file").classes.size(), 100U);
  EXPECT_EQ(parse_cifar100(bytes, CifarLabels::fine, "file").image(0)[5], 3);
  expect_error([&] { parse_cifar100(cifar_record("\x14\x01", 0), CifarLabels::fine, "f"); }, {"byte 0", "20", "19"});
  expect_error([&] { parse_cifar100(cifar_record("\x01\x64", 0), CifarLabels::coarse, "f"); }, {"byte 1", "100"});
}

TEST(Cifar, BadFilesAreRefused) {
  const std::string good = cifar_record("\x01", 0);
  expect_error([&] { parse_cifar10("", "batch.bin"); }, {"batch.bin", "empty"});
  expect_error([&] { parse_cifar10(good + "x", "batch.bin"); },
               {"batch.bin", "byte 3073", "got 1 byte after 1 whole record", "3073"});
  expect_error([&] { parse_cifar10((good + good).substr(0, 6145), "batch.bin"); }, {"byte 3073", "3072 bytes"});
  expect_error([&] { parse_cifar10(good + cifar_record("\x0a", 0), "batch.bin"); },
               {"byte 3073", "label 10", "0 to 9"});
  expect_error([&] { parse_cifar10("\x1f\x8b" + good, "batch.bin"); }, {"gzip"});
  // A file of the other kind.
  expect_error([&] { parse_cifar100(good, CifarLabels::fine, "batch.bin"); }, {"3074"});
}

TEST(Mnist, ImagesAndLabels) {
  const ImageData data = parse_mnist(idx_images(2, 2, 3, "abcdefghijkl"), "i", idx_labels(2, "\x07\x03"), "l");
  check(data, "mnist");
  EXPECT_EQ(data.images.shape(), (std::vector<std::int64_t>{2, 2, 3, 1}));
  EXPECT_EQ(data.labels, (std::vector<int>{7, 3}));
  EXPECT_EQ(data.image(1)[0], 'g');
  EXPECT_EQ(data.image(1)[5], 'l');
}

TEST(Mnist, BadFilesAreRefused) {
  const std::string images = idx_images(2, 2, 3, "abcdefghijkl"), labels = idx_labels(2, "\x07\x03");
  const auto refused = [](const std::string& i, const std::string& l, const std::vector<std::string>& parts) {
    expect_error([&] { parse_mnist(i, "images-file", l, "labels-file"); }, parts);
  };
  refused("", labels, {"images-file", "byte 0", "header"});
  refused(images.substr(0, 15), labels, {"images-file", "byte 15"});
  refused(labels, labels, {"images-file"});
  refused(images, images, {"labels-file", "byte 0", "0x00000803", "0x00000801"});
  refused(images + "x", labels, {"images-file", "13 bytes", "12"});
  refused(images.substr(0, 27), labels, {"11 bytes"});
  refused(images, labels + "x", {"labels-file", "3 bytes"});
  refused(images, idx_labels(3, "\x07\x03\x01"), {"labels-file", "3 labels"});
  refused(images, idx_labels(2, "\x07\x0a"), {"labels-file", "byte 9", "label 10"});
  refused(idx_images(0, 2, 3, ""), labels, {"byte 4", "size 0"});
  refused(idx_images(2, 0, 3, ""), labels, {"byte 8"});
  refused("\x1f\x8b" + images, labels, {"gzip"});
  // Little endian, as a wrong writer makes it.
  refused(std::string("\x03\x08\0\0", 4) + images.substr(4), labels, {"0x03080000"});
  // Sizes that would be petabytes are compared with the file, never allocated.
  refused(idx_images(0xffffffff, 4096, 4096, "abc"), labels, {"3 bytes"});
  refused(idx_images(1, 0xffffffff, 0xffffffff, "abc"), labels, {"byte 8", "4294967295"});
  refused(images, idx_labels(0xffffffff, "\x01"), {"labels-file", "got 1 byte"});
}

// Any change of one byte of the header or any cut is either refused or still gives data that fits.
TEST(Mnist, ChangedHeadersNeverGiveNonsense) {
  const std::string images = idx_images(2, 2, 3, "abcdefghijkl"), labels = idx_labels(2, "\x07\x03");
  int refused = 0;
  for (std::size_t n = 0; n < 16; ++n)
    for (int value = 0; value < 256; ++value) {
      std::string changed = images;
      changed[n] = static_cast<char>(value);
      try {
        check(parse_mnist(changed, "i", labels, "l"), "mnist");
      } catch (const Error&) {
        ++refused;
      }
    }
  EXPECT_GE(refused, 16 * 255 - 8);
}

TEST(ImageFiles, WholeSetsFromTheirDirectories) {
  const rapt::test::TemporaryDirectory directory;
  expect_error([&] { cifar10_task(directory.path()); }, {"data_batch_1.bin"});
  for (int n = 1; n <= 5; ++n) {
    std::string batch;
    for (int k = 0; k < 8; ++k) batch += cifar_record(std::string(1, static_cast<char>(n)), n * 8 + k);
    write(directory / ("data_batch_" + std::to_string(n) + ".bin"), batch);
  }
  write(directory / "test_batch.bin", cifar_record("\x02", 99));
  const ImageTask ten = cifar10_task(directory.path(), 0.25);
  EXPECT_EQ(ten.train.count() + ten.valid.count(), 40);
  EXPECT_GT(ten.valid.count(), 2);
  EXPECT_EQ(ten.test.labels, std::vector<int>{2});
  EXPECT_EQ(cifar10_task(directory.path(), 0).train.labels[39], 5);

  write(directory / "train.bin", cifar_record("\x01\x02", 0) + cifar_record("\x03\x04", 1));
  write(directory / "test.bin", cifar_record("\x05\x06", 0));
  const ImageTask hundred = cifar100_task(directory.path(), CifarLabels::fine, 0);
  EXPECT_EQ(hundred.train.labels, (std::vector<int>{2, 4}));
  EXPECT_EQ(hundred.test.labels, std::vector<int>{6});

  write(directory / "train-images-idx3-ubyte", idx_images(2, 2, 2, "abcdefgh"));
  write(directory / "train-labels.idx1-ubyte", idx_labels(2, "\x01\x02"));
  write(directory / "t10k-images.idx3-ubyte", idx_images(1, 2, 2, "abcd"));
  expect_error([&] { mnist_task(directory.path()); }, {"t10k-labels-idx1-ubyte"});
  write(directory / "t10k-labels-idx1-ubyte", idx_labels(1, "\x03"));
  const ImageTask mnist = mnist_task(directory.path(), 0);
  EXPECT_EQ(mnist.train.labels, (std::vector<int>{1, 2}));
  EXPECT_EQ(mnist.test.labels, std::vector<int>{3});
  write(directory / "t10k-images.idx3-ubyte", idx_images(1, 1, 4, "abcd"));
  expect_error([&] { mnist_task(directory.path()); }, {"one size"});
  expect_error([&] { read_cifar10(directory.path()); }, {directory.path().string()});
}

}  // namespace
}  // namespace rapt::tasks::test
