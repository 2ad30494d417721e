#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "rapt/device.h"
#include "rapt/view.h"
#include "support/storage.h"

namespace trees {

// Numbers that a storage type holds, there and on the device.
struct Array {
  rapt::Dtype dtype = rapt::Dtype::f64;
  rapt::Shape shape{};
  rapt::Device device{};
  std::vector<double> values;
  std::vector<std::byte> bytes;
  std::shared_ptr<rapt::DeviceMemory> memory;

  Array() = default;
  Array(rapt::Dtype type, const rapt::Shape& s, const rapt::Device& where, std::vector<double> numbers)
      : dtype(type), shape(s), device(where), values(std::move(numbers)) {
    values.resize(static_cast<std::size_t>(s[0] * s[1] * s[2] * s[3]));
    bytes.resize(values.size() * rapt::size_of(type));
    for (std::size_t n = 0; n < values.size(); ++n)
      support::store(type, values[n], bytes.data() + n * rapt::size_of(type));
    if (device.kind == rapt::Device::Kind::cpu) return;
    memory = std::make_shared<rapt::DeviceMemory>(device, bytes.size());
    memory->upload(bytes.data(), bytes.size());
  }
  rapt::View view() {
    return {memory ? memory->data() : bytes.data(), dtype, shape, rapt::contiguous_strides(shape), device};
  }
  std::vector<double> read() {
    if (memory) memory->download(bytes.data(), bytes.size());
    std::vector<double> result;
    for (std::size_t n = 0; n < values.size(); ++n)
      result.push_back(support::load(dtype, bytes.data() + n * rapt::size_of(dtype)));
    return result;
  }
};

}  // namespace trees
