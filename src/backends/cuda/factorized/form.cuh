#pragma once

#include "backends/cuda/general/forward.cuh"

// What the passes over a grid compute of a mechanism whose score is a quadratic form.
namespace rapt::inline v1::cuda::factorized {

// T: what the form is computed in.
template <class M, class T>
__global__ void form_kernel(const __grid_constant__ Call call, double scale, HeadForm* forms) {
  constexpr int kSlots = detail::slot_count<M>();
  using N = Dual<Number<T>, kSlots + 1>;
  const int h = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (h >= call.heads) return;
  detail::SlotsOf<M, N> p{};
  for (int s = 0; s < kSlots; ++s) p.values[s] = N::variable(Number<T>(static_cast<T>(call.values[h * kSlots + s])), s);
  const QuadraticForm<N> f = M{}.template form<N>(p);
  const N terms[HeadForm::kTerms] = {f.constant, f.row, f.col, f.row_row, f.col_col, f.row_col};
  HeadForm form{};
  for (int t = 0; t < HeadForm::kTerms; ++t) {
    form.coefficient[t] = static_cast<double>(terms[t].value.value) * scale;
    for (int s = 0; s < kSlots; ++s) form.slope[t][s] = static_cast<double>(terms[t].d[s].value) * scale;
  }
  forms[h] = form;
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

}  // namespace rapt::inline v1::cuda::factorized
