#include "tensor/attention.h"

#include <utility>

#include "rapt/error.h"
#include "tensor/simd/table.h"

namespace rapt::inline v1 {
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
  if (call.bias) options.bias = call.bias.view();
  options.mask = call.mask;
  if (call.first_query != 0) options.first_query = {call.first_query};
  options.normalizer = call.normalizer;
  for (const NamedTensor<T>& p : call.normalizer_parameters)
    options.normalizer_parameters.push_back({p.name, p.value.view()});
  options.threads = 1;
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
Inputs inputs_of(const AttentionCall<T>& call) {
  Inputs inputs{call.q.view(), call.k.view(), {}};
  for (const Tensor<T>& v : call.values) inputs.v.push_back(v.view());
  return inputs;
}

template <class T>
struct Step {
  Tape<T>* tape;
  AttentionCall<T> call;
  AttendOptions options;
  std::vector<Tensor<T>> out;  // [batch, heads, queries, value_dim]
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
    for (const Tensor<T>& v : call.values) gradients.v.push_back(place(v));
    if (call.bias) gradients.bias = place(call.bias);
    for (const auto* list : {&call.parameters, &call.normalizer_parameters})
      for (const NamedTensor<T>& p : *list)
        if (p.value.grad) gradients.parameters.push_back({p.name, place(p.value)});
    std::vector<ConstView> outs;
    std::vector<ConstView> grads;
    for (const Tensor<T>& o : out) {
      outs.push_back(o.view());
      grads.push_back(o.view());
      grads.back().data = o.grad;
    }
    attend_backward(inputs_of(call), outs, grads, &saved, gradients, options);
    for (const auto& [data, tensor] : pieces) add_gradient(data, *tensor);
  }
};

}  // namespace

template <class T>
std::vector<Tensor<T>> shared_attention(Tape<T>& tape, const AttentionCall<T>& call) {
  if (call.values.empty()) throw Error("attention: expected at least one value set, got none");
  const std::int64_t batch = call.q.size(0);
  const std::int64_t heads = call.q.size(1);
  const std::int64_t queries = call.q.size(2);
  Step<T> step{&tape, call, options_of(call), {}, {}};
  Outputs outputs;
  std::vector<Tensor<T>> results;
  for (const Tensor<T>& v : call.values) {
    const bool apart = call.layout == HeadLayout::apart;
    const Tensor<T>& result = results.emplace_back(apart ? tape.make({batch, heads, queries, v.size(3)})
                                                         : tape.make({queries, batch, heads * v.size(3)}));
    const Tensor<T>& split = step.out.emplace_back(apart ? result : result.split_heads(heads));
    const ConstView out = split.view();
    outputs.out.push_back({split.data, out.dtype, out.shape, out.strides});
  }
  outputs.weights = requests(call);
  if (tape.recording()) outputs.saved = &step.saved;
  attend(inputs_of(call), outputs, step.options);
  tape.record(std::move(step));
  return results;
}

template <class T>
Tensor<T> attention(Tape<T>& tape, const AttentionCall<T>& call) {
  if (call.values.size() != 1)
    throw Error("attention: expected one value set, got " + std::to_string(call.values.size()));
  return shared_attention(tape, call)[0];
}

template std::vector<Tensor<float>> shared_attention(Tape<float>&, const AttentionCall<float>&);
template std::vector<Tensor<double>> shared_attention(Tape<double>&, const AttentionCall<double>&);
template Tensor<float> attention(Tape<float>&, const AttentionCall<float>&);
template Tensor<double> attention(Tape<double>&, const AttentionCall<double>&);

}  // namespace rapt::inline v1
