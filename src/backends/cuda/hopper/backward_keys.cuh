#pragma once

#include "backends/cuda/hopper/gradients.cuh"

// The gradients of keys and values. kKey and kValue say which: where their sums do not fit the registers together, each
// has a kernel of its own.
namespace rapt::inline v1::cuda::hopper {

template <class Rule, class T, int D, class Plan, bool kKey, bool kValue>
struct KeySide {
  static constexpr int kGroups = Plan::kGroups, kQueries = Plan::kTile, kKeys = 64 * kGroups;
  static constexpr int kPanels = (D + 63) / 64, kRowBytes = kPanels * 128;
  static constexpr bool kScaleOnly = Rule::kScaleOnly;
  static constexpr int kStageBytes = 2 * kRowBytes * kQueries + 8 * kQueries;
  static constexpr int kOwnedBytes = (kKey ? 2 : 1) * kRowBytes * kKeys;
  // A power of two, so that the number of a step tells its stage and phase.
  static constexpr int kStages = (227 * 1024 - 3072 - kOwnedBytes) / kStageBytes >= 4 ? 4 : 2;
  RAPT_DEVICE static int stage(int n) { return n % kStages; }
  RAPT_DEVICE static std::uint32_t phase(int n) { return static_cast<std::uint32_t>(n / kStages) & 1; }

  // A tile of keys of one key head, and the query tiles that see some of it, gone through once for each query head.
  struct Work {
    int first_key, key_head, batch;
    TileSpan tiles;
  };

  struct Shared {
    alignas(1024) std::uint16_t k[kGroups][kPanels][64][64];
    alignas(1024) std::uint16_t v[kKey ? kGroups : 1][kPanels][kKey ? 64 : 8][64];
    alignas(1024) std::uint16_t q[kStages][kPanels][kQueries][64];
    alignas(1024) std::uint16_t dout[kStages][kPanels][kQueries][64];
    alignas(16) float log2_sum[kStages][kQueries], delta[kStages][kQueries];
    RowRange range[kKeys];  // the queries that see a key
    Work work;
    Barrier kv_full, q_full[kStages], q_empty[kStages], dout_full[kStages], dout_empty[kStages];
  };
  static constexpr int kSharedBytes = sizeof(Shared) + 1024;
  static_assert(kSharedBytes <= 227 * 1024);

  RAPT_DEVICE static Work work(const Call& call, const FastGradients& f, int item) {
    const OwnedTile t = owned_tile(item, (call.keys + kKeys - 1) / kKeys, call.heads / call.k.group, call.batch,
                                   f.heads_together, false);
    const TileQueries seen = tile_queries(call, t.batch, t.tile * kKeys, kKeys);
    Work w{t.tile * kKeys, t.head, t.batch};
    const int tiles = (call.queries + kQueries - 1) / kQueries;
    w.tiles.begin = ::min(seen.some.begin / kQueries, tiles - 1);
    w.tiles.end =
        ::max(w.tiles.begin + 1, (seen.some.end + kQueries - 1) / kQueries);  // keys that no query sees: the zeros
    w.tiles.full = (seen.all.begin + kQueries - 1) / kQueries;
    // Queries past the end have no weight.
    w.tiles.cut = seen.all.end == call.queries ? tiles : seen.all.end / kQueries;
    return w;
  }

  RAPT_DEVICE static void init(Shared& shared, const Call& call, const Work& w) {
    if (threadIdx.x == 0) {
      shared.work = w;
      barrier_init(&shared.kv_full, 1);
      for (int s = 0; s < kStages; ++s) {
        barrier_init(&shared.q_full[s], 1);
        barrier_init(&shared.q_empty[s], 4 * kGroups);
        barrier_init(&shared.dout_full[s], 1);
        barrier_init(&shared.dout_empty[s], 4 * kGroups);
      }
      barrier_init_fence();
    }
    const RowMask mask(call, w.batch);
    for (int n = static_cast<int>(threadIdx.x); n < kKeys; n += Plan::kThreads)
      shared.range[n] = mask.queries_of(w.first_key + n);
  }

  struct Producer {
    const Call& call;
    const FastGradients& f;
    Shared& shared;
    const CUtensorMap &q_map, &k_map, &v_map, &dout_map;

    RAPT_DEVICE void load(const Work& w, int n, int head, int tile) {
      const int s = stage(n);
      const int row = (w.batch * call.heads + head) * f.padded_queries + tile * kQueries;
      barrier_wait(&shared.q_empty[s], phase(n) ^ 1);
      barrier_expect(&shared.q_full[s], sizeof(shared.q[0]) + sizeof(shared.log2_sum[0]));
      for (int panel = 0; panel < kPanels; ++panel)
        copy_box(shared.q[s][panel], &q_map, &shared.q_full[s], panel * 64, tile * kQueries, head, w.batch);
      copy_bytes(shared.log2_sum[s], f.log2_sum + row, &shared.q_full[s], sizeof(shared.log2_sum[0]));
      barrier_wait(&shared.dout_empty[s], phase(n) ^ 1);
      barrier_expect(&shared.dout_full[s], sizeof(shared.dout[0]) + sizeof(shared.delta[0]));
      for (int panel = 0; panel < kPanels; ++panel)
        copy_box(shared.dout[s][panel], &dout_map, &shared.dout_full[s], panel * 64, tile * kQueries, head, w.batch);
      copy_bytes(shared.delta[s], f.delta + row, &shared.dout_full[s], sizeof(shared.delta[0]));
    }

