#pragma once

#include <string_view>

#include "tensor/attention.h"

namespace rapt::inline v1::layers {

// One use of an attention layer, while it happens: the call's tensors are good until attended() returns.
template <class T>
struct Attended {
  std::string_view name;         // of the layer: "encoder.0.self"
  const AttentionCall<T>& call;  // q and k as they are scored, [batch, heads, steps, dim]
};

// Told of every attention of a graph that carries it.
template <class T>
class AttentionObserver {
 public:
  virtual ~AttentionObserver() = default;
  virtual void attended(const Attended<T>& use) = 0;
};

}  // namespace rapt::inline v1::layers
