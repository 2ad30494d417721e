// Files of images.

#include <cstdint>
#include <string_view>

#include "rapt/error.h"
#include "tasks/image_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  try {
    switch (data[0] % 3) {
      case 0: rapt::tasks::parse_cifar10(bytes, "fuzz"); break;
      case 1: rapt::tasks::parse_cifar100(bytes, rapt::tasks::CifarLabels{}, "fuzz"); break;
      default: {
        // Labels follow the images.
        const std::size_t cut = bytes.size() * data[1] / 256;
        rapt::tasks::parse_mnist(bytes.substr(0, cut), "images", bytes.substr(cut), "labels");
      }
    }
  } catch (const rapt::Error&) {
  }
  return 0;
}
