#pragma once

#include "backends/cuda/hopper/gradients.cuh"

// The gradients of queries, and of the numbers of a mechanism; or, with kTable, that of a table by position: the gradients of
// a tile's scores go to shared memory, where each thread sums a diagonal or two.
namespace rapt::inline v1::cuda::hopper {

template <class Rule, class T, int D, class Plan, bool kTable = false>
struct QuerySide {
  static constexpr int kGroups = Plan::kGroups, kKeys = Plan::kTile, kQueries = 64 * kGroups;
  static constexpr int kPanels = (D + 63) / 64, kRowBytes = kPanels * 128, kSlots = Rule::kSlots;
  static constexpr bool kScaleOnly = Rule::kScaleOnly, kReadsRaw = Rule::kReadsRaw && !kTable;
  static constexpr int kPitch = kTable ? kKeys + 8 : 1, kPairRows = kTable ? 64 : 1;
  static constexpr int kPairBytes = kTable ? 4 * kGroups * kPairRows * kPitch : 0;
  static constexpr int kStages =
      std::min(4, (227 * 1024 - 3072 - 2 * kRowBytes * kQueries - kPairBytes) / (2 * kRowBytes * kKeys));
  static_assert(kStages >= 2);
  using Ring = StageRing<kStages>;

  // A tile of queries of one head, and the key tiles that it sees.
  struct Work {
    int tile, first_query, head, batch;
    TileSpan tiles;
  };

  struct Shared {
    alignas(1024) std::uint16_t q[kGroups][kPanels][64][64];
    alignas(1024) std::uint16_t dout[kGroups][kPanels][64][64];
    alignas(1024) std::uint16_t k[kStages][kPanels][kKeys][64];
    alignas(1024) std::uint16_t v[kStages][kPanels][kKeys][64];
    alignas(16) float by_pair[kGroups][kPairRows][kPitch];
    RowRange range[kQueries];  // the keys that a query sees
    Work work;
    Barrier q_full, k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
  };
  static constexpr int kSharedBytes = sizeof(Shared) + 1024;
  static_assert(kSharedBytes <= 227 * 1024);

  RAPT_DEVICE static Work work(const Call& call, const FastGradients& f, int item) {
    const int tiles = kTable ? f.window_tiles : (call.queries + kQueries - 1) / kQueries;
    OwnedTile t = owned_tile(item, tiles, call.heads, call.batch, f.heads_together, true);
    if constexpr (kTable) t.tile += f.first_tile;
    const TileKeys seen = tile_keys(call, t.batch, t.tile * kQueries, kQueries);
    Work w{t.tile, t.tile * kQueries, t.head, t.batch};
    w.tiles.begin = seen.some.begin / kKeys;
    w.tiles.end = ::max(w.tiles.begin + 1, (seen.some.end + kKeys - 1) / kKeys);  // queries that see nothing: the zeros
    w.tiles.full = (seen.all.begin + kKeys - 1) / kKeys;
    w.tiles.cut = seen.all.end / kKeys;
    return w;
  }

  RAPT_DEVICE static void init(Shared& shared, const Call& call, const Work& w) {
    if (threadIdx.x == 0) {
      shared.work = w;
      barrier_init(&shared.q_full, 1);
      for (int s = 0; s < kStages; ++s) {
        barrier_init(&shared.k_full[s], 1);
        barrier_init(&shared.k_empty[s], 4 * kGroups);
        barrier_init(&shared.v_full[s], 1);
        barrier_init(&shared.v_empty[s], 4 * kGroups);
      }
      barrier_init_fence();
    }
    const RowMask mask(call, w.batch);
    for (int n = static_cast<int>(threadIdx.x); n < kQueries; n += Plan::kThreads)
      shared.range[n] = mask.keys_of(w.first_query + n);
  }

  struct Producer {
    const Call& call;
    const FastGradients& f;
    Shared& shared;
    const CUtensorMap &q_map, &k_map, &v_map, &dout_map;
    Ring ring;

    RAPT_DEVICE void run(const Work& w) {
      barrier_expect(&shared.q_full, sizeof(shared.q) + sizeof(shared.dout));
      for (int group = 0; group < kGroups; ++group)
        for (int panel = 0; panel < kPanels; ++panel) {
          const int row = w.first_query + 64 * group;
          copy_box(shared.q[group][panel], &q_map, &shared.q_full, panel * 64, row, w.head, w.batch);
          copy_box(shared.dout[group][panel], &dout_map, &shared.q_full, panel * 64, row, w.head, w.batch);
        }
      const int key_head = w.head / call.k.group;
#pragma unroll 1
      for (int tile = w.tiles.begin; tile < w.tiles.end; ++tile) {
        const int s = ring.stage;
        barrier_wait(&shared.k_empty[s], ring.phase ^ 1);
        barrier_expect(&shared.k_full[s], sizeof(shared.k[0]));
        for (int panel = 0; panel < kPanels; ++panel)
          copy_box(shared.k[s][panel], &k_map, &shared.k_full[s], panel * 64, tile * kKeys, key_head, w.batch);
        barrier_wait(&shared.v_empty[s], ring.phase ^ 1);
        barrier_expect(&shared.v_full[s], sizeof(shared.v[0]));
        for (int panel = 0; panel < kPanels; ++panel)
          copy_box(shared.v[s][panel], &v_map, &shared.v_full[s], panel * 64, tile * kKeys, key_head, w.batch);
        ring.advance();
      }
    }
  };

