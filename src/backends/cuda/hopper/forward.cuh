#pragma once

#include <algorithm>
#include <type_traits>

#include "backends/cuda/general/forward.cuh"
#include "backends/cuda/hopper/dense.cuh"
#include "backends/cuda/hopper/fragments.cuh"
#include "backends/cuda/hopper/score.cuh"

// Attention forward on the tensor cores of Hopper, for calls whose scores are a function of q·kᵀ, the positions and
// numbers of the head, under softmax and any mask that leaves every query one range of keys.
//
// A block is one producer warp, which keeps the copy engine ahead, and kGroups warpgroups of 64 query rows each. In its
// turn at the tensor cores a warpgroup starts q·kᵀ of one tile of keys and p·v of the tile before; then it hands the turn
// on and works on its scores while the others multiply. Blocks stay on their multiprocessor and take one item (a query
// tile of a head) after another; the next item's first q·kᵀ runs while the last one's output is stored.
namespace rapt::inline v1::cuda::hopper {

struct ForwardArguments {
  Array out, lse;
  Array row_max, row_sum;  // of dense rules; data null: not wanted
  RowStatistics rows;      // null: not wanted
  void* remainder;         // [batch·heads·queries][dim of out]: what rounding took from out; null: not wanted
  unsigned* next_item;     // 0 before a launch and 0 again after it; launches that may run at once need one each
  int* redo;               // [items]: set where a row is not finite, which the general kernel then computes again
  int heads_together;      // batches and heads whose keys are worked on at a time
  int groups;              // of 64 queries in an item
};

// Tile sizes of a kernel.
template <int kGroups_, int kKeys_>
struct Plan {
  static constexpr int kGroups = kGroups_;  // warpgroups of 64 queries: 2 with 240 registers a thread, or 3 with 160
  static constexpr int kKeys = kKeys_;      // keys a tile, a multiple of 16
};

template <class Rule, class T, int D, class Plan>
struct Forward {
  static constexpr int kGroups = Plan::kGroups, kKeys = Plan::kKeys;
  static constexpr int kQueries = 64 * kGroups, kPanels = (D + 63) / 64;
  static constexpr int kThreads = 128 * (kGroups + 1);
  // The registers of a block at its start, 168 or 128 a thread, redistributed: asking for more would wait forever.
  static constexpr int kConsumerRegisters = kGroups == 3 ? 160 : 232, kProducerRegisters = kGroups == 3 ? 32 : 40;
  static_assert(kConsumerRegisters * kGroups + kProducerRegisters <= (kGroups == 3 ? 128 * 4 : 168 * 3));
  static constexpr bool kScaleOnly = Rule::kScaleOnly;
  // A row's maximum may lag behind by this many powers of two: p stays below 2^8, and o is rarely rescaled.
  static constexpr float kSlack = 8;

  static constexpr int kSharedLimit = 227 * 1024, kSharedRest = 2048;  // barriers, and the alignment to 1024
  static constexpr int kRowBytes = kPanels * 128;
  static constexpr int kStageBytes = 2 * kRowBytes * kKeys;
  static constexpr int kStages = std::min(3, (kSharedLimit - kSharedRest - kRowBytes * kQueries) / kStageBytes);
  static_assert(kStages >= 2);

  // One query tile of one head and the tiles of keys [first, end) that it sees, taken from the last to the first. Those
  // of [full, cut) every query sees whole.
  struct Work {
    int item;  // negative: there are no more
    int first_query, head, batch;
    int first, end, full, cut;
    Band band;

    RAPT_DEVICE bool is_cut(int tile) const { return tile >= cut || tile < full; }
  };

  struct Shared {
    alignas(1024) std::uint16_t q[kGroups][kPanels][64][64];
    alignas(1024) std::uint16_t k[kStages][kPanels][kKeys][64];
    alignas(1024) std::uint16_t v[kStages][kPanels][kKeys][64];
    Work work[2];
    Barrier item_full[2], item_empty[2];
    Barrier q_full[kGroups], q_empty[kGroups];
    Barrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  };
  static constexpr int kSharedBytes = sizeof(Shared) + 1024;  // dynamic shared memory is not aligned to 1024
  static_assert(kSharedBytes <= kSharedLimit);

