#pragma once

#include <algorithm>
#include <string>

#include "backends/cuda/general/backward_keys.cuh"
#include "backends/cuda/general/backward_queries.cuh"
#include "backends/cuda/general/backward_tables.cuh"
#include "backends/cuda/runtime/kernels.h"

// Launches the kernels that serve every call. The other files here have no host code: they are compiled at run time,
// too.
namespace rapt::inline v1::cuda {

// Stands for a mechanism whose kernels call.kernels has.
template <class M> concept AtRunTime = requires { M::at_run_time; };

// Launches a kernel with kThreads threads a block and the shared memory of Shared.
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, cudaStream_t stream, const A&... arguments) {
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(sizeof(Shared)));
  kernel<<<grid, kThreads, sizeof(Shared), stream>>>(arguments...);
}

// The same by the kernel's name, as in "forward_kernel<@>"; @ stands for the mechanism.
template <class... A>
void launch_named(const std::string& kernel, dim3 grid, cudaStream_t stream, const Call& call, const A&... arguments) {
  start(*call.kernels, kernel, {grid, kThreads, static_cast<int>(sizeof(Shared))}, stream, call, arguments...);
}

// kernel<M>, wherever it was compiled.
#define RAPT_LAUNCH(kernel, ...)                                          \
  do {                                                                    \
    if constexpr (AtRunTime<M>) launch_named(#kernel "<@>", __VA_ARGS__); \
    else launch(kernel<M>, __VA_ARGS__);                                  \
  } while (false)

inline dim3 query_grid(const Call& call, int passes) {
  return dim3(static_cast<unsigned>(call.batch * call.heads), static_cast<unsigned>(tile_count(call.queries)),
              static_cast<unsigned>(passes));
}

template <class M>
void launch_forward(const Call& call, const ForwardOutputs& outputs, cudaStream_t stream) {
  bool any = false;
  for (int n = 0; n < call.sets; ++n) any = any || outputs.out[n].data != nullptr;
  RAPT_LAUNCH(forward_kernel, query_grid(call, any ? ::max(1, column_passes(call)) : 1), stream, call, outputs);
}

template <class M>
void launch_weights(const Call& call, const RowStatistics& rows, const RequestedWeights& wanted, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(tile_count(wanted.count)), static_cast<unsigned>(tile_count(call.keys)));
  RAPT_LAUNCH(weights_kernel, grid, stream, call, rows, wanted);
}

template <class M>
void launch_statistics(const Call& call, const RowStatistics& rows, const RequestedStatistics& wanted,
                       cudaStream_t stream) {
  RAPT_LAUNCH(statistics_kernel, query_grid(call, 1), stream, call, rows, wanted);
}

template <template <class> class Work, class M>
void launch_gradients(const char* work, const Call& call, const BackwardArguments& arguments, const Blocks& blocks,
                      cudaStream_t stream) {
  const std::int64_t count = arguments.gate ? std::min<std::int64_t>(blocks.count(), 256) : blocks.count();
  const dim3 grid(static_cast<unsigned>(count));
  if constexpr (AtRunTime<M>)
    launch_named("gradient_kernel<rapt::cuda::" + std::string(work) + ", @>", grid, stream, call, arguments, blocks);
  else launch(gradient_kernel<Work, M>, grid, stream, call, arguments, blocks);
}

template <class M>
void launch_backward_queries(const Call& call, const BackwardArguments& arguments, cudaStream_t stream) {
  const int columns = ::max(call.inner, arguments.dq_relative.data ? arguments.dq_relative.dim : 1);
  const int passes = arguments.mean ? 1 : (columns + kWide - 1) / kWide;
  launch_gradients<QueryGradients, M>("QueryGradients", call, arguments,
                                      {call.batch * call.heads, tile_count(call.queries), ::max(1, passes)}, stream);
}

template <class M>
void launch_backward_keys(const Call& call, const BackwardArguments& arguments, cudaStream_t stream) {
  bool values = false;
  for (int n = 0; n < call.sets; ++n) values = values || arguments.dv[n].data != nullptr;
  const int passes = ::max(arguments.dk.data ? (call.inner + kWide - 1) / kWide : 0, values ? column_passes(call) : 0);
  if (passes > 0)
    launch_gradients<KeyGradients, M>("KeyGradients", call, arguments,
                                      {call.batch * call.heads, tile_count(call.keys), passes}, stream);
}

template <class M>
void launch_backward_bias(const Call& call, const BackwardArguments& arguments, const BiasGradient& bias,
                          cudaStream_t stream) {
  const Blocks blocks{bias.batches * bias.heads, tile_count(call.keys), tile_count(bias.rows)};
  const std::int64_t count = arguments.gate ? std::min<std::int64_t>(blocks.count(), 256) : blocks.count();
  RAPT_LAUNCH(backward_bias_kernel, dim3(static_cast<unsigned>(count)), stream, call, arguments, bias, blocks);
}

template <class M>
void launch_backward_table(const Call& call, const BackwardArguments& arguments, const TableGradient& gradient,
                           cudaStream_t stream) {
  const Table& table = gradient.slot < 0 ? call.output_table : call.tables[gradient.slot];
  const dim3 grid(static_cast<unsigned>(call.batch * call.heads), static_cast<unsigned>(tile_count(table.offsets)),
                  static_cast<unsigned>(gradient.splits * ((table.cols + kWide - 1) / kWide)));
  RAPT_LAUNCH(backward_table_kernel, grid, stream, call, arguments, gradient);
}

// Only formulas have such tables.
template <class M>
void launch_backward_free_table(const Call& call, const BackwardArguments& arguments, const FreeTableGradient& gradient,
                                cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(call.batch * call.heads), static_cast<unsigned>(gradient.splits));
  launch_named("backward_free_table_kernel<@>", grid, stream, call, arguments, gradient);
}

#undef RAPT_LAUNCH

}  // namespace rapt::inline v1::cuda
