#pragma once

#include "backends/cuda/hopper/backward.cuh"
#include "backends/cuda/hopper/backward_ordered.cuh"
#include "backends/cuda/hopper/launch.cuh"
#include "backends/cuda/hopper/table_windows.cuh"

// Which calls the backward kernels for the tensor cores take, and their launches.
namespace rapt::inline v1::cuda::hopper {

// Beyond, there are too few registers for a dense rule beside the sums of a row.
inline constexpr int kMostDense = 192;

// A gradient has the type of its array, one for each batch; the heads that share a key are added up in the kernel.
template <class M>
bool takes_gradients(const Call& call, const FastGradients& f) {
  const auto fits = [&](const Array& a) {
    return !a.data || (a.dtype == call.q.dtype && is_aligned(a) && (a.batches == call.batch || call.batch == 1));
  };
  const auto holds_sums = [&](const Array& a) { return !a.data || a.dtype == Dtype::f32 || a.dtype == call.q.dtype; };
  const auto whole = [&](const Array& a) { return a.batches == call.batch; };
  const double rows = static_cast<double>(call.batch) * call.heads * padded_queries(call.queries);
  ForwardOutputs outputs;
  outputs.out[0] = f.grad_out;
  return takes<M>(call, outputs) && call.threshold != Threshold::first_largest && f.grad_out.dtype == call.q.dtype &&
         !(is_dense(call) && (call.softcap > 0 || std::max(call.inner, call.v[0].dim) > kMostDense)) &&
         holds_sums(f.dbias) && holds_sums(f.shared_bias.out) && rows < 2147483648.0 && call.q.group == 1 &&
         call.k.group == call.v[0].group && f.grad_out.group == 1 && whole(call.q) && whole(call.k) &&
         whole(call.v[0]) && whole(f.grad_out) && fits(f.dq) && fits(f.dk) && fits(f.dv);
}

// Parts of the gradients of numbers that every batch and head has.
inline std::int64_t value_parts(const Call& call) {
  const int groups = std::max(call.inner, call.v[0].dim) <= 64 && !is_dense(call) ? 3 : 2;
  return static_cast<std::int64_t>(call.queries + 64 * groups - 1) / (64 * groups) * 4 * groups;
}

// Whether one kernel computes all gradients. Every query and key passes through memory there, a tile after the other, so
// that few heads or short ones are served better by the kernels of each side. A choice by shape alone: bits follow from it.
template <class Rule>
bool is_ordered(const Call& call, const FastGradients& f) {
  constexpr int kProcessors = 132;
  constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;
  if constexpr (!Rule::kScaleOnly || AtRunTime<typename Rule::Mechanism>) return false;
  const int dim = std::max(call.inner, call.v[0].dim), tiles = (call.queries + 63) / 64;
  const double heads = static_cast<double>(call.batch) * call.heads;
  return !is_dense(call) && dim > 64 && dim <= 128 && f.dq.data && f.dk.data && f.dv.data && tiles >= 16 &&
         heads * tiles >= 2.5 * kProcessors && heads * tiles * 8 < 2147483648.0 &&
         OrderedSums::bytes(call, is_whole(call)) <= kMostBytes;
}

template <class M>
std::int64_t gradient_memory(const Call& call, const FastGradients& f) {
  return call.softcap == 0 && is_ordered<ScoreRule<M, false>>(call, f) ? OrderedSums::bytes(call, is_whole(call)) : 0;
}

struct GradientMaps {
  CUtensorMap q, k, v, grad_out;
};

inline bool make_maps(const Call& call, const FastGradients& f, int query_rows, int key_rows, GradientMaps& maps) {
  return make_map(&maps.q, call.q, call.heads, call.queries, query_rows) &&
         make_map(&maps.grad_out, f.grad_out, call.heads, call.queries, query_rows) &&
         make_map(&maps.k, call.k, call.heads / call.k.group, call.keys, key_rows) &&
         make_map(&maps.v, call.v[0], call.heads / call.k.group, call.keys, key_rows);
}

template <class Side, class Plan, class M>
void launch_blocks(const std::string& side, int blocks, const GradientMaps& maps, const Call& call,
                   const FastGradients& f, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks));
  if constexpr (AtRunTime<M>) {
    start(*call.kernels,
          "hopper::gradients<rapt::cuda::hopper::" + side + ", " +
              pair_name("GradientPlan", Plan::kGroups, Plan::kTile) + ">",
          {grid, Plan::kThreads, Side::kSharedBytes}, stream, maps.q, maps.k, maps.v, maps.grad_out, call, f);
  } else {
    const auto kernel = gradients<Side, Plan>;
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                         Side::kSharedBytes);
    kernel<<<grid, Plan::kThreads, Side::kSharedBytes, stream>>>(maps.q, maps.k, maps.v, maps.grad_out, call, f);
  }
}