  struct Consumer {
    const Call& call;
    const FastGradients& f;
    Shared& shared;
    const int group, warp, lane;
    Ring ring, next_ring;
    Rule rule;
    std::conditional_t<Rule::kDense, DenseKeys<T, Rule::kDense ? kKeys : 32, 1>, NotDense> dense;
    float sums[kSlots + 1];  // the last: of a dense rule, ∂ of the number added to all scores of a head
    int own_row;             // the first of the thread's two among the block's queries
    float log2_sum[2], delta[2];

    float dq[kReadsRaw ? D / 2 : 1];
    float s[kKeys / 2], dp[kKeys / 2];
    std::uint32_t ds[kKeys / 16][4];

    RAPT_DEVICE void release(Barrier* b) {
      __syncwarp();
      if (lane == 0) barrier_arrive(b);
    }
    RAPT_DEVICE void await_turn() { named_wait(1 + group, 256); }
    RAPT_DEVICE void pass_turn() { named_arrive(1 + (group + 1) % kGroups, 256); }

    // Starts s = q·kᵀ and dp = dout·vᵀ of the next step; after the last one they multiply leftovers, unread.
    RAPT_DEVICE void start_scores(bool more) {
      const int n = next_ring.stage;
      if (more) barrier_wait(&shared.k_full[n], next_ring.phase);
      if constexpr (Rule::kReadsRaw) start_product<T, D>(s, shared.q[group], shared.k[n]);
      else start_nothing();
      if (more) barrier_wait(&shared.v_full[n], next_ring.phase);
      start_product<T, D>(dp, shared.dout[group], shared.v[n]);
      next_ring.advance();
    }

    RAPT_DEVICE void hide(int tile) {
      const int column = tile * kKeys + lane % 4 * 2;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const RowRange range = shared.range[own_row + 8 * r];
        hide_outside(s, r, range.begin - column, range.end - column);
      }
    }

    // Without a formula: p first, while dp is still under way.
    RAPT_DEVICE void weights() {
      const float factor = Rule::exponent_factor(call);
#pragma unroll
      for (int e = 0; e < kKeys / 2; ++e) s[e] = exp2_fast(fmaf(s[e], factor, -log2_sum[e / 2 % 2]));
    }
    RAPT_DEVICE void gradients() {
#pragma unroll
      for (int e = 0; e < kKeys / 2; ++e) s[e] *= dp[e] - delta[e / 2 % 2];
    }

    RAPT_DEVICE void formula_gradients(const Work& w, int tile, bool cut) {
      rule.begin_tile(call, w.first_query + own_row, tile * kKeys + lane % 4 * 2);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = e / 2, c = e % 2;
          float& x = s[4 * n + e];
          x = pair_gradient(rule, x, dp[4 * n + e], log2_sum[r], delta[r], cut && x == -INFINITY, 8 * r, 8 * n + c,
                            [&](float gradient, const float* by_slot, bool hidden) {
#pragma unroll
                              for (int slot = 0; slot < kSlots; ++slot) {
                                if (Rule::is_relative(slot)) continue;
                                const float part = gradient * by_slot[slot];
                                sums[slot] += hidden ? 0.f : part;
                              }
                            })
                  .raw;
        }
    }

    RAPT_DEVICE DensePlace dense_place(const Work& w) const { return {w.batch, w.head, anew(w.first_query + own_row)}; }

