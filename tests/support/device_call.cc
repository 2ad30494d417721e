#include "support/device_call.h"

#include <cstdint>
#include <cstdlib>
#include <list>
#include <stdexcept>
#include <string>

namespace support {
namespace {

// Copies of a call's arrays in device memory, each as far from a multiple of 16 bytes as the original.
class Mirror {
 public:
  explicit Mirror(const rapt::Device& device) : device_(device) {}

  void* copy(void* data, std::size_t bytes, bool written) {
    if (data == nullptr || bytes == 0) return data;
    const std::size_t off = reinterpret_cast<std::uintptr_t>(data) % 16;
    std::vector<std::byte> all(off + bytes);
    const auto* from = static_cast<const std::byte*>(data);
    std::copy(from, from + bytes, all.begin() + static_cast<std::ptrdiff_t>(off));
    pieces_.push_back({data, bytes, off, written, rapt::DeviceMemory(device_, off + bytes)});
    pieces_.back().memory.upload(all.data(), all.size());
    return static_cast<std::byte*>(pieces_.back().memory.data()) + off;
  }

  // From the first element to the last, whatever lies between.
  template <class V>
  void move(V& view, bool written) {
    if (!view) return;
    std::int64_t last = 1;
    for (std::size_t n = 0; n < 4; ++n) last = view.shape[n] == 0 ? 0 : last + (view.shape[n] - 1) * view.strides[n];
    for (const std::int64_t size : view.shape) last = size == 0 ? 0 : last;
    std::size_t element = 1;
    if constexpr (requires { view.dtype; }) element = rapt::size_of(view.dtype);
    using Data = decltype(view.data);
    view.data = static_cast<Data>(
        copy(const_cast<void*>(static_cast<const void*>(view.data)), static_cast<std::size_t>(last) * element, written));
    view.device = device_;
  }

  void download() {
    rapt::synchronize(device_);
    for (Piece& p : pieces_) {
      if (!p.written) continue;
      std::vector<std::byte> all(p.off + p.bytes);
      p.memory.download(all.data(), all.size());
      std::copy(all.begin() + static_cast<std::ptrdiff_t>(p.off), all.end(), static_cast<std::byte*>(p.data));
    }
  }

 private:
  struct Piece {
    void* data;
    std::size_t bytes, off;
    bool written;
    rapt::DeviceMemory memory;
  };
  rapt::Device device_;
  std::list<Piece> pieces_;
};

void move_inputs(Mirror& mirror, rapt::Inputs& inputs, rapt::AttendOptions& options) {
  mirror.move(inputs.q, false);
  mirror.move(inputs.k, false);
  for (rapt::ConstView& v : inputs.v) mirror.move(v, false);
  mirror.move(options.bias, false);
  mirror.move(options.mask.dense, false);
  for (rapt::NamedView& p : options.score.parameters) mirror.move(p.value, false);
  for (rapt::NamedView& p : options.normalizer_parameters) mirror.move(p.value, false);
}

}  // namespace

rapt::Device test_device() {
  static const rapt::Device device = [] {
    const char* name = std::getenv("RAPT_TEST_DEVICE");
    if (name == nullptr || std::string(name) == "cpu") return rapt::Device{};
    if (std::string(name) == "cuda") return rapt::Device{rapt::Device::Kind::cuda, 0};
    throw std::runtime_error(std::string("RAPT_TEST_DEVICE: expected cpu or cuda, got ") + name);
  }();
  return device;
}

void attend(const rapt::Inputs& inputs, const rapt::Outputs& outputs, const rapt::AttendOptions& options) {
  if (on_cpu()) return rapt::attend(inputs, outputs, options);
  Mirror mirror(test_device());
  rapt::Inputs in = inputs;
  rapt::Outputs out = outputs;
  rapt::AttendOptions own = options;
  move_inputs(mirror, in, own);
  for (rapt::View& view : out.out) mirror.move(view, true);
  for (rapt::View* view : {&out.lse, &out.row_max, &out.row_sum, &out.statistics.entropy, &out.statistics.position,
                           &out.statistics.covariance, &out.statistics.top_weights})
    mirror.move(*view, true);
  for (rapt::WeightsRequest& w : out.weights) mirror.move(w.out, true);
  const rapt::Shape& q = inputs.q.shape;
  const std::int64_t rows = inputs.q.shape[0] == 0 ? 0 : [&] {
    std::int64_t batch = q[0], heads = q[1];
    for (const rapt::ConstView* x : {&inputs.k, &inputs.v[0]}) {
      batch = std::max(batch, x->shape[0]);
      if (q[1] == 1) heads = std::max(heads, x->shape[1]);
    }
    return batch * heads * q[2];
  }();
  const auto indices = [&](std::int64_t*& data, std::int64_t each) {
    data = static_cast<std::int64_t*>(mirror.copy(data, static_cast<std::size_t>(rows * each) * sizeof(std::int64_t), true));
  };
  indices(out.statistics.argmax, 1);
  indices(out.statistics.top_indices, out.statistics.top_k);
  rapt::attend(in, out, own);
  mirror.download();
}

void attend_backward(const rapt::Inputs& inputs, const std::vector<rapt::ConstView>& out,
                     const std::vector<rapt::ConstView>& grad_out, const rapt::Saved* saved,
                     const rapt::Gradients& gradients, const rapt::AttendOptions& options,
                     const rapt::ConstView& grad_lse) {
  if (on_cpu()) return rapt::attend_backward(inputs, out, grad_out, saved, gradients, options, grad_lse);
  Mirror mirror(test_device());
  rapt::Inputs in = inputs;
  rapt::AttendOptions own = options;
  rapt::Gradients to = gradients;
  std::vector<rapt::ConstView> own_out = out, own_grad = grad_out;
  rapt::ConstView own_lse = grad_lse;
  move_inputs(mirror, in, own);
  for (rapt::ConstView& view : own_out) mirror.move(view, false);
  for (rapt::ConstView& view : own_grad) mirror.move(view, false);
  mirror.move(own_lse, false);
  for (rapt::View* view : {&to.q, &to.k, &to.bias}) mirror.move(*view, true);
  for (rapt::View& view : to.v) mirror.move(view, true);
  for (rapt::NamedGradient& p : to.parameters) mirror.move(p.value, true);
  rapt::attend_backward(in, own_out, own_grad, saved, to, own, own_lse);
  mirror.download();
}

}  // namespace support
