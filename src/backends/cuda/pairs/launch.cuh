#pragma once

#include <algorithm>

#include "backends/cuda/general/launch.cuh"
#include "backends/cuda/pairs/forward.cuh"
#include "backends/cuda/pairs/gradients.cuh"
#include "backends/cuda/pairs/rows.cuh"

// Launches the kernels of element-wise scores.
namespace rapt::inline v1::cuda::pairs {

inline bool is_low(const Call& call, const Array& array) { return array.dtype == call.storage && is_aligned(array); }

// Runs f with the type that weights are rounded to: where everything given and wanted has 16 bits, else float.
template <class F>
void with_storage(const Call& call, bool low, const F& f) {
  if (low && call.storage == Dtype::bf16) f.template operator()<Bf16>();
  else if (low && call.storage == Dtype::f16) f.template operator()<F16>();
  else f.template operator()<float>();
}

template <class S, class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, cudaStream_t stream, const A&... arguments) {
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(sizeof(S)));
  kernel<<<grid, kThreads, sizeof(S), stream>>>(arguments...);
}

template <class M>
void launch_forward(const Call& call, const ForwardOutputs& outputs, cudaStream_t stream) {
  bool any = false, low = true;
  for (int n = 0; n < call.sets; ++n) {
    if (!outputs.out[n].data) continue;
    any = true;
    low = low && is_low(call, outputs.out[n]);
  }
  const dim3 grid = query_grid(call, any ? ::max(1, column_passes(call)) : 1);
  with_storage(call, low, [&]<class T>() { launch<ForwardShared>(forward_kernel<M, T>, grid, stream, call, outputs); });
}

inline bool gradients_are_low(const Call& call, const BackwardArguments& arrays, bool low) {
  for (int n = 0; n < call.sets; ++n) low = low && is_low(call, arrays.grad_out[n]);
  return low;
}

// δ of every row → arrays.mean.
template <class M>
void launch_means(const Call& call, const BackwardArguments& arrays, bool low, cudaStream_t stream) {
  const GradientArguments arguments{.call = call, .arrays = arrays};
  with_storage(call, gradients_are_low(call, arrays, low),
               [&]<class T>() { launch<Shared>(means_kernel<M, T>, query_grid(call, 1), stream, arguments); });
}

template <class M>
void launch_gradients(const Call& call, const BackwardArguments& arrays, int groups, bool low, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(call.batch * call.heads * groups));
  with_storage(call, gradients_are_low(call, arrays, low), [&]<class T>() {
    for (int step = 0; step < groups; ++step)
      launch<GradientShared>(gradients_kernel<M, T>, grid, stream,
                             GradientArguments{.call = call, .arrays = arrays, .groups = groups, .step = step});
  });
}

template <class M>
inline constexpr PairPrograms kPrograms{has_fast<M>(),      &prepare_tiles<M>, &prepare_weights<M>,
                                        &launch_forward<M>, &launch_means<M>,  &launch_gradients<M>};

}  // namespace rapt::inline v1::cuda::pairs