  RAPT_DEVICE static void init(Shared& shared) {
    constexpr int kWarps = 4 * kGroups;
    for (int n = 0; n < 2; ++n) {
      barrier_init(&shared.item_full[n], 1);
      barrier_init(&shared.item_empty[n], kWarps);
    }
    for (int g = 0; g < kGroups; ++g) {
      barrier_init(&shared.q_full[g], 1);
      barrier_init(&shared.q_empty[g], 4);
    }
    for (int s = 0; s < kStages; ++s) {
      barrier_init(&shared.k_full[s], 1);
      barrier_init(&shared.k_empty[s], kWarps);
      barrier_init(&shared.v_full[s], 1);
      barrier_init(&shared.v_empty[s], kWarps);
    }
    barrier_init_fence();
  }

  using Ring = StageRing<kStages>;

  RAPT_DEVICE static int items(const Call& call) {
    return (call.queries + kQueries - 1) / kQueries * call.heads * call.batch;
  }

  // The order of the items: a few heads at a time, so that their keys and values stay in the L2 cache, and of these the
  // last queries first, which see most under a causal mask: the short items are left for the end.
  RAPT_DEVICE static Work work(const Call& call, const ForwardArguments& f, int item) {
    const int tiles = (call.queries + kQueries - 1) / kQueries;
    const OwnedTile own = owned_tile(item, tiles, call.heads, call.batch, f.heads_together, true);
    Work w;
    w.item = item;
    w.first_query = own.tile * kQueries;
    w.head = own.head;
    w.batch = own.batch;
    const TileKeys seen = tile_keys(call, w.batch, w.first_query, kQueries);
    w.first = seen.some.begin / kKeys;
    w.end = ::max(w.first + 1, (seen.some.end + kKeys - 1) / kKeys);  // a tile that no query sees writes the zeros
    w.full = (seen.all.begin + kKeys - 1) / kKeys;
    w.cut = seen.all.end / kKeys;
    w.band = band_of(call, own.batch);
    return w;
  }

  // ---- producer: one thread ----------------------------------------------------------------------------------------

  struct Producer {
    const Call& call;
    const ForwardArguments& f;
    Shared& shared;
    const CUtensorMap &q_map, &k_map, &v_map;
    Ring k_ring, v_ring;

    RAPT_DEVICE void announce(const Work& w, int round) {
      const int s = round % 2;
      barrier_wait(&shared.item_empty[s], round / 2 % 2 ^ 1);
      shared.work[s] = w;
      barrier_arrive(&shared.item_full[s]);
    }

    // What a head's rows are found by.
    struct Source {
      int head, batch;
    };
    RAPT_DEVICE static Source source(const Array& a, const Work& w) {
      return {w.head / a.group, a.batches == 1 ? 0 : w.batch};
    }

    RAPT_DEVICE void load_q(const Work& w, const Source& from, int group, int round) {
      barrier_wait(&shared.q_empty[group], round % 2 ^ 1);
      barrier_expect(&shared.q_full[group], sizeof(shared.q[group]));
      for (int panel = 0; panel < kPanels; ++panel)
        copy_box(shared.q[group][panel], &q_map, &shared.q_full[group], panel * 64, w.first_query + group * 64,
                 from.head, from.batch);
    }

    RAPT_DEVICE void load_k(const Source& from, int tile) {
      const int s = k_ring.stage;
      barrier_wait(&shared.k_empty[s], k_ring.phase ^ 1);
      barrier_expect(&shared.k_full[s], sizeof(shared.k[s]));
      for (int panel = 0; panel < kPanels; ++panel)
        copy_box(shared.k[s][panel], &k_map, &shared.k_full[s], panel * 64, tile * kKeys, from.head, from.batch);
      k_ring.advance();
    }