    RAPT_DEVICE void run(const Work& w) {
      barrier_expect(&shared.kv_full, (kKey ? 2 : 1) * static_cast<int>(sizeof(shared.k)));
      for (int group = 0; group < kGroups; ++group)
        for (int panel = 0; panel < kPanels; ++panel) {
          const int row = w.first_key + 64 * group;
          copy_box(shared.k[group][panel], &k_map, &shared.kv_full, panel * 64, row, w.key_head, w.batch);
          if constexpr (kKey)
            copy_box(shared.v[group][panel], &v_map, &shared.kv_full, panel * 64, row, w.key_head, w.batch);
        }
      int n = 0;
      for (int head = w.key_head * call.k.group; head < (w.key_head + 1) * call.k.group; ++head)
#pragma unroll 1
        for (int tile = w.tiles.begin; tile < w.tiles.end; ++tile) load(w, n++, head, tile);
    }
  };

  struct Consumer {
    const Call& call;
    const FastGradients& f;
    Shared& shared;
    const int group, warp, lane;
    Rule rule;
    std::conditional_t<Rule::kDense, DenseQueries<T, Rule::kDense ? kQueries : 32, (D > 128 ? 8 : 1)>, NotDense> dense;

    // Here a row is a key and a column of s and dp a query.
    float dk[kKey ? D / 2 : 1], dv[kValue ? D / 2 : 1];
    float s[kQueries / 2], dp[kQueries / 2];
    std::uint32_t p[kQueries / 16][4], ds[kQueries / 16][4];

    // The first of the thread's two among the block's keys; worked out anew, since registers are short.
    RAPT_DEVICE static int own_row() {
      return static_cast<int>(threadIdx.x) / 32 * 16 - 64 + static_cast<int>(threadIdx.x) % 32 / 4;
    }

    RAPT_DEVICE void release(Barrier* b) {
      __syncwarp();
      if (lane == 0) barrier_arrive(b);
    }
    RAPT_DEVICE void await_turn() { named_wait(1 + group, 256); }
    RAPT_DEVICE void pass_turn() { named_arrive(1 + (group + 1) % kGroups, 256); }

    // Starts sᵀ = k·qᵀ and dpᵀ = v·doutᵀ of step n; after the last one they multiply leftovers, unread.
    RAPT_DEVICE void start_scores(int n, bool more) {
      if (more) barrier_wait(&shared.q_full[stage(n)], phase(n));
      if constexpr (Rule::kReadsRaw) start_product<T, D>(s, shared.k[group], shared.q[stage(n)]);
      else start_nothing();
      if (more) barrier_wait(&shared.dout_full[stage(n)], phase(n));
      if constexpr (kKey) start_product<T, D>(dp, shared.v[group], shared.dout[stage(n)]);
    }

    RAPT_DEVICE DensePlace dense_place(const Work& w) const {
      return {w.batch, rule.head(), anew(w.first_key + own_row())};
    }

    // uniform(), which costs registers that the widest rows do not have.
    RAPT_DEVICE static int uniform_if_narrow(int x) { return D > 192 ? x : uniform(x); }

    // Pairs that may not meet.
    RAPT_DEVICE void hide(int tile) {
      const int column = tile * kQueries + lane % 4 * 2;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const RowRange range = shared.range[own_row() + 8 * r];
        hide_outside(s, r, range.begin - column, range.end - column);
      }
    }

    RAPT_DEVICE float2 pair_of(const float (&x)[kQueries], int n) const {
      return *reinterpret_cast<const float2*>(&x[8 * n + lane % 4 * 2]);
    }

