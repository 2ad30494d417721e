#pragma once

#include <vector>

#include "backends/cpu/gradient_sink.h"
#include "backends/cpu/head_waves.h"
#include "backends/cpu/parameter_sink.h"

namespace rapt::inline v1 {

// Gradients through the maps of queries and keys that are applied before scoring: matrices, shifts, and unit length.
// The tiles leave the gradients of the mapped rows here; run() takes them back to q, k and the maps' parameters.
template <class T>
class MapGradients {
 public:
  MapGradients(const Problem& problem, const Kernels<T>& kernels, const HeadWaves<T>& heads,
               const std::vector<Head<T>>& wave, bool want_dq, bool want_dk, std::vector<ParameterSink<T>>& parameters);

  bool wants_k() const { return dk_bytes_ > 0; }
  T* mapped_dk(std::size_t head) const {
    return wants_k() ? dk_.template as<T>() + head * dk_bytes_ / sizeof(T) : nullptr;
  }

  // Where the tiles add the gradients of this head's queries.
  void targets(std::size_t n, const Head<T>& head, const Sink<T>& dq, BackwardTask<T>& task) const;

  // `apart`: no two heads of the wave share rows of q or k.
  void run(Sink<T>& dq, Sink<T>& dk, bool apart);

 private:
  struct Parts;
  void run_head(std::size_t n, Sink<T>& dq, Sink<T>& dk, Parts& parts) const;
  void back_through(const Head<T>& head, bool keys, const T* grads, Sink<T>& target, std::vector<T>& dw,
                    std::vector<T>& shift) const;
  ParameterSink<T>* sink(Role role) const;

  const Problem& p_;
  const Kernels<T>& kernels_;
  const HeadWaves<T>& heads_;
  const std::vector<Head<T>>& wave_;
  std::vector<ParameterSink<T>>& parameters_;
  std::size_t dq_bytes_ = 0, dr_bytes_ = 0, dk_bytes_ = 0;  // of one head; 0: not mapped, or not wanted
  bool want_dq_ = false;
  Buffer dq_, dr_, dk_;
};

}  // namespace rapt::inline v1
