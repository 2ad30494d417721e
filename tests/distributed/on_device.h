#pragma once

#include <list>

#include "rapt/attend.h"
#include "rapt/device.h"

// The arrays of a call, copied to a device and back. On a cpu they stay where they are.
namespace support {

class OnDevice {
 public:
  explicit OnDevice(const rapt::Device& device) : device_(device) {}

  // From the first element to the last, whatever lies between.
  template <class V>
  void move(V& view) {
    if (device_.kind == rapt::Device::Kind::cpu) return;
    view.device = device_;
    std::int64_t count = view.data == nullptr ? 0 : 1;
    for (std::size_t n = 0; n < 4; ++n) count += (view.shape[n] - 1) * view.strides[n];
    for (const std::int64_t size : view.shape) count = size == 0 ? 0 : count;
    if (view.data == nullptr || count == 0) return;
    std::size_t bytes = static_cast<std::size_t>(count);
    if constexpr (requires { view.dtype; }) bytes *= rapt::size_of(view.dtype);
    pieces_.push_back({const_cast<void*>(static_cast<const void*>(view.data)), bytes, std::is_same_v<V, rapt::View>,
                       rapt::DeviceMemory(device_, bytes)});
    pieces_.back().memory.upload(view.data, bytes);
    view.data = static_cast<decltype(view.data)>(pieces_.back().memory.data());
  }
  void move(rapt::Inputs& inputs, rapt::AttendOptions& options) {
    move(inputs.q);
    move(inputs.k);
    for (rapt::ConstView& v : inputs.v) move(v);
    if (options.bias) move(options.bias);
    if (options.mask.dense) move(options.mask.dense);
    for (auto* list : {&options.score.parameters, &options.normalizer_parameters})
      for (rapt::NamedView& parameter : *list) move(parameter.value);
  }

  void fetch() {
    if (device_.kind != rapt::Device::Kind::cpu) rapt::synchronize(device_);
    for (const Piece& piece : pieces_)
      if (piece.written) piece.memory.download(piece.data, piece.bytes);
  }

 private:
  struct Piece {
    void* data;
    std::size_t bytes;
    bool written;
    rapt::DeviceMemory memory;
  };

  rapt::Device device_;
  std::list<Piece> pieces_;
};

}  // namespace support
