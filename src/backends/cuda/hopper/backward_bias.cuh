#pragma once

#include "backends/cuda/hopper/gradients.cuh"

// The gradient of a dense bias that batches, heads or queries share: a block owns a tile of it and goes through the pairs that
// share it, in order: s = q·kᵀ, dp = dout·vᵀ, and the gradients of the biased scores are added up in registers. Two products
// more than where every pair has a bias of its own, whose gradient QuerySide writes; but no array of pairs passes through
// memory, and no two blocks add to the same number.
namespace rapt::inline v1::cuda::hopper {

template <class Rule, class T, int D, class Plan>
struct BiasSide {
  static constexpr int kGroups = Plan::kGroups, kKeys = Plan::kTile, kQueries = 64 * kGroups;
  static constexpr int kPanels = (D + 63) / 64, kRowBytes = kPanels * 128;
  static constexpr int kStages = std::min(4, (227 * 1024 - 8192) / (2 * kRowBytes * (kQueries + kKeys)));
  static_assert(kStages >= 1);
  using Ring = StageRing<kStages>;

  // A tile of the bias of `batch` and `head`, which count its own, and the tiles of queries that have this one.
  struct Work {
    int batch, head, first_key, tile, end_tile;
  };

  struct Shared {
    alignas(1024) std::uint16_t q[kStages][kGroups][kPanels][64][64];
    alignas(1024) std::uint16_t dout[kStages][kGroups][kPanels][64][64];
    alignas(1024) std::uint16_t k[kStages][kPanels][kKeys][64];
    alignas(1024) std::uint16_t v[kStages][kPanels][kKeys][64];
    float columns[4 * kGroups][kKeys];  // sums over a warp's rows
    Work work;
    Barrier full[kStages], empty[kStages];
  };
  static constexpr int kSharedBytes = sizeof(Shared) + 1024;
  static_assert(kSharedBytes <= 227 * 1024);

  static int blocks(const Call& call, const BiasGradient& bias) {
    const int tiles = bias.rows == 1 ? 1 : (call.queries + kQueries - 1) / kQueries;
    return (call.keys + kKeys - 1) / kKeys * tiles * bias.heads * bias.batches;
  }

  RAPT_DEVICE static Work work(const Call& call, const FastGradients& f, int item) {
    const BiasGradient& bias = f.shared_bias;
    const int all_tiles = (call.queries + kQueries - 1) / kQueries, tiles = bias.rows == 1 ? 1 : all_tiles;
    const int key_tiles = (call.keys + kKeys - 1) / kKeys;
    Work w;
    w.first_key = item % key_tiles * kKeys;
    item /= key_tiles;
    w.tile = item % tiles;
    w.end_tile = bias.rows == 1 ? all_tiles : w.tile + 1;
    w.head = item / tiles % bias.heads;
    w.batch = item / tiles / bias.heads;
    return w;
  }

  RAPT_DEVICE static void init(Shared& shared, const Call&, const Work& w) {
    if (threadIdx.x != 0) return;
    shared.work = w;
    for (int s = 0; s < kStages; ++s) {
      barrier_init(&shared.full[s], 1);
      barrier_init(&shared.empty[s], 4 * kGroups);
    }
    barrier_init_fence();
  }

  // step(batch, head, first query) for every tile of pairs in which some pair is visible. `same` makes a number uniform.
  template <class Same, class F>
  RAPT_DEVICE static void for_steps(const Call& call, const FastGradients& f, const Work& w, const Same& same,
                                    const F& step) {
    const BiasGradient& bias = f.shared_bias;
    const int end_batch = same(bias.batches == 1 ? call.batch : w.batch + 1);
    const int head = same(bias.heads == 1 ? 0 : w.head), end_head = same(bias.heads == 1 ? call.heads : w.head + 1);
#pragma unroll 1
    for (int b = same(bias.batches == 1 ? 0 : w.batch); b < end_batch; ++b)
#pragma unroll 1
      for (int tile = same(w.tile); tile < same(w.end_tile); ++tile) {
        const TileKeys seen = tile_keys(call, b, tile * kQueries, kQueries);
        if (same(seen.some.end <= w.first_key || seen.some.begin >= w.first_key + kKeys)) continue;
#pragma unroll 1
        for (int h = head; h < end_head; ++h) step(b, h, tile * kQueries);
      }
  }

  struct Producer {
    const Call& call;
    const FastGradients& f;
    Shared& shared;
    const CUtensorMap &q_map, &k_map, &v_map, &dout_map;
    Ring ring;

    RAPT_DEVICE void run(const Work& w) {
      const auto alone = [](int x) { return x; };
      for_steps(call, f, w, alone, [&](int b, int h, int first_query) {
        const int s = ring.stage, key_head = h / call.k.group;
        barrier_wait(&shared.empty[s], ring.phase ^ 1);
        Barrier* full = &shared.full[s];
        barrier_expect(full, sizeof(shared.q[0]) + sizeof(shared.dout[0]) + sizeof(shared.k[0]) + sizeof(shared.v[0]));
        for (int panel = 0; panel < kPanels; ++panel) {
          for (int group = 0; group < kGroups; ++group) {
            const int row = first_query + 64 * group;
            copy_box(shared.q[s][group][panel], &q_map, full, panel * 64, row, h, b);
            copy_box(shared.dout[s][group][panel], &dout_map, full, panel * 64, row, h, b);
          }
          copy_box(shared.k[s][panel], &k_map, full, panel * 64, w.first_key, key_head, b);
          copy_box(shared.v[s][panel], &v_map, full, panel * 64, w.first_key, key_head, b);
        }
        ring.advance();
      });
    }
  };

