#pragma once

#include "backends/cuda/general/launch.cuh"
#include "backends/cuda/hopper/decode.cuh"
#include "backends/cuda/hopper/largest.cuh"
#include "backends/cuda/hopper/tensor_map.h"

// Which calls the kernels for the tensor cores take, and their launches.
namespace rapt::inline v1::cuda::hopper {

// Whether a mechanism has kernels with dense rules. Compiled at run time they cost nothing where they are not asked for; of
// the others, those of a grid are left to the general kernels.
template <class M>
constexpr bool has_dense() {
  if constexpr (AtRunTime<M>) return true;
  else return !ScoreRule<M, false>::kGrid;
}

// Whether a call needs a dense rule.
inline bool is_dense(const Call& call) {
  return call.bias.data || call.mask.data || call.is_sigmoid || call.threshold == Threshold::first_largest;
}
inline bool is_dense(const Call& call, const ForwardOutputs& outputs) {
  return is_dense(call) || outputs.out[0].dtype != call.q.dtype || outputs.row_max.data || outputs.row_sum.data;
}

template <class M>
bool takes(const Call& call, const ForwardOutputs& outputs) {
  const Array &q = call.q, &v = call.v[0], &out = outputs.out[0];
  const bool low = q.dtype == Dtype::bf16 || q.dtype == Dtype::f16;
  return low && call.k.dtype == q.dtype && v.dtype == q.dtype && out.data &&
         (out.dtype == q.dtype || out.dtype == Dtype::f32) &&
         (call.sets == 1 || call.threshold == Threshold::first_largest) &&
         (call.uses_content || detail::HasForm<M>)&&(call.threshold == Threshold::exponential ||
                                                     call.threshold == Threshold::first_largest || call.is_sigmoid) &&
         (has_dense<M>() || !is_dense(call, outputs)) && call.inner <= 256 && v.dim <= 256 && is_aligned(q) &&
         is_aligned(call.k) && is_aligned(v) && is_aligned(out) && call.queries > 0 && call.keys > 0 &&
         (detail::HasScore<M> || call.scale > 0);
}

// Bytes of memory that are 0 before a launch: the counter of items and the marks of what to do again.
inline std::int64_t memory_bytes(const Call& call) {
  return 16 + 4 * (static_cast<std::int64_t>(call.queries + 63) / 64 + 3) * call.batch * call.heads;
}

// Bytes of memory that a forward pass needs, by whichever kernel.
inline std::int64_t forward_bytes(const Call& call) {
  return std::max(memory_bytes(call), decodes(call) ? decode_bytes(call) : 0);
}

// Whether every query sees every key.
inline bool is_whole(const Call& call) {
  const Masks& m = call.masks;
  return !m.causal && m.left < 0 && m.right < 0 && m.key_length_count == 0 && m.sequences == 0;
}

// Keys and values that are worked on at a time; the L2 cache has 50 to 60 MB.
inline constexpr double kCacheBytes = 32 << 20;

// Template arguments as text, for kernels that are compiled when the program runs.
inline std::string pair_name(const char* kind, int a, int b) {
  return "rapt::cuda::hopper::" + std::string(kind) + "<" + std::to_string(a) + ", " + std::to_string(b) + ">";
}
template <class Rule, class T, int D>
std::string kernel_kinds() {
  return std::string("rapt::cuda::hopper::ScoreRule<@, ") + (Rule::kCapped ? "true" : "false") +
         (Rule::kDense ? ", true" : "") + ">, rapt::cuda::" + (std::is_same_v<T, Bf16> ? "Bf16" : "F16") + ", " +
         std::to_string(D);
}

template <class Rule, class T, int D, class Plan>
bool launch_sized(const Call& call, const ForwardOutputs& outputs, void* memory, cudaStream_t stream) {
  using Kernel = Forward<Rule, T, D, Plan>;
  CUtensorMap q_map, k_map, v_map;
  if (!make_map(&q_map, call.q, call.heads / call.q.group, call.queries, 64) ||
      !make_map(&k_map, call.k, call.heads / call.k.group, call.keys, Kernel::kKeys) ||
      !make_map(&v_map, call.v[0], call.heads / call.v[0].group, call.keys, Kernel::kKeys))
    return false;
  ForwardArguments f;
  f.out = outputs.out[0];
  f.lse = outputs.lse;
  f.row_max = outputs.row_max;
  f.row_sum = outputs.row_sum;
  f.rows = outputs.rows;
  f.remainder = outputs.remainder;
  f.next_item = static_cast<unsigned*>(memory);
  f.redo = static_cast<int*>(memory) + 4;
  f.groups = Kernel::kGroups;
  // Without a mask all items are alike, and a head at a time is best. Under one, the heads are dealt out evenly, since
  // a small last share would leave its long items for the end.
  const int rows = call.heads * call.batch;
  const int shares = std::max(1, static_cast<int>(4.0 * D * call.keys * rows / call.k.group / kCacheBytes));
  f.heads_together = is_whole(call) ? 1 : (rows + shares - 1) / shares;
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaMemsetAsync(memory, 0, static_cast<std::size_t>(memory_bytes(call)), stream);
  const int items = (call.queries + Kernel::kQueries - 1) / Kernel::kQueries * rows;
  const dim3 grid(static_cast<unsigned>(std::min(items, processors)));
  if constexpr (AtRunTime<typename Rule::Mechanism>) {
    const std::string kinds = kernel_kinds<Rule, T, D>() + ", " + pair_name("Plan", Plan::kGroups, Plan::kKeys);
    start(*call.kernels, "hopper::forward<" + kinds + ">", {grid, Kernel::kThreads, Kernel::kSharedBytes}, stream,
          q_map, k_map, v_map, call, f);
    launch_named("hopper::redo_forward<@>", grid, stream, call, outputs, f);
  } else {
    const auto kernel = forward<Rule, T, D, Plan>;
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                         Kernel::kSharedBytes);
    kernel<<<grid, Kernel::kThreads, Kernel::kSharedBytes, stream>>>(q_map, k_map, v_map, call, f);
    launch(redo_forward<typename Rule::Mechanism>, grid, stream, call, outputs, f);
  }
  return true;
}

