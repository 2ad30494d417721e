#pragma once

#include <string_view>

#include "tensor/attention.h"

namespace rapt::inline v1::layers {

// One call of an attention layer; its tensors are valid until attended() returns.
template <class T>
struct Attended {
  std::string_view name;         // of the layer: "encoder.0.self"
  const AttentionCall<T>& call;  // q and k as they are scored, [batch, heads, steps, dim]
};

// Called for every attention of the graph that carries it.
template <class T>
class AttentionObserver {
 public:
  virtual ~AttentionObserver() = default;
  virtual void attended(const Attended<T>& use) = 0;
};

}  // namespace rapt::inline v1::layers
