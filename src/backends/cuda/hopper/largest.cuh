#pragma once

#include "backends/cuda/hopper/forward.cuh"

// The first largest score of every row, which is all that argmax needs: q·kᵀ alone is computed, and values are not read.
namespace rapt::inline v1::cuda::hopper {

template <class Rule, class T, int D>
struct Largest {
  static constexpr int kGroups = 2, kKeys = 128, kQueries = 64 * kGroups, kThreads = 128 * (kGroups + 1);
  static constexpr int kPanels = (D + 63) / 64, kRowBytes = kPanels * 128;
  static constexpr int kConsumerRegisters = 232, kProducerRegisters = 40;
  static constexpr int kStages = std::min(4, (227 * 1024 - 3072 - kRowBytes * kQueries) / (kRowBytes * kKeys));
  static_assert(kStages >= 2);
  using Ring = StageRing<kStages>;

  // A tile of queries of one head, and the key tiles that it sees, at least one.
  struct Work {
    int first_query, head, batch;
    int first, end, full, cut;

    RAPT_DEVICE bool is_cut(int tile) const { return tile >= cut || tile < full; }
  };

  struct Shared {
    alignas(1024) std::uint16_t q[kGroups][kPanels][64][64];
    alignas(1024) std::uint16_t k[kStages][kPanels][kKeys][64];
    Barrier q_full, full[kStages], empty[kStages];
  };
  static constexpr int kSharedBytes = sizeof(Shared) + 1024;
  static_assert(kSharedBytes <= 227 * 1024);

  RAPT_DEVICE static void init(Shared& shared) {
    barrier_init(&shared.q_full, 1);
    for (int s = 0; s < kStages; ++s) {
      barrier_init(&shared.full[s], 1);
      barrier_init(&shared.empty[s], 4 * kGroups);
    }
    barrier_init_fence();
  }

  RAPT_DEVICE static Work work(const Call& call, const ForwardArguments& f, int item) {
    const int tiles = (call.queries + kQueries - 1) / kQueries;
    const OwnedTile own = owned_tile(item, tiles, call.heads, call.batch, f.heads_together, true);
    Work w{own.tile * kQueries, own.head, own.batch};
    const TileKeys seen = tile_keys(call, w.batch, w.first_query, kQueries);
    w.first = seen.some.begin / kKeys;
    w.end = ::max(w.first + 1, (seen.some.end + kKeys - 1) / kKeys);
    w.full = (seen.all.begin + kKeys - 1) / kKeys;
    w.cut = seen.all.end / kKeys;
    return w;
  }

  RAPT_DEVICE static void produce(const Call& call, const Work& w, Shared& shared, const CUtensorMap& q_map,
                                  const CUtensorMap& k_map) {
    Ring ring;
    const int q_batch = call.q.batches == 1 ? 0 : w.batch, k_batch = call.k.batches == 1 ? 0 : w.batch;
    barrier_expect(&shared.q_full, sizeof(shared.q));
    for (int group = 0; group < kGroups; ++group)
      for (int panel = 0; panel < kPanels; ++panel)
        copy_box(shared.q[group][panel], &q_map, &shared.q_full, panel * 64, w.first_query + group * 64,
                 w.head / call.q.group, q_batch);
#pragma unroll 1
    for (int tile = w.first; tile < w.end; ++tile) {
      const int s = ring.stage;
      barrier_wait(&shared.empty[s], ring.phase ^ 1);
      barrier_expect(&shared.full[s], sizeof(shared.k[0]));
      for (int panel = 0; panel < kPanels; ++panel)
        copy_box(shared.k[s][panel], &k_map, &shared.full[s], panel * 64, tile * kKeys, w.head / call.k.group, k_batch);
      ring.advance();
    }
  }

  // One warpgroup's 64 queries.
  struct Consumer {
    const Call& call;
    const ForwardArguments& f;
    Shared& shared;
    const int group, warp, lane;
    Ring ring;
    Rule rule;
    DenseKeys<T, kKeys, 1> dense;
    float s[kKeys / 2];
    float best[2];
    int key[2];
    bool has_nan;