    RAPT_DEVICE void load_v(const Source& from, int tile) {
      const int s = v_ring.stage;
      barrier_wait(&shared.v_empty[s], v_ring.phase ^ 1);
      barrier_expect(&shared.v_full[s], sizeof(shared.v[s]));
      for (int panel = 0; panel < kPanels; ++panel)
        copy_box(shared.v[s][panel], &v_map, &shared.v_full[s], panel * 64, tile * kKeys, from.head, from.batch);
      v_ring.advance();
    }

    RAPT_DEVICE void load_tiles(const Source& k, const Source& v, int from, int to) {
#pragma unroll 1
      for (int tile = from; tile >= to; --tile) {
        load_k(k, tile);
        load_v(v, tile + 1);
      }
    }

    // Loads in the order in which the consumers ask: K runs one tile ahead of V. The counter is fetched once for each
    // item, so that it has gone round to 0 when all are done. The next item is worked out while copies are under way.
    RAPT_DEVICE void run() {
      const int last = items(call) - 1;
      announce(work(call, f, static_cast<int>(blockIdx.x)), 0);
      for (int round = 0;; ++round) {
        const Work& w = shared.work[round % 2];
        if (w.item < 0) break;
        const int item = static_cast<int>(atomicInc(f.next_item, last)) + static_cast<int>(gridDim.x);
        const Source q = source(call.q, w), k = source(call.k, w), v = source(call.v[0], w);
        const int first = w.first, end = w.end, early = ::max(first, end - kStages);  // these find their stages empty
        load_q(w, q, 0, round);
        load_k(k, end - 1);
        for (int group = 1; group < kGroups; ++group) load_q(w, q, group, round);
        load_tiles(k, v, end - 2, early);
        announce(item > last ? Work{.item = -1} : work(call, f, item), round + 1);
        load_tiles(k, v, ::min(early - 1, end - 2), first);
        load_v(v, first);
      }
    }
  };

  // ---- consumer: one warpgroup of 64 queries -----------------------------------------------------------------------

  struct Consumer {
    const Call& call;
    const ForwardArguments& f;
    Shared& shared;
    const int group, warp, lane;
    Ring k_ring, v_ring;

    float o[D / 2];
    float s[kKeys / 2];
    std::uint32_t p[kKeys / 16][4];
    float row_max[2], row_sum[2], rescale[2];
    bool rescaled;
    std::conditional_t<Rule::kDense, DenseKeys<T, Rule::kDense ? kKeys : 32, 1>, NotDense> dense;

    // What the hooks ask for.
    int first_row, batch, head;
    RowRange range[2];
    Rule rule;

    RAPT_DEVICE int first_column(int tile) const { return tile * kKeys + lane % 4 * 2; }

    RAPT_DEVICE void release(Barrier* b) {
      __syncwarp();
      if (lane == 0) barrier_arrive(b);
    }

    // What loops over products run by is made uniform.
    RAPT_DEVICE Work take_work(int round) {
      const int s = round % 2;
      barrier_wait(&shared.item_full[s], round / 2 % 2);
      Work w = shared.work[s];
      release(&shared.item_empty[s]);
      w.item = uniform(w.item);
      w.first = uniform(w.first);
      w.end = uniform(w.end);
      w.full = uniform(w.full);
      w.cut = uniform(w.cut);
      return w;
    }

    RAPT_DEVICE void await_q(int round) { barrier_wait(&shared.q_full[group], round % 2); }
    RAPT_DEVICE void await_k() { barrier_wait(&shared.k_full[k_ring.stage], k_ring.phase); }
    RAPT_DEVICE void await_v() { barrier_wait(&shared.v_full[v_ring.stage], v_ring.phase); }

    RAPT_DEVICE void await_turn() { named_wait(1 + group, 256); }
    RAPT_DEVICE void pass_turn() { named_arrive(1 + (group + 1) % kGroups, 256); }

    RAPT_DEVICE void start_qk() {
      if constexpr (Rule::kReadsRaw) start_product<T, D>(s, shared.q[group], shared.k[k_ring.stage]);
      else start_nothing();
    }
    RAPT_DEVICE void start_pv() { start_sum<T>(o, p, shared.v[v_ring.stage]); }