// f<T, Rule>() for the storage type and the softcap of a call.
template <class M, class F>
bool for_kernel(const Call& call, const F& f) {
  const bool bf16 = call.q.dtype == Dtype::bf16;
  if (call.softcap > 0)
    return bf16 ? f.template operator()<Bf16, ScoreRule<M, true>>() : f.template operator()<F16, ScoreRule<M, true>>();
  return bf16 ? f.template operator()<Bf16, ScoreRule<M, false>>() : f.template operator()<F16, ScoreRule<M, false>>();
}

// Of argmax: the statistics of rows, which must be wanted; from them follow the outputs, see largest_rows.h.
template <class Rule, class T, int D>
bool launch_largest(const Call& call, const ForwardOutputs& outputs, void* memory, cudaStream_t stream) {
  using Kernel = Largest<Rule, T, D>;
  CUtensorMap q_map, k_map;
  if (!make_map(&q_map, call.q, call.heads / call.q.group, call.queries, 64) ||
      !make_map(&k_map, call.k, call.heads / call.k.group, call.keys, Kernel::kKeys))
    return false;
  const int heads = call.heads * call.batch;
  ForwardArguments f{};
  f.lse = outputs.lse;
  f.row_max = outputs.row_max;
  f.row_sum = outputs.row_sum;
  f.rows = outputs.rows;
  f.redo = static_cast<int*>(memory) + 4;
  f.heads_together = 1;
  f.groups = Kernel::kGroups;
  cudaMemsetAsync(memory, 0, static_cast<std::size_t>(memory_bytes(call)), stream);
  const dim3 grid(static_cast<unsigned>((call.queries + Kernel::kQueries - 1) / Kernel::kQueries * heads));
  const dim3 few(std::min(grid.x, 256u));
  if constexpr (AtRunTime<typename Rule::Mechanism>) {
    start(*call.kernels, "hopper::largest<" + kernel_kinds<Rule, T, D>() + ">",
          {grid, Kernel::kThreads, Kernel::kSharedBytes}, stream, q_map, k_map, call, f);
    launch_named("hopper::redo_forward<@>", few, stream, call, outputs, f);
  } else {
    const auto kernel = largest<Rule, T, D>;
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                         Kernel::kSharedBytes);
    kernel<<<grid, Kernel::kThreads, Kernel::kSharedBytes, stream>>>(q_map, k_map, call, f);
    launch(redo_forward<typename Rule::Mechanism>, few, stream, call, outputs, f);
  }
  return true;
}

template <class M>
bool launch_dense(const Call& call, const ForwardOutputs& outputs, void* memory, cudaStream_t stream) {
  using Rule = ScoreRule<M, false, true>;
  const auto typed = [&]<class T>() {
    if (call.threshold == Threshold::first_largest) {
      if (call.inner <= 64) return launch_largest<Rule, T, 64>(call, outputs, memory, stream);
      if (call.inner <= 128) return launch_largest<Rule, T, 128>(call, outputs, memory, stream);
      return launch_largest<Rule, T, 256>(call, outputs, memory, stream);
    }
    const int dim = std::max(call.inner, call.v[0].dim);
    if (dim <= 64) return launch_sized<Rule, T, 64, Plan<2, 128>>(call, outputs, memory, stream);
    if (dim <= 128) return launch_sized<Rule, T, 128, Plan<2, 96>>(call, outputs, memory, stream);
    return launch_sized<Rule, T, 256, Plan<2, 48>>(call, outputs, memory, stream);
  };
  return call.q.dtype == Dtype::bf16 ? typed.template operator()<Bf16>() : typed.template operator()<F16>();
}

template <class M>
bool launch_forward(const Call& call, const ForwardOutputs& outputs, void* memory, cudaStream_t stream) {
  if constexpr (has_dense<M>())
    if (is_dense(call, outputs)) return launch_dense<M>(call, outputs, memory, stream);
  return for_kernel<M>(call, [&]<class T, class Rule>() {
    const auto sized = [&]<int D, class P>() { return launch_sized<Rule, T, D, P>(call, outputs, memory, stream); };
    const int dim = std::max(call.inner, call.v[0].dim);
    if constexpr (decodable<Rule>() && !AtRunTime<typename Rule::Mechanism>)
      if (decodes(call)) {
        if (dim <= 64) return launch_decode<Rule, T, 64>(call, outputs, memory, stream);
        if (dim <= 128) return launch_decode<Rule, T, 128>(call, outputs, memory, stream);
        return launch_decode<Rule, T, 256>(call, outputs, memory, stream);
      }
    // Three warpgroups leave too few registers for heavy formulas.
    if (dim <= 64) return sized.template operator()<64, Plan<Rule::kHeavy ? 2 : 3, 128>>();
    if (dim <= 96) return sized.template operator()<96, Plan<2, 160>>();
    if (dim <= 128) return sized.template operator()<128, Plan<2, 128>>();
    if (dim <= 192) return sized.template operator()<192, Plan<2, 112>>();
    return sized.template operator()<256, Plan<2, 80>>();
  });
}

}  // namespace rapt::inline v1::cuda::hopper
