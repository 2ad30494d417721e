#include "layers/graph.h"

#include "tensor/random.h"

namespace rapt::inline v1::layers {

template <class T>
Tensor<T> Graph<T>::get(ParameterId id) const {
  const Parameter& p = (*parameters_)[id];
  Tensor<T> t;
  // A tape never writes to the values of parameters.
  t.data = const_cast<T*>(values_) + p.offset;
  t.grad = gradients_ && tape.recording() ? gradients_ + p.offset : nullptr;
  t.rank = static_cast<int>(p.shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = p.shape.size(); d-- > 0;) {
    t.shape[d] = p.shape[d];
    t.strides[d] = stride;
    stride *= p.shape[d];
  }
  return t;
}

template <class T>
Tensor<T> Graph<T>::dropout(const Tensor<T>& x, double rate) {
  if (!drops(rate)) return x;
  dropout_key_ = Random(dropout_key_).next_u64();
  return rapt::dropout(tape, x, static_cast<T>(rate), dropout_key_);
}

template class Graph<float>;
template class Graph<double>;

}  // namespace rapt::inline v1::layers