    // Waits for q·kᵀ of a tile, after which kPending products were started; then the formula and the masks.
    template <int kPending>
    RAPT_DEVICE void finish_scores(int tile, bool last, bool cut) {
      if constexpr (Rule::kDense) dense.load(call, dense_place(), tile * kKeys, lane % 4 * 2);
      wgmma_wait<kPending>(s);
      if (last) release(&shared.q_empty[group]);
      release(&shared.k_empty[k_ring.stage]);
      if constexpr (!kScaleOnly) apply_formula(tile);
      if constexpr (Rule::kDense) finish_dense(tile);
      k_ring.advance();
      if (cut) hide(tile);
    }

    template <int kPending>
    RAPT_DEVICE void finish_output() {
      wgmma_wait<kPending>(o);
      release(&shared.v_empty[v_ring.stage]);
      v_ring.advance();
    }

    // The mechanism's formula on every score of the tile.
    RAPT_DEVICE void apply_formula(int tile) {
      rule.begin_tile(call, first_row, first_column(tile));
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = e / 2, c = e % 2;
          s[4 * n + e] = rule.value(s[4 * n + e], 8 * r, 8 * n + c);
        }
    }

    RAPT_DEVICE DensePlace dense_place() const { return {batch, head, anew(first_row)}; }

    RAPT_DEVICE void finish_dense(int tile) {
      if (call.softcap > 0) {
#pragma unroll
        for (float& x : s) x = rule.capped(x);
      }
      dense.apply(call, dense_place(), s, tile * kKeys, lane % 4 * 2);
    }

    RAPT_DEVICE void hide(int tile) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
        hide_outside(s, r, range[r].begin - first_column(tile), range[r].end - first_column(tile));
    }

    // s = exp(s − maximum), with the rows' maxima and sums brought up to date.
    RAPT_DEVICE void softmax() {
      const float factor = Rule::exponent_factor(call);
      float top[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float a = s[2 * r], b = s[2 * r + 1];
#pragma unroll
        for (int n = 1; n < kKeys / 8; ++n) {
          a = fmaxf(a, s[4 * n + 2 * r]);
          b = fmaxf(b, s[4 * n + 2 * r + 1]);
        }
        top[r] = fmaxf(a, b);
        top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 1));
        top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 2));
      }
      float slack = kSlack;
      if constexpr (Rule::kDense)
        if (f.row_max.data) slack = 0;  // the very maximum is asked for
      rescaled = __any_sync(~0u, (top[0] - row_max[0]) * factor > slack || (top[1] - row_max[1]) * factor > slack) != 0;
      if (rescaled) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float m = fmaxf(row_max[r], top[r]);
          rescale[r] = exp2_fast((row_max[r] - finite(m)) * factor);
          row_sum[r] *= rescale[r];
          row_max[r] = m;
        }
      }
      const float shift[2] = {finite(row_max[0]) * factor, finite(row_max[1]) * factor};
      float odd_sum[2] = {0, 0};
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float &x = s[4 * n + 2 * r], &y = s[4 * n + 2 * r + 1];
          x = exp2_fast(fmaf(x, factor, -shift[r]));
          y = exp2_fast(fmaf(y, factor, -shift[r]));
          row_sum[r] += x;
          odd_sum[r] += y;
        }
      for (int r = 0; r < 2; ++r) row_sum[r] += odd_sum[r];
    }

    // s = 1 / (1 + exp(−(s + b))), with the rows' sums brought up to date.
    RAPT_DEVICE void sigmoid() {
      const float shift = call.normalizer_numbers(head)[0] * kLog2E;
      rescaled = false;
#pragma unroll
      for (int e = 0; e < kKeys / 2; ++e) {
        s[e] = reciprocal_fast(1 + exp2_fast(fmaf(s[e], -kLog2E, -shift)));
        row_sum[e / 2 % 2] += s[e];
      }
    }

    RAPT_DEVICE void find_weights() {
      if constexpr (Rule::kDense)
        if (call.is_sigmoid) return sigmoid();
      softmax();
    }

    // A row that has seen nothing yet has the maximum −∞.
    RAPT_DEVICE static float finite(float maximum) { return maximum == -INFINITY ? 0.f : maximum; }

    RAPT_DEVICE void pack_weights() {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) pack_columns<T>(p, s, n);
    }

    RAPT_DEVICE void rescale_output() {
      if (rescaled) {
#pragma unroll
        for (int e = 0; e < D / 2; ++e) o[e] *= rescale[e / 2 % 2];
      }
    }

    RAPT_DEVICE void begin(const Work& w) {
      first_row = w.first_query + group * 64 + warp * 16 + lane / 4;
      batch = w.batch;
      head = w.head;
      rule.begin(call, w.batch, w.head);
      const RowMask mask(call, w.batch, w.band);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        range[r] = mask.keys_of(first_row + 8 * r);
        row_max[r] = -INFINITY;
        row_sum[r] = 0;
      }
