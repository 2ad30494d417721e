#include "tensor/attention.h"

#include <utility>

#include "tensor/cpu/table.h"

namespace rapt {
namespace {

template <class T>
View contiguous_view(T* data, const Tensor<T>& like) {
  const Shape shape = like.view().shape;
  return {data, dtype_of<T>(), shape, contiguous_strides(shape)};
}

template <class T>
AttendOptions options_of(const AttentionCall<T>& call) {
  AttendOptions options;
  options.score.mechanism = call.mechanism;
  for (const NamedTensor<T>& p : call.parameters) options.score.parameters.push_back({p.name, p.value.view()});
  options.score.settings = call.settings;
  options.score.grid = call.grid;
  options.mask = call.mask;
  options.normalizer = call.normalizer;
  options.threads = 1;
  options.divide_keys = false;
  return options;
}

template <class T>
std::vector<WeightsRequest> requests(const AttentionCall<T>& call) {
  std::vector<WeightsRequest> list;
  if (!call.weights) return list;
  const std::int64_t batch = call.q.size(0);
  const std::int64_t heads = call.q.size(1);
  const std::int64_t queries = call.q.size(2);
  const std::int64_t keys = call.k.size(2);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      list.push_back({b, h, 0, queries, view(call.weights + (b * heads + h) * queries * keys, {queries, keys})});
  return list;
}

// Adds a contiguous gradient to that of a tensor of any strides.
template <class T>
void add_gradient(const T* from, const Tensor<T>& to) {
  const ConstView v = to.view();
  const std::int64_t width = v.shape[3];
  for (std::int64_t a = 0; a < v.shape[0]; ++a)
    for (std::int64_t b = 0; b < v.shape[1]; ++b)
      for (std::int64_t c = 0; c < v.shape[2]; ++c, from += width)
        tensor_kernels<T>().add(from, to.grad + a * v.strides[0] + b * v.strides[1] + c * v.strides[2], width);
}

template <class T>
struct Step {
  Tape<T>* tape;
  AttentionCall<T> call;
  AttendOptions options;
  Tensor<T> out;  // [batch, heads, queries, value_dim]
  Saved saved;

  void operator()() const {
    std::vector<std::pair<T*, const Tensor<T>*>> pieces;
    const auto place = [&](const Tensor<T>& tensor) {
      if (!tensor.grad) return View{};
      T* data = tape->scratch(tensor.count());
      pieces.emplace_back(data, &tensor);
      return contiguous_view(data, tensor);
    };
    Gradients gradients;
    gradients.q = place(call.q);
    gradients.k = place(call.k);
    gradients.v = {place(call.v)};
    for (const NamedTensor<T>& p : call.parameters)
      if (p.value.grad) gradients.parameters.push_back({p.name, place(p.value)});
    ConstView grad_out = out.view();
    grad_out.data = out.grad;
    attend_backward({call.q.view(), call.k.view(), {call.v.view()}}, {out.view()}, {grad_out}, &saved, gradients,
                    options);
    for (const auto& [data, tensor] : pieces) add_gradient(data, *tensor);
  }
};

}  // namespace

template <class T>
Tensor<T> attention(Tape<T>& tape, const AttentionCall<T>& call) {
  const std::int64_t batch = call.q.size(0);
  const std::int64_t heads = call.q.size(1);
  const std::int64_t queries = call.q.size(2);
  const Tensor<T> result = tape.make({queries, batch, heads * call.v.size(3)});
  Step<T> step{&tape, call, options_of(call), result.split_heads(heads), {}};
  Outputs outputs;
  const ConstView out = step.out.view();
  outputs.out = {View{step.out.data, out.dtype, out.shape, out.strides}};
  outputs.weights = requests(call);
  if (tape.recording()) outputs.saved = &step.saved;
  attend({call.q.view(), call.k.view(), {call.v.view()}}, outputs, step.options);
  tape.record(std::move(step));
  return result;
}

template Tensor<float> attention(Tape<float>&, const AttentionCall<float>&);
template Tensor<double> attention(Tape<double>&, const AttentionCall<double>&);

}  // namespace rapt
