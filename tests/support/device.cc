#include "support/device.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace support {

rapt::Device test_device() {
  static const rapt::Device device = [] {
    const char* name = std::getenv("RAPT_TEST_DEVICE");
    if (name == nullptr || std::string(name) == "cpu") return rapt::Device{};
    if (std::string(name) == "cuda") return rapt::Device{rapt::Device::Kind::cuda, 0};
    throw std::runtime_error(std::string("RAPT_TEST_DEVICE: expected cpu or cuda, got ") + name);
  }();
  return device;
}

}  // namespace support
