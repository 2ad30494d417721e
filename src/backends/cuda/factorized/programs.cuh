#pragma once

#include <algorithm>

#include "backends/cuda/general/forward.cuh"

// What the passes over a grid need of a mechanism whose score is a quadratic form.
namespace rapt::inline v1::cuda::factorized {

template <class M>
__global__ void form_kernel(const __grid_constant__ Call call, double scale, HeadForm* forms) {
  constexpr int kSlots = detail::slot_count<M>();
  using N = Dual<Number<double>, kSlots + 1>;
  const int h = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (h >= call.heads) return;
  detail::SlotsOf<M, N> p{};
  for (int s = 0; s < kSlots; ++s)
    p.values[s] = N::variable(Number<double>(static_cast<double>(call.values[h * kSlots + s])), s);
  const QuadraticForm<N> f = M{}.template form<N>(p);
  const N terms[HeadForm::kTerms] = {f.constant, f.row, f.col, f.row_row, f.col_col, f.row_col};
  HeadForm form{};
  for (int t = 0; t < HeadForm::kTerms; ++t) {
    form.coefficient[t] = terms[t].value.value * scale;
    for (int s = 0; s < kSlots; ++s) form.slope[t][s] = terms[t].d[s].value * scale;
  }
  forms[h] = form;
}

template <class M>
void launch_form(const Call& call, double scale, HeadForm* forms, cudaStream_t stream) {
  form_kernel<M><<<static_cast<unsigned>((call.heads + 63) / 64), 64, 0, stream>>>(call, scale, forms);
}

// The general forward pass where *gate is not 0, by a few blocks that take all tiles in turn.
template <class M>
__global__ __launch_bounds__(kThreads, 1) void forward_again_kernel(const __grid_constant__ Call call,
                                                                    const __grid_constant__ ForwardOutputs outputs,
                                                                    const int* gate, Blocks blocks) {
  extern __shared__ float4 memory[];
  if (*gate == 0) return;
#pragma unroll 1
  for (int n = static_cast<int>(blockIdx.x); n < blocks.count(); n += static_cast<int>(gridDim.x)) {
    const Block block = blocks.at(n);
    ForwardBlock<M>(call, outputs, *reinterpret_cast<Shared*>(memory), block.x / call.heads, block.x % call.heads,
                    block.y * kTile, block.z)
        .run();
    __syncthreads();
  }
}

template <class M>
void launch_forward_again(const Call& call, const ForwardOutputs& outputs, const int* gate, cudaStream_t stream) {
  const auto kernel = forward_again_kernel<M>;
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(sizeof(Shared)));
  const Blocks blocks{call.batch * call.heads, tile_count(call.queries), ::max(1, column_passes(call))};
  kernel<<<static_cast<unsigned>(std::min(blocks.count(), 256)), kThreads, sizeof(Shared), stream>>>(call, outputs,
                                                                                                     gate, blocks);
}

template <class M>
inline constexpr FactorizedPrograms kPrograms{&launch_form<M>, &launch_forward_again<M>};

}  // namespace rapt::inline v1::cuda::factorized