    RAPT_DEVICE void find_scores(const DensePlace& at, int tile) {
      const int first = tile * kKeys, column = lane % 4 * 2;
      dense.load(call, at, first, column);
      barrier_wait(&shared.full[ring.stage], ring.phase);
      if constexpr (Rule::kReadsRaw) {
        start_product<T, D>(s, shared.q[group], shared.k[ring.stage]);
        wgmma_wait<0>(s);
      } else {
#pragma unroll
        for (float& x : s) x = 0;
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(&shared.empty[ring.stage]);
      ring.advance();
      rule.begin_tile(call, at.first_row, first + column);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[4 * n + e] = rule.value(s[4 * n + e], 8 * (e / 2), 8 * n + e % 2);
      if (call.softcap > 0) {
#pragma unroll
        for (float& x : s) x = rule.capped(x);
      }
      dense.apply(call, at, s, first, column);
    }

    // Looks for the place of a maximum only where it is larger than those before.
    RAPT_DEVICE void compare(int first_column) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float top = -INFINITY;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const float x = s[4 * n + 2 * r + c];
            top = fmaxf(top, x);
            has_nan = has_nan || x != x;
          }
        if (!__any_sync(~0u, top > best[r])) continue;
        int place = 0;
#pragma unroll
        for (int n = kKeys / 8 - 1; n >= 0; --n)
#pragma unroll
          for (int c = 1; c >= 0; --c) place = s[4 * n + 2 * r + c] == top ? 8 * n + c : place;
        key[r] = top > best[r] ? first_column + place : key[r];
        best[r] = fmaxf(best[r], top);
      }
    }

    RAPT_DEVICE void run(const Work& w, int item) {
      const DensePlace at{w.batch, w.head, w.first_query + group * 64 + warp * 16 + lane / 4};
      const RowMask mask(call, w.batch);
      RowRange range[2];
      has_nan = false;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        range[r] = mask.keys_of(at.first_row + 8 * r);
        best[r] = -INFINITY;
        key[r] = -1;
      }
      rule.begin(call, w.batch, w.head);
      barrier_wait(&shared.q_full, 0);
      const int end = uniform(w.end);
#pragma unroll 1
      for (int tile = uniform(w.first); tile < end; ++tile) {
        find_scores(at, tile);
        const int column = tile * kKeys + lane % 4 * 2;
        if (w.is_cut(tile))
#pragma unroll
          for (int r = 0; r < 2; ++r) hide_outside(s, r, range[r].begin - column, range[r].end - column);
        compare(column);
      }
      store(w, at.first_row, item);
    }

    RAPT_DEVICE void store(const Work& w, int first_row, int item) {
      bool sound = !has_nan;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int bit = 1; bit < 4; bit *= 2) {
          const float other = __shfl_xor_sync(~0u, best[r], bit);
          const int other_key = __shfl_xor_sync(~0u, key[r], bit);
          if (other > best[r] || (other == best[r] && other_key < key[r])) {
            best[r] = other;
            key[r] = other_key;
          }
        }
        const int i = first_row + 8 * r;
        if (i >= call.queries) continue;
        sound = sound && (is_finite(best[r]) || key[r] < 0);
        if (lane % 4 != 0) continue;
        const std::int64_t row = call.row(w.batch, w.head, i);
        f.rows.max[row] = best[r];
        f.rows.sum[row] = static_cast<float>(key[r]);
        const auto put = [&](const Array& a, float x) {
          if (a.data) cuda::store(a, a.offset(w.batch, w.head) + i * a.row_stride, x);
        };
        put(f.lse, best[r]);
        put(f.row_max, best[r]);
        put(f.row_sum, static_cast<float>(key[r]));
      }
      if (!__all_sync(~0u, sound) && lane == 0) f.redo[item * kGroups + group] = 1;
    }
  };
};

template <class Rule, class T, int D>
__global__ __launch_bounds__(384, 1) void largest(const __grid_constant__ CUtensorMap q_map,
                                                  const __grid_constant__ CUtensorMap k_map,
                                                  const __grid_constant__ Call call,
                                                  const __grid_constant__ ForwardArguments f) {
  using Kernel = Largest<Rule, T, D>;
  extern __shared__ std::uint8_t bytes[];
  auto& shared = *reinterpret_cast<typename Kernel::Shared*>(bytes + (1024 - shared_address(bytes) % 1024) % 1024);
  if (threadIdx.x == 0) Kernel::init(shared);
  __syncthreads();
  const auto w = Kernel::work(call, f, static_cast<int>(blockIdx.x));
  const int warp = uniform(threadIdx.x / 32);
  if (warp < 4) {
    give_registers<Kernel::kProducerRegisters>();
    if (threadIdx.x == 0) Kernel::produce(call, w, shared, q_map, k_map);
  } else {
    take_registers<Kernel::kConsumerRegisters>();
    typename Kernel::Consumer{call, f, shared, warp / 4 - 1, warp % 4, static_cast<int>(threadIdx.x % 32)}.run(
        w, static_cast<int>(blockIdx.x));
  }
}

}  // namespace rapt::inline v1::cuda::hopper
