#pragma once

#include <filesystem>
#include <string_view>

#include "tasks/images.h"

// The files of well-known image sets, as published but unpacked: no gzip. Everything is checked, errors name the file
// and the byte, and nothing larger than the file is allocated.
namespace rapt::inline v1::tasks {

// Records of a label and 3×32×32 bytes (red, green, blue planes). CIFAR-100 has two labels: coarse, then fine.
ImageData read_cifar10(const std::filesystem::path& path);
enum class CifarLabels : std::uint8_t { coarse, fine };
ImageData read_cifar100(const std::filesystem::path& path, CifarLabels labels);

// IDX: big-endian magic 0x00000803 and sizes, then bytes; labels of 0 to 9 with magic 0x00000801.
ImageData read_mnist(const std::filesystem::path& images, const std::filesystem::path& labels);

// From memory; `name` is what errors call it.
ImageData parse_cifar10(std::string_view bytes, const std::string& name);
ImageData parse_cifar100(std::string_view bytes, CifarLabels labels, const std::string& name);
ImageData parse_mnist(std::string_view images, const std::string& images_name, std::string_view labels,
                      const std::string& labels_name);

// The whole set from its directory: data_batch_1.bin … data_batch_5.bin and test_batch.bin; train.bin and test.bin;
// train-images-idx3-ubyte and so on. `valid_fraction` of the training images becomes `valid`, by hash.
ImageTask cifar10_task(const std::filesystem::path& directory, double valid_fraction = 0.1);
ImageTask cifar100_task(const std::filesystem::path& directory, CifarLabels labels, double valid_fraction = 0.1);
ImageTask mnist_task(const std::filesystem::path& directory, double valid_fraction = 0.1);

}  // namespace rapt::inline v1::tasks
