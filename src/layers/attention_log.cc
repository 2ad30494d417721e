#include "layers/attention_log.h"

#include <algorithm>

#include "rapt/error.h"

namespace rapt::inline v1::layers {
namespace {

template <class T>
struct Storage {
  std::vector<T> q, k, bias;
  std::vector<std::vector<T>> parameters;
  std::vector<std::uint8_t> mask;
};

template <class T>
void append(std::vector<T>& to, const T* data, const Shape& shape, const Shape& strides) {
  for (std::int64_t a = 0; a < shape[0]; ++a)
    for (std::int64_t b = 0; b < shape[1]; ++b)
      for (std::int64_t c = 0; c < shape[2]; ++c)
        for (std::int64_t d = 0; d < shape[3]; ++d)
          to.push_back(data[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]]);
}

template <class T>
ConstView copied(std::vector<T>& to, const ConstView& from) {
  append(to, static_cast<const T*>(from.data), from.shape, from.strides);
  return {to.data(), from.dtype, from.shape, contiguous_strides(from.shape)};
}

// Appends the rows of `later` to those of `earlier`, head by head.
template <class T>
ConstView joined(std::vector<T>& to, const ConstView& earlier, const ConstView& later) {
  Shape shape = earlier.shape;
  for (std::int64_t a = 0; a < shape[0]; ++a)
    for (std::int64_t b = 0; b < shape[1]; ++b)
      for (const ConstView* view : {&earlier, &later})
        append(to, static_cast<const T*>(view->data) + a * view->strides[0] + b * view->strides[1],
               {1, 1, view->shape[2], shape[3]}, view->strides);
  shape[2] += later.shape[2];
  return {to.data(), earlier.dtype, shape, contiguous_strides(shape)};
}

template <class T>
AttentionRecord record_of(const Attended<T>& use, const AttentionRecord* before) {
  const AttentionCall<T>& call = use.call;
  const auto storage = std::make_shared<Storage<T>>();
  AttentionRecord record;
  record.name = use.name;
  record.q = before ? joined(storage->q, before->q, call.q.view()) : copied(storage->q, call.q.view());
  record.k = copied(storage->k, call.k.view());
  AttendOptions& options = record.options;
  options.score.mechanism = call.mechanism;
  storage->parameters.reserve(call.parameters.size() + call.normalizer_parameters.size());
  const auto keep = [&](const NamedTensor<T>& p) {
    return NamedView{p.name, copied(storage->parameters.emplace_back(), p.value.view())};
  };
  for (const NamedTensor<T>& p : call.parameters) options.score.parameters.push_back(keep(p));
  for (const NamedTensor<T>& p : call.normalizer_parameters) options.normalizer_parameters.push_back(keep(p));
  options.score.settings = call.settings;
  options.score.grid = call.grid;
  if (call.bias) options.bias = copied(storage->bias, call.bias.view());
  options.mask = call.mask;
  // The steps stand one after the other, from the first one's position.
  if (before) options.first_query = before->options.first_query;
  else if (call.first_query != 0) options.first_query = {call.first_query};
  if (const BoolView& dense = call.mask.dense) {
    append(storage->mask, dense.data, dense.shape, dense.strides);
    options.mask.dense = {storage->mask.data(), dense.shape, contiguous_strides(dense.shape)};
  }
  options.normalizer = call.normalizer;
  record.storage = storage;
  return record;
}

}  // namespace

void AttentionRecord::weights(std::int64_t batch, std::int64_t head, std::int64_t begin, std::int64_t end,
                              float* out) const {
  if (begin < 0 || end > rows() || begin >= end)
    throw Error(name + ": expected rows within 0 to " + std::to_string(rows()) + ", got " + std::to_string(begin) +
                " to " + std::to_string(end));
  // Weights do not depend on the values: one number, repeated.
  const float value = 0;
  const double wide = 0;
  const bool is_double = q.dtype == Dtype::f64;
  const ConstView v{is_double ? static_cast<const void*>(&wide) : &value,
                    q.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32,
                    {1, 1, keys(), 1},
                    {0, 0, 0, 1}};
  Outputs outputs;
  outputs.weights.push_back({batch, head, begin, end, view(out, {end - begin, keys()})});
  attend({q, k, {v}}, outputs, options);
}

template <class T>
void AttentionLog<T>::attended(const Attended<T>& use) {
  const auto before = std::find_if(records_.begin(), records_.end(),
                                   [&](const AttentionRecord& record) { return record.name == use.name; });
  if (before == records_.end()) records_.push_back(record_of(use, nullptr));
  else *before = record_of(use, &*before);
}

template class AttentionLog<float>;
template class AttentionLog<double>;

}  // namespace rapt::inline v1::layers