#pragma unroll
      for (int e = 0; e < D / 2; ++e) o[e] = 0;
    }

    // Starts with q·kᵀ of the item's first tile under way, and ends with p of its last tile.
    RAPT_DEVICE void run_tiles(const Work& w) {
      finish_scores<0>(w.end - 1, w.end - 1 == w.first, w.is_cut(w.end - 1));
      find_weights();
      pack_weights();
#pragma unroll 1
      for (int tile = w.end - 2; tile >= w.first; --tile) {
        await_k();
        await_turn();
        start_qk();
        await_v();
        start_pv();
        pass_turn();
        finish_scores<1>(tile, tile == w.first, w.is_cut(tile));
        find_weights();
        finish_output<0>();
        pack_weights();
        rescale_output();
      }
    }

    // The sink as one more score, without a value.
    RAPT_DEVICE void add_sink(int r, float& maximum, float& scale) {
      const float sink = call.normalizer_numbers(head)[0];
      const float top = fmaxf(maximum, sink), factor = expf(maximum - top);
      row_sum[r] = row_sum[r] * factor + expf(sink - top);
      maximum = top;
      scale = factor;
    }

    RAPT_DEVICE void store(const Work& w) {
      bool finite_rows = true;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        row_sum[r] += __shfl_xor_sync(~0u, row_sum[r], 1);
        row_sum[r] += __shfl_xor_sync(~0u, row_sum[r], 2);
        const bool blind = row_sum[r] == 0;
        const int i = first_row + 8 * r;
        const bool inside = i < call.queries;
        float maximum = row_max[r] * (Rule::exponent_factor(call) / kLog2E), factor = 1;
        if constexpr (Rule::kDense)
          if (call.is_sigmoid) maximum = 0;
        if (call.has_sink && !blind) add_sink(r, maximum, factor);
        if (inside && lane % 4 == 0) {
          const std::int64_t row = call.row(w.batch, w.head, i);
          if (f.rows.max) {
            f.rows.max[row] = blind ? -INFINITY : maximum;
            f.rows.sum[row] = row_sum[r];
          }
          if (f.lse.data)
            cuda::store(f.lse, f.lse.offset(w.batch, w.head) + i * f.lse.row_stride,
                        blind ? -INFINITY : maximum + logf(row_sum[r]));
          if constexpr (Rule::kDense) {
            if (f.row_max.data)
              cuda::store(f.row_max, f.row_max.offset(w.batch, w.head) + i * f.row_max.row_stride,
                          blind ? -INFINITY : maximum);
            if (f.row_sum.data)
              cuda::store(f.row_sum, f.row_sum.offset(w.batch, w.head) + i * f.row_sum.row_stride, row_sum[r]);
          }
        }
        float inverse = blind ? 0 : factor / row_sum[r];
        if constexpr (Rule::kDense)
          if (call.is_sigmoid) inverse = 1;
        auto* to = static_cast<std::uint16_t*>(f.out.data) + f.out.offset(w.batch, w.head) + i * f.out.row_stride;
        auto* rest = static_cast<std::uint16_t*>(f.remainder) + call.row(w.batch, w.head, i) * f.out.dim;
        const bool finite_row = !inside || is_finite(inverse * (blind ? 0.f : maximum));
        if constexpr (Rule::kDense)
          if (f.out.dtype == Dtype::f32) {
            auto* numbers = static_cast<float*>(f.out.data) + f.out.offset(w.batch, w.head) + i * f.out.row_stride;
            finite_rows = store_floats(numbers, f.out.dim, inside, lane, r, inverse, o) && finite_row && finite_rows;
            continue;
          }
        finite_rows = store_row<T>(to, f.remainder != nullptr, rest, f.out.dim, inside, lane, r, inverse, o) &&
                      finite_row && finite_rows;
      }
      if (!__all_sync(~0u, finite_rows) && lane == 0) f.redo[w.item * kGroups + group] = 1;
    }

    RAPT_DEVICE void run() {
      if (group == kGroups - 1) pass_turn();  // the first turn is group 0's
      Work w = take_work(0);
      await_q(0);
      await_k();
      start_qk();
      for (int round = 1;; ++round) {
        begin(w);
        run_tiles(w);
        await_v();
        start_pv();
        const Work next = take_work(round);
        if (next.item >= 0) {
          await_q(round);
          await_k();
        }
        start_qk();  // of the next item; after the last one it multiplies leftovers, unread
        finish_output<1>();
        store(w);
        if (next.item < 0) break;
        w = next;
      }
      wgmma_wait<0>(s);
    }
  };
};