    // With those of the biased scores in place of dp.
    RAPT_DEVICE void dense_gradients(const Work& w, int tile, bool cut) {
      rule.begin_tile(call, w.first_query + own_row, tile * kKeys + lane % 4 * 2);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        dense.reach(call, dense_place(w), n, tile * kKeys, lane % 4 * 2);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = e / 2, c = e % 2;
          float &x = s[4 * n + e], &y = dp[4 * n + e];
          const float2 bias = dense.bias(call, n, r);
          const bool hidden = (cut && x == -INFINITY) || !dense.sees(call, n, r, c);
          x = dense_gradient(rule, call.is_sigmoid, x, c ? bias.y : bias.x, y, log2_sum[r], delta[r], hidden, 8 * r,
                             8 * n + c,
                             [&](float gradient, const float* by_slot, bool is_hidden) {
                               y = is_hidden ? 0.f : gradient;
                               sums[kSlots] += y;
#pragma unroll
                               for (int slot = 0; slot < kSlots; ++slot) {
                                 if (Rule::is_relative(slot)) continue;
                                 const float part = gradient * by_slot[slot];
                                 sums[slot] += is_hidden ? 0.f : part;
                               }
                             })
                  .raw;
        }
      }
      if (f.dbias.data) {
        if (f.dbias.dtype == Dtype::f32) store_bias<Dtype::f32>(w, tile);
        else store_bias<std::is_same_v<T, Bf16> ? Dtype::bf16 : Dtype::f16>(w, tile);
      }
    }

    template <Dtype kDtype>
    RAPT_DEVICE void store_bias(const Work& w, int tile) {
      const int key = tile * kKeys + lane % 4 * 2;
      bool finite = true;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = w.first_query + own_row + 8 * r;
        const std::int64_t place = f.dbias.offset(w.batch, w.head) + row * f.dbias.row_stride + key;
        const int keys = row < call.queries ? call.keys - key : 0;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const float x = dp[4 * n + 2 * r + c];
            if (8 * n + c >= keys) continue;
            finite = finite && is_finite(x);
            cuda::store(f.dbias.data, kDtype, place + 8 * n + c, x);
          }
      }
      if (!finite) *f.redo = 1;
    }

    // The gradients of a tile's scores by the number that the table has for them.
    RAPT_DEVICE void table_gradients(const Work& w, int tile, bool cut) {
      rule.begin_tile(call, w.first_query + own_row, tile * kKeys + lane % 4 * 2);
      float* to = &shared.by_pair[group][warp * 16 + lane / 4][lane % 4 * 2];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float pair[2];
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const int e = 4 * n + 2 * r + c;
            pair_gradient(rule, s[e], dp[e], log2_sum[r], delta[r], cut && s[e] == -INFINITY, 8 * r, 8 * n + c,
                          [&](float gradient, const float* by_slot, bool hidden) {
#pragma unroll
                            for (int slot = 0; slot < kSlots; ++slot) {
                              if (!Rule::is_relative(slot)) continue;
                              const float part = hidden ? 0.f : gradient * by_slot[slot];
                              pair[c] = slot == f.table_slot ? part : pair[c];
                            }
                          });
            if constexpr (!Rule::kReadsRaw) s[e] = 0;  // no product writes the next tile's
          }
          *reinterpret_cast<float2*>(to + 8 * r * kPitch + 8 * n) = make_float2(pair[0], pair[1]);
        }
    }

    // The window of the warpgroup: Σ over its queries i of the pairs (i, j), by j − i + 63, i counted from its first.
    RAPT_DEVICE float* window(const Work& w) const {
      const std::int64_t line = static_cast<std::int64_t>(w.batch) * call.heads + w.head;
      return f.windows + ((line * f.window_tiles + w.tile - f.first_tile) * kGroups + group) * f.window_width;
    }
    RAPT_DEVICE void await_group() { named_wait(4 + group, 128); }

    RAPT_DEVICE void add_diagonals(float* to) {
      bool finite = true;
      for (int n = static_cast<int>(threadIdx.x) % 128; n < 63 + kKeys; n += 128) {
        const int first = ::max(0, 63 - n), last = ::min(63, kKeys + 62 - n);
        float sum = 0;
#pragma unroll 8
        for (int i = first; i <= last; ++i) sum += shared.by_pair[group][i][n - 63 + i];
        to[n] += sum;
        finite = finite && is_finite(sum);
      }
      if (!finite) *f.redo = 1;
    }

    RAPT_DEVICE void table_step(const Work& w, float* to, int tile, bool cut, bool more) {
      wgmma_wait<0>(s);
      wgmma_wait<0>(dp);
      release(&shared.k_empty[ring.stage]);
      release(&shared.v_empty[ring.stage]);
      if (cut) hide(tile);
      table_gradients(w, tile, cut);
      await_turn();
      start_scores(more);
      pass_turn();
      await_group();  // all pairs are there
      add_diagonals(to + tile * kKeys);
      await_group();  // and have been read
      ring.advance();
    }

    RAPT_DEVICE void step(const Work& w, int tile, bool cut, bool first, bool more) {
      const int previous = (ring.stage + kStages - 1) % kStages;
      if constexpr (Rule::kDense) dense.load(call, dense_place(w), tile * kKeys, lane % 4 * 2);
      if constexpr (kScaleOnly) {
        wgmma_wait<1>(s);  // and the last step's dq
        if (!first) release(&shared.k_empty[previous]);
        if (cut) hide(tile);
        weights();
        wgmma_wait<0>(dp);
        release(&shared.v_empty[ring.stage]);
        gradients();
      } else {
        wgmma_wait<0>(s);
        wgmma_wait<0>(dp);
        if (!first) release(&shared.k_empty[previous]);
        release(&shared.v_empty[ring.stage]);
        if (cut) hide(tile);
        if constexpr (Rule::kDense) dense_gradients(w, tile, cut);
        else formula_gradients(w, tile, cut);
      }
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) pack_columns<T>(ds, s, n);
      await_turn();
      if constexpr (kReadsRaw) start_sum<T>(dq, ds, shared.k[ring.stage]);
      start_scores(more);
      pass_turn();
      ring.advance();
    }

    RAPT_DEVICE void run(const Work& w) {
      own_row = group * 64 + warp * 16 + lane / 4;
      const int first_row = w.first_query + own_row;
      const std::int64_t row =
          (static_cast<std::int64_t>(w.batch) * call.heads + w.head) * f.padded_queries + first_row;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const bool inside = first_row + 8 * r < f.padded_queries;
        log2_sum[r] = inside ? f.log2_sum[row + 8 * r] : INFINITY;
        delta[r] = inside ? f.delta[row + 8 * r] : 0;
      }
