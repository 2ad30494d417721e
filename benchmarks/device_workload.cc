#include "benchmarks/device_workload.h"

#include "rapt/error.h"

namespace rapt::bench {

DeviceWorkload::DeviceWorkload(const Spec& spec, const Device& device, int threads)
    : device_(device), host_(spec, threads) {
  if (spec.extra == Extra::statistics) throw Error("bench: --device: expected a row without statistics, got one with");
  const auto upload = [&](const Array& array) {
    if (array) memory_of(array).upload(array.data(), array.bytes());
  };
  upload(host_.q);
  upload(host_.k);
  upload(host_.bias);
  for (const Array& array : host_.v) upload(array);
  for (const Workload::Parameter& p : host_.parameters) upload(p.value);
  inputs_ = host_.inputs();
  outputs_ = host_.outputs();
  options_ = host_.options(spec.path);
  move(inputs_.q);
  move(inputs_.k);
  for (ConstView& view : inputs_.v) move(view);
  move(options_.bias);
  for (NamedView& p : options_.score.parameters) move(p.value);
  for (std::size_t n = 0; n < outputs_.out.size(); ++n) {
    memory_of(host_.out[n]);
    move(outputs_.out[n]);
    out_.emplace_back(outputs_.out[n]);
  }
  for (WeightsRequest& request : outputs_.weights) {
    memory_of(host_.weights);
    move(request.out);
  }
}

DeviceMemory& DeviceWorkload::memory_of(const Array& array) {
  return memories_.try_emplace(array.data(), device_, array.bytes()).first->second;
}

template <class V>
void DeviceWorkload::move(V& view) {
  view.device = device_;
  if (view) view.data = memories_.at(view.data).data();
}

void DeviceWorkload::prepare(Direction direction) {
  if (direction == Direction::forward || !grad_out_.empty()) return;
  host_.make_gradients();
  for (const Array& array : host_.grad_out) {
    memory_of(array).upload(array.data(), array.bytes());
    grad_out_.push_back(array.view());
    move(grad_out_.back());
  }
  for (const Workload::Named& result : host_.results(Direction::backward)) memory_of(*result.array);
  gradients_ = host_.gradients();
  for (View* view : {&gradients_.q, &gradients_.k, &gradients_.bias}) move(*view);
  for (View& view : gradients_.v) move(view);
  for (NamedGradient& p : gradients_.parameters) move(p.value);
  Outputs kept = outputs_;
  kept.saved = &saved_;
  attend(inputs_, kept, options_);
}

void DeviceWorkload::run(Direction direction) {
  if (direction == Direction::forward) attend(inputs_, outputs_, options_);
  else attend_backward(inputs_, out_, grad_out_, &saved_, gradients_, options_);
}

void DeviceWorkload::download(Direction direction) {
  synchronize(device_);
  const auto copy = [&](const Array& array) {
    // The arrays belong to this object; results() only lists them.
    memories_.at(array.data()).download(const_cast<std::byte*>(array.data()), array.bytes());
  };
  for (const Workload::Named& result : host_.results(direction)) copy(*result.array);
  if (direction == Direction::backward)
    for (const Array& array : host_.out) copy(array);
}

}  // namespace rapt::bench