    // s, dp → p, ds. Hidden pairs become 0.
    RAPT_DEVICE void plain_gradients(int step) {
      const float factor = Rule::exponent_factor(call);
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) {
        const float2 log2_sum = pair_of(shared.log2_sum[stage(step)], n), delta = pair_of(shared.delta[stage(step)], n);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float &x = s[4 * n + e], &y = dp[4 * n + e];
          x = exp2_fast(fmaf(x, factor, e % 2 ? -log2_sum.y : -log2_sum.x));
          y = x * (y - (e % 2 ? delta.y : delta.x));
        }
        if constexpr (kValue) pack_columns<T>(p, s, n);
        if constexpr (kKey) pack_columns<T>(ds, dp, n);
      }
    }

    RAPT_DEVICE void formula_gradients(const Work& w, int step, int tile, bool cut) {
      rule.begin_tile(call, tile * kQueries + lane % 4 * 2, w.first_key + own_row());
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) {
        const float2 log2_sum = pair_of(shared.log2_sum[stage(step)], n), delta = pair_of(shared.delta[stage(step)], n);
        if constexpr (Rule::kDense) dense.reach(call, dense_place(w), n, tile * kQueries, lane % 4 * 2);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = e / 2, c = e % 2;
          float &x = s[4 * n + e], &y = dp[4 * n + e];
          const auto nothing = [](float, const float*, bool) {};
          const float row_sum = c ? log2_sum.y : log2_sum.x, row_delta = c ? delta.y : delta.x;
          const bool outside = cut && x == -INFINITY;
          PairGradient g;
          if constexpr (Rule::kDense)
            g = dense_gradient(rule, call.is_sigmoid, x, dense.bias(call, n, r, c), y, row_sum, row_delta,
                               outside || !dense.sees(call, n, r, c), 8 * n + c, 8 * r, nothing);
          else g = pair_gradient(rule, x, y, row_sum, row_delta, outside, 8 * n + c, 8 * r, nothing);
          x = g.weight;
          y = g.raw;
        }
        if constexpr (kValue) pack_columns<T>(p, s, n);
        if constexpr (kKey) pack_columns<T>(ds, dp, n);
      }
    }

    // Step n begins with sᵀ and dpᵀ under way and ends with those of the next, behind dk of this one.
    RAPT_DEVICE void step(const Work& w, int n, int tile, bool more) {
      if constexpr (Rule::kDense) dense.load(call, dense_place(w), tile * kQueries, lane % 4 * 2);
      wgmma_wait<0>(s);
      if constexpr (kKey) wgmma_wait<0>(dp);
      if (n > 0) release(kKey ? &shared.q_empty[stage(n - 1)] : &shared.dout_empty[stage(n - 1)]);
      const bool cut = uniform_if_narrow(w.tiles.is_cut(tile));
      if (cut) hide(tile);
      if constexpr (kScaleOnly) plain_gradients(n);
      else formula_gradients(w, n, tile, cut);
      // Not before: the row sums came with the queries.
      if constexpr (!kKey) release(&shared.q_empty[stage(n)]);
      await_turn();
      if constexpr (kValue) start_sum<T>(dv, p, shared.dout[stage(n)]);
      if constexpr (kKey) start_sum<T>(dk, ds, shared.q[stage(n)]);
      if constexpr (kKey && kValue) wgmma_wait<1>(dv);  // the registers of p are needed
      if constexpr (kKey) release(&shared.dout_empty[stage(n)]);
      start_scores(n + 1, more);
      pass_turn();
    }

    RAPT_DEVICE void run(const Work& w) {
      if constexpr (kKey) {
#pragma unroll
        for (int e = 0; e < D / 2; ++e) dk[e] = 0;
        keep(dk);
      }
      if constexpr (kValue) {
#pragma unroll
        for (int e = 0; e < D / 2; ++e) dv[e] = 0;
        keep(dv);
      }
      barrier_wait(&shared.kv_full, 0);
      if constexpr (!Rule::kReadsRaw) {
#pragma unroll
        for (float& x : s) x = 0;
      }
      if (group == kGroups - 1) pass_turn();  // the first turn is group 0's
      start_scores(0, true);
      // The rest of the span stays in shared memory, since registers are short.
      int head = w.key_head * call.k.group, tile = uniform_if_narrow(w.tiles.begin);
      const int steps = uniform(call.k.group * (w.tiles.end - w.tiles.begin));
      rule.begin(call, w.batch, head);
#pragma unroll 1
      for (int n = 0; n < steps; ++n) {
        step(w, n, tile, n + 1 < steps);
        if (uniform_if_narrow(++tile == w.tiles.end) && n + 1 < steps) {
          tile = uniform_if_narrow(w.tiles.begin);
          rule.begin(call, w.batch, ++head);
        }
      }
      if constexpr (kKey) wgmma_wait<0>(dk);
      if constexpr (kValue) wgmma_wait<0>(dv);
      wgmma_wait<0>(s);
      wgmma_wait<0>(dp);
      store(w);
    }

    RAPT_DEVICE void store(const Work& w) {
      const int head = w.key_head * call.k.group;
      bool finite = true;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = w.first_key + own_row() + 8 * r;
        const auto store_to = [&](const Array& a, float scale, const auto& x) {
          auto* to = static_cast<std::uint16_t*>(a.data) + a.offset(w.batch, head) + row * a.row_stride;
          finite = store_row<T>(to, false, nullptr, a.dim, a.data && row < call.keys, lane, r, scale, x) && finite;
        };
        if constexpr (kKey) store_to(f.dk, kScaleOnly ? call.scale : 1.f, dk);
        if constexpr (kValue) store_to(f.dv, 1.f, dv);
      }
      if (!finite) *f.redo = 1;
    }
  };
};

}  // namespace rapt::inline v1::cuda::hopper
