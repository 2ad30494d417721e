#pragma once

#include "backends/cuda/hopper/backward_bias.cuh"
#include "backends/cuda/hopper/backward_keys.cuh"
#include "backends/cuda/hopper/backward_queries.cuh"

// The kernel of the backward pass on the tensor cores in parts: blocks of one side, keys or queries.
namespace rapt::inline v1::cuda::hopper {

template <class Side, class Plan>
__global__ __launch_bounds__(Plan::kThreads, 1) void gradients(const __grid_constant__ CUtensorMap q_map,
                                                               const __grid_constant__ CUtensorMap k_map,
                                                               const __grid_constant__ CUtensorMap v_map,
                                                               const __grid_constant__ CUtensorMap dout_map,
                                                               const __grid_constant__ Call call,
                                                               const __grid_constant__ FastGradients f) {
  extern __shared__ std::uint8_t bytes[];
  auto& shared = *reinterpret_cast<typename Side::Shared*>(bytes + (1024 - shared_address(bytes) % 1024) % 1024);
  const auto w = Side::work(call, f, static_cast<int>(blockIdx.x));
  Side::init(shared, call, w);
  __syncthreads();
  const int warp = uniform(threadIdx.x / 32);
  if (warp < 4) {
    give_registers<Plan::kProducerRegisters>();
    if (threadIdx.x == 0) typename Side::Producer{call, f, shared, q_map, k_map, v_map, dout_map}.run(w);
  } else {
    take_registers<Plan::kConsumerRegisters>();
    typename Side::Consumer{call, f, shared, warp / 4 - 1, warp % 4, static_cast<int>(threadIdx.x % 32)}.run(
        shared.work);
  }
}

}  // namespace rapt::inline v1::cuda::hopper