// `owned` rows of each of `heads` heads go to blocks, which loop over `bytes` of every head.
template <class Side, class Plan, class M>
void launch_side(const std::string& side, const GradientMaps& maps, const Call& call, FastGradients f, int owned,
                 int heads, double bytes, cudaStream_t stream) {
  const int rows = heads * call.batch, tiles = (owned + 64 * Plan::kGroups - 1) / (64 * Plan::kGroups);
  const int shares = std::max(1, static_cast<int>(bytes * rows / kCacheBytes));
  f.heads_together = is_whole(call) ? 1 : (rows + shares - 1) / shares;
  launch_blocks<Side, Plan, M>(side, tiles * rows, maps, call, f, stream);
}

template <class Rule, class T, int D, class KeyPlan, class QueryPlan>
bool launch_sides(const Call& call, const FastGradients& f, cudaStream_t stream) {
  GradientMaps key_maps, query_maps;
  if (!make_maps(call, f, KeyPlan::kTile, 64, key_maps) || !make_maps(call, f, 64, QueryPlan::kTile, query_maps))
    return false;
  const int key_heads = call.heads / call.k.group;
  const double query_bytes = 4.0 * D * call.queries * call.k.group, key_bytes = 4.0 * D * call.keys / call.k.group;
  const auto keys = [&]<bool kKey, bool kValue>() {
    const std::string side = "KeySide<" + kernel_kinds<Rule, T, D>() + ", " +
                             pair_name("GradientPlan", KeyPlan::kGroups, KeyPlan::kTile) +
                             (kKey ? ", true" : ", false") + (kValue ? ", true>" : ", false>");
    launch_side<KeySide<Rule, T, D, KeyPlan, kKey, kValue>, KeyPlan, typename Rule::Mechanism>(
        side, key_maps, call, f, call.keys, key_heads, query_bytes, stream);
  };
  if constexpr (!Rule::kReadsRaw) {
    if (f.dv.data) keys.template operator()<false, true>();
  } else if constexpr (D <= 128) {
    if (f.dk.data || f.dv.data) keys.template operator()<true, true>();
  } else {
    if (f.dk.data) keys.template operator()<true, false>();
    if (f.dv.data) keys.template operator()<false, true>();
  }
  if ((Rule::kReadsRaw && f.dq.data) || f.value_grads || f.dbias.data || f.shift_grads)
    launch_side<QuerySide<Rule, T, D, QueryPlan>, QueryPlan, typename Rule::Mechanism>(
        "QuerySide<" + kernel_kinds<Rule, T, D>() + ", " +
            pair_name("GradientPlan", QueryPlan::kGroups, QueryPlan::kTile) + ">",
        query_maps, call, f, call.queries, call.heads, key_bytes, stream);
  return true;
}