#pragma unroll
      for (float& e : dq) e = 0;
#pragma unroll
      for (int n = 0; n < (Rule::kDense ? kSlots + 1 : kSlots); ++n) sums[n] = 0;
      rule.begin(call, w.batch, w.head);
      keep(dq);
      barrier_wait(&shared.q_full, 0);
      if constexpr (!Rule::kReadsRaw) {
#pragma unroll
        for (float& x : s) x = 0;
      }
      if (group == kGroups - 1) pass_turn();  // the first turn is group 0's
      start_scores(true);
      const TileSpan span = w.tiles.in_uniform_registers();
      if constexpr (kTable) {
        float* to = window(w);
        for (int n = static_cast<int>(threadIdx.x) % 128; n < f.window_width; n += 128) to[n] = 0;
#pragma unroll 1
        for (int tile = span.begin; tile < span.end; ++tile)
          table_step(w, to, tile, span.is_cut(tile), tile + 1 < span.end);
      } else {
#pragma unroll 1
        for (int tile = span.begin; tile < span.end; ++tile)
          step(w, tile, span.is_cut(tile), tile == span.begin, tile + 1 < span.end);
      }
      wgmma_wait<0>(dq);
      wgmma_wait<0>(s);
      wgmma_wait<0>(dp);
      if constexpr (!kTable) store(w);
    }

    RAPT_DEVICE void store(const Work& w) {
      bool finite = true;
#pragma unroll
      for (int r = 0; r < (kReadsRaw ? 2 : 0); ++r) {
        const int row = w.first_query + own_row + 8 * r;
        auto* to = static_cast<std::uint16_t*>(f.dq.data) + f.dq.offset(w.batch, w.head) + row * f.dq.row_stride;
        if constexpr (kReadsRaw)
          finite = store_row<T>(to, false, nullptr, f.dq.dim, f.dq.data && row < call.queries, lane, r,
                                kScaleOnly ? call.scale : 1.f, dq) &&
                   finite;
      }
      if constexpr (kSlots > 0) {
        if (f.value_grads) {
          const int tiles = (call.queries + kQueries - 1) / kQueries;
          const std::int64_t part =
              ((static_cast<std::int64_t>(w.batch) * call.heads + w.head) * tiles + w.tile) * 4 * kGroups + group * 4;
#pragma unroll
          for (int n = 0; n < kSlots; ++n) {
            float sum = sums[n];
#pragma unroll
            for (int bit = 1; bit < 32; bit *= 2) sum += __shfl_xor_sync(~0u, sum, bit);
            finite = finite && is_finite(sum);
            if (lane == 0) f.value_grads[(part + warp) * kSlots + n] = sum;
          }
        }
      }
      if constexpr (Rule::kDense) finite = store_shift_grad(w) && finite;
      if (!finite) *f.redo = 1;
    }

    RAPT_DEVICE bool store_shift_grad(const Work& w) const {
      if (!f.shift_grads) return true;
      const int tiles = (call.queries + kQueries - 1) / kQueries;
      float sum = sums[kSlots];
#pragma unroll
      for (int bit = 1; bit < 32; bit *= 2) sum += __shfl_xor_sync(~0u, sum, bit);
      const std::int64_t line = static_cast<std::int64_t>(w.batch) * call.heads + w.head;
      if (lane == 0) f.shift_grads[((line * tiles + w.tile) * kGroups + group) * 4 + warp] = sum;
      return is_finite(sum);
    }
  };
};

}  // namespace rapt::inline v1::cuda::hopper