  struct Consumer {
    const Call& call;
    const FastGradients& f;
    Shared& shared;
    const int group, warp, lane;
    Ring ring;
    Rule rule;
    DenseKeys<T, kKeys, 1> dense;
    float s[kKeys / 2], dp[kKeys / 2], sum[kKeys / 2];

    RAPT_DEVICE int column() const { return lane % 4 * 2; }

    RAPT_DEVICE void step(const Work& w, int b, int h, int row) {
      float log2_sum[2], delta[2];
      RowRange range[2];
      const RowMask mask(call, b);
      const std::int64_t line = (static_cast<std::int64_t>(b) * call.heads + h) * f.padded_queries;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = ::min(row + 8 * r, f.padded_queries - 1);
        log2_sum[r] = f.log2_sum[line + i];
        delta[r] = f.delta[line + i];
        range[r] = row + 8 * r < call.queries ? mask.keys_of(row + 8 * r) : RowRange{};
      }
      rule.begin(call, b, h);
      const DensePlace place{b, h, anew(row)};
      dense.load(call, place, w.first_key, column());
      barrier_wait(&shared.full[ring.stage], ring.phase);
      if constexpr (Rule::kReadsRaw) {
        start_product<T, D>(s, shared.q[ring.stage][group], shared.k[ring.stage]);
      } else {
#pragma unroll
        for (float& x : s) x = 0;
      }
      start_product<T, D>(dp, shared.dout[ring.stage][group], shared.v[ring.stage]);
      wgmma_wait<0>(s);
      wgmma_wait<0>(dp);
      __syncwarp();
      if (lane == 0) barrier_arrive(&shared.empty[ring.stage]);
      ring.advance();
#pragma unroll
      for (int r = 0; r < 2; ++r)
        hide_outside(s, r, range[r].begin - w.first_key - column(), range[r].end - w.first_key - column());
      rule.begin_tile(call, row, w.first_key + column());
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        dense.reach(call, place, n, w.first_key, column());
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = e / 2, c = e % 2;
          const float x = s[4 * n + e];
          const float2 bias = dense.bias(call, n, r);
          dense_gradient(rule, call.is_sigmoid, x, c ? bias.y : bias.x, dp[4 * n + e], log2_sum[r], delta[r],
                         x == -INFINITY || !dense.sees(call, n, r, c), 8 * r, 8 * n + c,
                         [&](float gradient, const float*, bool hidden) { sum[4 * n + e] += hidden ? 0.f : gradient; });
        }
      }
    }

    RAPT_DEVICE void run(const Work& w) {
#pragma unroll
      for (float& x : sum) x = 0;
      const int own_row = group * 64 + warp * 16 + lane / 4;
      for_steps(
          call, f, w, [](int x) { return uniform(x); },
          [&](int b, int h, int first_query) { step(w, b, h, first_query + own_row); });
      bool finite = true;
#pragma unroll
      for (const float x : sum) finite = finite && is_finite(x);
      if (!finite) *f.redo = 1;
      if (f.shared_bias.rows == 1) add_rows(w);
      else if (f.shared_bias.out.dtype == Dtype::f32) store<Dtype::f32>(w, own_row);
      else store<std::is_same_v<T, Bf16> ? Dtype::bf16 : Dtype::f16>(w, own_row);
    }

    template <Dtype kDtype>
    RAPT_DEVICE void store(const Work& w, int own_row) const {
      const Array& out = f.shared_bias.out;
      const int key = w.first_key + column();
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = w.tile * kQueries + own_row + 8 * r, keys = row < call.queries ? call.keys - key : 0;
        const std::int64_t place = w.batch * out.batch_stride + w.head * out.head_stride + row * out.row_stride + key;
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int c = 0; c < 2; ++c)
            if (8 * n + c < keys) cuda::store(out.data, kDtype, place + 8 * n + c, sum[4 * n + 2 * r + c]);
      }
    }

    // Over all rows: of a warp, then of the warps, in order.
    RAPT_DEVICE void add_rows(const Work& w) {
      const Array& out = f.shared_bias.out;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float x = sum[4 * n + c] + sum[4 * n + 2 + c];
#pragma unroll
          for (int bit = 4; bit < 32; bit *= 2) x += __shfl_xor_sync(~0u, x, bit);
          if (lane < 4) shared.columns[group * 4 + warp][8 * n + column() + c] = x;
        }
      named_wait(1, 128 * kGroups);
      const int n = static_cast<int>(threadIdx.x) - 128;
      if (n >= kKeys || w.first_key + n >= call.keys) return;
      float total = 0;
      for (int m = 0; m < 4 * kGroups; ++m) total += shared.columns[m][n];
      cuda::store(out, w.batch * out.batch_stride + w.head * out.head_stride + w.first_key + n, total);
    }
  };
};

}  // namespace rapt::inline v1::cuda::hopper