template <class Rule, class T, bool kWhole>
void launch_ordered(const GradientMaps& maps, const Call& call, const FastGradients& f, const OrderedSums& sums,
                    cudaStream_t stream) {
  using Side = OrderedSide<Rule, T, kWhole>;
  const auto kernel = ordered_gradients<Side>;
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                       Side::kSharedBytes);
  const int blocks = (call.keys + Side::kKeys - 1) / Side::kKeys * call.batch * (call.heads / call.k.group);
  kernel<<<static_cast<unsigned>(blocks), Side::kThreads, Side::kSharedBytes, stream>>>(maps.q, maps.k, maps.v,
                                                                                        maps.grad_out, call, f, sums);
}

template <class Rule, class T>
bool launch_ordered(const Call& call, FastGradients f, cudaStream_t stream) {
  GradientMaps maps;
  if (!make_maps(call, f, 64, 64, maps)) return false;
  const bool whole = is_whole(call);
  const OrderedSums sums(call, whole, f.memory);
  // Two heads take turns, so that a block comes a little later than the one that it follows.
  f.heads_together = std::min(2, call.batch * call.heads / call.k.group);
  cudaMemsetAsync(sums.ticket, 0, static_cast<std::size_t>(OrderedSums::zeroed_bytes(call, whole)), stream);
  if (whole && call.keys % 128 == 0) launch_ordered<Rule, T, true>(maps, call, f, sums, stream);
  else launch_ordered<Rule, T, false>(maps, call, f, sums, stream);
  finish_queries<T><<<static_cast<unsigned>(OrderedSums::parts(call) * 4), 256, 0, stream>>>(call, f, sums);
  return true;
}

template <class Rule>
constexpr bool has_table() {
  for (int slot = 0; slot < Rule::kSlots; ++slot)
    if (Rule::is_relative(slot)) return true;
  return false;
}

template <class Rule, class T, int D, class Plan>
bool launch_table(const Call& call, FastGradients f, const TableGradient& gradient, cudaStream_t stream) {
  const TableWindows windows(call);
  GradientMaps maps;
  if (!make_maps(call, f, 64, Plan::kTile, maps)) return false;
  f.table_slot = gradient.slot;
  f.windows = static_cast<float*>(f.memory);
  f.window_width = windows.width;
  for (f.first_tile = 0; f.first_tile < windows.tiles; f.first_tile += windows.at_a_time) {
    f.window_tiles = std::min(windows.at_a_time, windows.tiles - f.first_tile);
    launch_side<QuerySide<Rule, T, D, Plan, true>, Plan, typename Rule::Mechanism>(
        "QuerySide<" + kernel_kinds<Rule, T, D>() + ", " + pair_name("GradientPlan", Plan::kGroups, Plan::kTile) +
            ", true>",
        maps, call, f, f.window_tiles * 64 * Plan::kGroups, call.heads, 4.0 * D * call.keys / call.k.group, stream);
    sum_windows(call, f, gradient, stream);
  }
  return true;
}

template <class M>
bool launch_table_gradient(const Call& call, const FastGradients& f, const TableGradient& gradient,
                           cudaStream_t stream) {
  if (is_dense(call)) return false;  // left to the general kernels
  return for_kernel<M>(call, [&]<class T, class Rule>() {
    if constexpr (!has_table<Rule>()) {
      return false;
    } else {
      const auto sized = [&]<int D, int kTile>() {
        return launch_table<Rule, T, D, GradientPlan<TableWindows::kGroups, kTile>>(call, f, gradient, stream);
      };
      const int dim = std::max(call.inner, call.v[0].dim);
      if (dim <= 64) return sized.template operator()<64, 96>();
      if (dim <= 128) return sized.template operator() < 128, Rule::kHeavy ? 64 : 96 > ();
      if (dim <= 192) return sized.template operator()<192, 48>();
      if constexpr (Rule::kCapped) return false;  // as its other gradients
      else return sized.template operator()<256, 32>();
    }
  });
}

