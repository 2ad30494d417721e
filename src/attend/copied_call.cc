#include "attend/copied_call.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>

#include "attend/backend.h"
#include "rapt/device.h"

namespace rapt::inline v1 {
namespace {

// Copies of a call's arrays in device memory, each as far from a multiple of 16 bytes as the original.
class Mirror {
 public:
  explicit Mirror(const Device& device) : device_(device) {}

  void* copy(void* data, std::size_t bytes, bool written) {
    if (data == nullptr || bytes == 0) return data;
    const std::size_t off = reinterpret_cast<std::uintptr_t>(data) % 16;
    std::vector<std::byte> all(off + bytes);
    const auto* from = static_cast<const std::byte*>(data);
    std::copy(from, from + bytes, all.begin() + static_cast<std::ptrdiff_t>(off));
    pieces_.push_back({data, bytes, off, written, DeviceMemory(device_, off + bytes)});
    pieces_.back().memory.upload(all.data(), all.size());
    return static_cast<std::byte*>(pieces_.back().memory.data()) + off;
  }

  // The memory from the first element to the last, gaps included.
  template <class V>
  void move(V& view, bool written) {
    view.device = device_;
    if (!view) return;
    std::int64_t count = 1;
    for (std::size_t n = 0; n < 4; ++n) count += (view.shape[n] - 1) * view.strides[n];
    for (const std::int64_t size : view.shape) count = size == 0 ? 0 : count;
    std::size_t element = 1;
    if constexpr (requires { view.dtype; }) element = size_of(view.dtype);
    using Data = decltype(view.data);
    view.data = static_cast<Data>(copy(const_cast<void*>(static_cast<const void*>(view.data)),
                                       static_cast<std::size_t>(count) * element, written));
  }

  void move_inputs(Inputs& inputs, AttendOptions& options) {
    for_each_input(inputs, options, [&](auto& view) { move(view, false); });
  }

  template <class F>
  static void for_each_input(Inputs& inputs, AttendOptions& options, const F& f) {
    f(inputs.q);
    f(inputs.k);
    for (ConstView& v : inputs.v) f(v);
    f(options.bias);
    f(options.mask.dense);
    for (NamedView& p : options.score.parameters) f(p.value);
    for (NamedView& p : options.normalizer_parameters) f(p.value);
  }

  void download() {
    synchronize(device_);
    for (const Piece& p : pieces_) {
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
    DeviceMemory memory;
  };
  Device device_;
  std::list<Piece> pieces_;
};

// Refuses what the device cannot take before anything is copied.
Problem check_call(const char* operation, const Device& device, Inputs inputs, AttendOptions options) {
  Mirror::for_each_input(inputs, options, [&](auto& view) { view.device = device; });
  Problem problem = make_problem(operation, inputs, options);
  choose_backend(operation, problem, {});
  return problem;
}

// `call` gets the arrays where they are on the device.
template <class F>
void run_copied(const Device& device, const Inputs& inputs, const Outputs& outputs, const AttendOptions& options,
                std::int64_t rows, const F& call) {
  Mirror mirror(device);
  Inputs in = inputs;
  Outputs out = outputs;
  AttendOptions own = options;
  mirror.move_inputs(in, own);
  for (View& view : out.out) mirror.move(view, true);
  Statistics& s = out.statistics;
  for (View* view : {&out.lse, &out.row_max, &out.row_sum, &s.entropy, &s.position, &s.covariance, &s.top_weights})
    mirror.move(*view, true);
  for (WeightsRequest& w : out.weights) mirror.move(w.out, true);
  const auto indices = [&](std::int64_t*& data, std::int64_t each) {
    const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(rows * each, 0)) * sizeof(std::int64_t);
    data = static_cast<std::int64_t*>(mirror.copy(data, bytes, true));
  };
  indices(s.argmax, 1);
  indices(s.top_indices, s.top_k);
  call(in, out, own);
  mirror.download();
}

template <class F>
void run_backward_copied(const Device& device, const Inputs& inputs, const std::vector<ConstView>& out,
                         const std::vector<ConstView>& grad_out, const Gradients& gradients,
                         const AttendOptions& options, const ConstView& grad_lse, const F& call) {
  Mirror mirror(device);
  Inputs in = inputs;
  AttendOptions own = options;
  Gradients to = gradients;
  std::vector<ConstView> own_out = out, own_grad = grad_out;
  ConstView own_lse = grad_lse;
  mirror.move_inputs(in, own);
  for (ConstView& view : own_out) mirror.move(view, false);
  for (ConstView& view : own_grad) mirror.move(view, false);
  mirror.move(own_lse, false);
  for (View* view : {&to.q, &to.k, &to.bias}) mirror.move(*view, true);
  for (View& view : to.v) mirror.move(view, true);
  for (NamedGradient& p : to.parameters) mirror.move(p.value, true);
  call(in, own_out, own_grad, to, own, own_lse);
  mirror.download();
}

}  // namespace

void attend_copied(const Device& device, const Inputs& inputs, const Outputs& outputs, const AttendOptions& options) {
  if (device.kind == Device::Kind::cpu) return attend(inputs, outputs, options);
  const std::int64_t rows = check_call("attend", device, inputs, options).row_count();
  run_copied(device, inputs, outputs, options, rows,
             [](const Inputs& in, const Outputs& out, const AttendOptions& own) { attend(in, out, own); });
}

void attend_copied(const Device& device, const Inputs& inputs, const Outputs& outputs, const AttendOptions& options,
                   Communicator& processes, const DistributedOptions& how) {
  if (device.kind == Device::Kind::cpu) return attend(inputs, outputs, options, processes, how);
  run_copied(device, inputs, outputs, options, 0, [&](const Inputs& in, const Outputs& out, const AttendOptions& own) {
    attend(in, out, own, processes, how);
  });
}

void attend_backward_copied(const Device& device, const Inputs& inputs, const std::vector<ConstView>& out,
                            const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                            const AttendOptions& options, const ConstView& grad_lse) {
  if (device.kind == Device::Kind::cpu)
    return attend_backward(inputs, out, grad_out, saved, gradients, options, grad_lse);
  check_call("attend_backward", device, inputs, options);
  run_backward_copied(
      device, inputs, out, grad_out, gradients, options, grad_lse,
      [&](const Inputs& in, const auto& own_out, const auto& own_grad, const Gradients& to, const AttendOptions& own,
          const ConstView& own_lse) { attend_backward(in, own_out, own_grad, saved, to, own, own_lse); });
}

void attend_backward_copied(const Device& device, const Inputs& inputs, const std::vector<ConstView>& out,
                            const std::vector<ConstView>& grad_out, const Saved* saved, const Gradients& gradients,
                            const AttendOptions& options, Communicator& processes, const DistributedOptions& how) {
  if (device.kind == Device::Kind::cpu)
    return attend_backward(inputs, out, grad_out, saved, gradients, options, processes, how);
  run_backward_copied(
      device, inputs, out, grad_out, gradients, options, {},
      [&](const Inputs& in, const auto& own_out, const auto& own_grad, const Gradients& to, const AttendOptions& own,
          const ConstView&) { attend_backward(in, own_out, own_grad, saved, to, own, processes, how); });
}

}  // namespace rapt::inline v1
