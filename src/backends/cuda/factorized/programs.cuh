#pragma once

#include <algorithm>

#include "backends/cuda/factorized/form.cuh"
#include "backends/cuda/runtime/kernels.h"

// Launches the kernels of form.cuh.
namespace rapt::inline v1::cuda::factorized {

inline LaunchSize form_size(const Call& call) { return {dim3(static_cast<unsigned>((call.heads + 63) / 64)), 64, 0}; }

template <class M>
void launch_form(const Call& call, double scale, HeadForm* forms, cudaStream_t stream) {
  const LaunchSize size = form_size(call);
  form_kernel<M, double><<<size.grid, static_cast<unsigned>(size.threads), 0, stream>>>(call, scale, forms);
}

inline Blocks forward_blocks(const Call& call) {
  return {call.batch * call.heads, tile_count(call.queries), ::max(1, column_passes(call))};
}
// A few blocks that take all tiles in turn.
inline LaunchSize forward_again_size(const Call& call) {
  return {dim3(static_cast<unsigned>(std::min(forward_blocks(call).count(), 256))), kThreads,
          static_cast<int>(sizeof(Shared))};
}

template <class M>
void launch_forward_again(const Call& call, const ForwardOutputs& outputs, const int* gate, cudaStream_t stream) {
  const auto kernel = forward_again_kernel<M>;
  const LaunchSize size = forward_again_size(call);
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                       size.shared_bytes);
  kernel<<<size.grid, kThreads, sizeof(Shared), stream>>>(call, outputs, gate, forward_blocks(call));
}

template <class M>
inline constexpr FactorizedPrograms kPrograms{&launch_form<M>, &launch_forward_again<M>};

// Of a formula: its numbers are f32, and so is its form.
inline void launch_formula_form(const Call& call, double scale, HeadForm* forms, cudaStream_t stream) {
  start(*call.kernels, "factorized::form_kernel<@, float>", form_size(call), stream, call, scale, forms);
}
inline void launch_formula_again(const Call& call, const ForwardOutputs& outputs, const int* gate,
                                 cudaStream_t stream) {
  const Blocks blocks = forward_blocks(call);
  start(*call.kernels, "factorized::forward_again_kernel<@>", forward_again_size(call), stream, call, outputs, gate,
        blocks);
}
inline constexpr FactorizedPrograms kFormulaPrograms{&launch_formula_form, &launch_formula_again};

}  // namespace rapt::inline v1::cuda::factorized