template <class Rule, class T, int D, class Plan>
bool launch_shared_bias(const Call& call, const FastGradients& f, cudaStream_t stream) {
  using Side = BiasSide<Rule, T, D, Plan>;
  GradientMaps maps;
  if (!make_maps(call, f, 64, Plan::kTile, maps)) return false;
  const std::string plan = pair_name("GradientPlan", Plan::kGroups, Plan::kTile);
  launch_blocks<Side, Plan, typename Rule::Mechanism>("BiasSide<" + kernel_kinds<Rule, T, D>() + ", " + plan + ">",
                                                      Side::blocks(call, f.shared_bias), maps, call, f, stream);
  return true;
}

template <class M>
bool launch_dense_gradients(const Call& call, const FastGradients& f, cudaStream_t stream) {
  using Rule = ScoreRule<M, false, true>;
  const auto sized = [&]<class T, int D, class KeyPlan, class QueryPlan, class BiasPlan>() {
    return launch_sides<Rule, T, D, KeyPlan, QueryPlan>(call, f, stream) &&
           (!f.shared_bias.out.data || launch_shared_bias<Rule, T, D, BiasPlan>(call, f, stream));
  };
  const auto typed = [&]<class T>() {
    const int dim = std::max(call.inner, call.v[0].dim);
    if (dim <= 64)
      return sized.template operator()<T, 64, GradientPlan<2, 64>, GradientPlan<2, 96>, GradientPlan<2, 96>>();
    if (dim <= 128)
      return sized.template operator()<T, 128, GradientPlan<2, 32>, GradientPlan<2, 64>, GradientPlan<2, 64>>();
    return sized.template operator()<T, 192, GradientPlan<2, 64>, GradientPlan<2, 32>, GradientPlan<2, 64>>();
  };
  return call.q.dtype == Dtype::bf16 ? typed.template operator()<Bf16>() : typed.template operator()<F16>();
}

// False: nothing was started, since the copy engine does not take the arrays.
template <class M>
bool launch_gradients(const Call& call, const FastGradients& f, cudaStream_t stream) {
  if constexpr (has_dense<M>())
    if (is_dense(call)) return launch_dense_gradients<M>(call, f, stream);
  return for_kernel<M>(call, [&]<class T, class Rule>() {
    constexpr bool kPlain = Rule::kScaleOnly;
    if constexpr (kPlain && !AtRunTime<M>)
      if (is_ordered<Rule>(call, f)) return launch_ordered<Rule, T>(call, f, stream);
    const auto sized = [&]<int D, class KeyPlan, class QueryPlan>() {
      return launch_sides<Rule, T, D, KeyPlan, QueryPlan>(call, f, stream);
    };
    const int dim = std::max(call.inner, call.v[0].dim);
    if (dim <= 64)
      return sized.template operator()<64, GradientPlan<2, kPlain ? 112 : 96>, GradientPlan<3, kPlain ? 80 : 64>>();
    if (dim <= 128)
      return sized
          .template operator()<128, GradientPlan<2, Rule::kHeavy ? 48 : 64>, GradientPlan<2, Rule::kHeavy ? 64 : 96>>();
    if (dim <= 192)
      return sized
          .template operator()<192, GradientPlan<2, Rule::kHeavy ? 32 : 64>, GradientPlan<2, Rule::kHeavy ? 32 : 64>>();
    // The numbers of a capped formula do not fit the registers beside 256 columns: the general kernels take it.
    if constexpr (Rule::kCapped && Rule::kSlots > 0) return false;
    else return sized.template operator()<256, GradientPlan<2, kPlain ? 48 : 32>, GradientPlan<2, kPlain ? 48 : 32>>();
  });
}

template <class M>
inline constexpr FastPrograms kPrograms{&takes<M>,
                                        &forward_bytes,
                                        &launch_forward<M>,
                                        &takes_gradients<M>,
                                        &value_parts,
                                        &gradient_memory<M>,
                                        &launch_gradients<M>,
                                        &table_memory,
                                        has_table<ScoreRule<M, false>>() ? &launch_table_gradient<M> : nullptr};

}  // namespace rapt::inline v1::cuda::hopper