template <class Rule, class T, int D, class Plan>
__global__ __launch_bounds__(128 * (Plan::kGroups + 1), 1) void forward(const __grid_constant__ CUtensorMap q_map,
                                                                        const __grid_constant__ CUtensorMap k_map,
                                                                        const __grid_constant__ CUtensorMap v_map,
                                                                        const __grid_constant__ Call call,
                                                                        const __grid_constant__ ForwardArguments f) {
  using Kernel = Forward<Rule, T, D, Plan>;
  extern __shared__ std::uint8_t bytes[];
  auto& shared = *reinterpret_cast<typename Kernel::Shared*>(bytes + (1024 - shared_address(bytes) % 1024) % 1024);
  if (threadIdx.x == 0) Kernel::init(shared);
  __syncthreads();
  const int warp = uniform(threadIdx.x / 32);
  if (warp < 4) {
    give_registers<Kernel::kProducerRegisters>();
    if (threadIdx.x == 0) typename Kernel::Producer{call, f, shared, q_map, k_map, v_map}.run();
  } else {
    take_registers<Kernel::kConsumerRegisters>();
    typename Kernel::Consumer{call, f, shared, warp / 4 - 1, warp % 4, static_cast<int>(threadIdx.x % 32)}.run();
  }
}

// Recomputes what the fast kernel could not: rows that are not finite, or that a hidden non-finite value has spoilt.
template <class M>
__global__ __launch_bounds__(kThreads, 1) void redo_forward(const __grid_constant__ Call call,
                                                            const __grid_constant__ ForwardOutputs outputs,
                                                            const __grid_constant__ ForwardArguments f) {
  extern __shared__ float4 memory[];
  const int tiles = (call.queries + 64 * f.groups - 1) / (64 * f.groups), passes = column_passes(call);
  const int count = tiles * f.groups * call.heads * call.batch;
  // Tests many marks at once: nearly always none is set.
  for (int base = static_cast<int>(blockIdx.x) * kThreads; base < count;
       base += static_cast<int>(gridDim.x) * kThreads) {
    const int own = base + static_cast<int>(threadIdx.x);
    if (!__syncthreads_or(own < count && f.redo[own] != 0)) continue;
    for (int n = base; n < ::min(base + kThreads, count); ++n) {
      if (f.redo[n] == 0) continue;
      const OwnedTile at = owned_tile(n / f.groups, tiles, call.heads, call.batch, f.heads_together, true);
      const int first = (at.tile * f.groups + n % f.groups) * 64;
      if (first >= call.queries) continue;
      for (int pass = 0; pass < passes; ++pass)
        ForwardBlock<M>(call, outputs, *reinterpret_cast<cuda::Shared*>(memory), at.batch, at.head, first, pass).run();
    }
  }
}

}  // namespace rapt::inline v1::cuda::hopper
