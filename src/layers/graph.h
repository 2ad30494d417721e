#pragma once

#include "layers/parameters.h"
#include "tensor/ops.h"

namespace rapt::inline v1::layers {

template <class T>
class AttentionObserver;

// One computation of a model: a tape, the parameters' values, and the arrays that their gradients are added to.
template <class T>
class Graph {
 public:
  // `gradients` null: none are computed.
  Graph(Tape<T>& on, const Parameters& parameters, const T* values, T* gradients)
      : tape(on), parameters_(&parameters), values_(values), gradients_(gradients) {}

  // Turns dropout on; the key identifies one step and one part of a batch.
  void train(std::uint64_t dropout_key) {
    training_ = true;
    dropout_key_ = dropout_key;
  }

  // From now on attention layers report their calls to the observer.
  void observe(AttentionObserver<T>& observer) { observer_ = &observer; }
  AttentionObserver<T>* observer() const { return observer_; }

  Tensor<T> get(ParameterId id) const;
  bool drops(double rate) const { return training_ && rate != 0; }
  Tensor<T> dropout(const Tensor<T>& x, double rate);

  Tape<T>& tape;

 private:
  const Parameters* parameters_;
  const T* values_;
  T* gradients_;
  AttentionObserver<T>* observer_ = nullptr;
  bool training_ = false;
  std::uint64_t dropout_key_ = 0;
};

}  // namespace rapt::inline v1::layers
