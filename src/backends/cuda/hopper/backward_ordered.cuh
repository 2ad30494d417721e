#pragma once

#include <climits>

#include "backends/cuda/hopper/gradients.cuh"

// All of the backward pass in one kernel with five products: the four of KeySide, and dq += ds·k, which blocks add to an
// array in f32, each after the block before it.
//
// Every step's ds goes to shared memory. A warpgroup multiplies the step before's, of all keys of the block, with its 64
// columns of k, into registers that dp needs next, and leaves the result in shared memory. From there a thread of the
// producer's warpgroup adds it to memory, once the block of the keys after this one's has added its own.
//
// So the sums of dq run from the last keys to the first, whatever the GPU. A block waits only for one that took a lower
// ticket, which runs already: no set of blocks has to run at once.
//
// Where all see all, blocks of a head that start together would come to the same queries at the same time. Each starts at
// queries of its own instead and goes round; what it adds after its turn goes to a second array, so that either is in order.
namespace rapt::inline v1::cuda::hopper {

// What the kernel keeps in memory.
struct OrderedSums {
  static constexpr int kQueries = 64, kColumns = 64;  // of a part of dq

  int tiles;           // of queries, a head
  bool goes_round;     // all see all
  std::int64_t count;  // of the parts of an array
  float* dq;           // [before, after the turn][batch·heads][tiles][2 halves of the columns][8][128 threads][4]
  unsigned* flags;     // [2][batch·heads][tiles][2]: the block that added last, counted from the last; 0: none has
  unsigned* ticket;

  static std::int64_t parts(const Call& call) {
    return static_cast<std::int64_t>(call.batch) * call.heads * ((call.queries + kQueries - 1) / kQueries) * 2;
  }
  static std::int64_t zeroed_bytes(const Call& call, bool goes_round) {
    return 4 * (parts(call) * (goes_round ? 2 : 1) + 4);
  }
  static std::int64_t bytes(const Call& call, bool goes_round) {
    return parts(call) * (goes_round ? 2 : 1) * kQueries * kColumns * 4 + zeroed_bytes(call, goes_round);
  }
  OrderedSums(const Call& call, bool goes_round_, void* memory)
      : tiles((call.queries + kQueries - 1) / kQueries),
        goes_round(goes_round_),
        count(parts(call)),
        dq(static_cast<float*>(memory)),
        flags(reinterpret_cast<unsigned*>(dq + count * (goes_round ? 2 : 1) * kQueries * kColumns) + 4),
        ticket(flags - 4) {}

  RAPT_DEVICE std::int64_t part(const Call& call, int batch, int head, int tile, int half) const {
    return ((static_cast<std::int64_t>(batch) * call.heads + head) * tiles + tile) * 2 + half;
  }
};

// kWhole: no pair is hidden.
template <class Rule, class T, bool kWhole>
struct OrderedSide {
  static constexpr int D = 128, kGroups = 2, kQueries = OrderedSums::kQueries, kKeys = 128, kPanels = D / 64;
  static_assert(Rule::kScaleOnly);
  static constexpr int kThreads = 128 * (kGroups + 1), kConsumerRegisters = 240, kProducerRegisters = 24;
  static constexpr int kStages = 2, kBuffers = 3;
  using Ring = StageRing<kStages>;
  using Buffers = StageRing<kBuffers>;

  // A tile of keys, and the query tiles that see some of it; neither end moves back from one tile of keys to the next.
  struct Work {
    int block, first_key, key_head, batch;
    TileSpan tiles;
    int start;       // the tile that comes first; after the last one of the span follow those before it
    int next_start;  // of the block of the keys after these

    RAPT_DEVICE int next(int tile) const { return tile + 1 == tiles.end ? tiles.begin : tile + 1; }
  };

  struct Shared {
    alignas(1024) std::uint16_t k[kGroups][kPanels][64][64];
    alignas(1024) std::uint16_t v[kGroups][kPanels][64][64];
    alignas(1024) std::uint16_t q[kStages][kPanels][kQueries][64];
    alignas(1024) std::uint16_t dout[kStages][kPanels][kQueries][64];
    alignas(1024) std::uint16_t ds[kBuffers][kKeys][64];  // dsᵀ: row = key
    alignas(1024) float4 dq[kGroups][8][128];             // as the threads hold it
    alignas(16) float log2_sum[kStages][kQueries], delta[kStages][kQueries];
    RowRange range[kKeys];  // the queries that see a key
    Work work;
    Barrier kv_full, q_full[kStages], q_empty[kStages], dout_full[kStages], dout_empty[kStages];
    Barrier ds_full[kBuffers], ds_empty[kBuffers];
    Barrier dq_full[kGroups], dq_empty[kGroups];
  };
  static constexpr int kSharedBytes = sizeof(Shared) + 1024;
  static_assert(kSharedBytes <= 227 * 1024);

  // The query tiles that a tile of keys meets.
  RAPT_DEVICE static void find_tiles(const Call& call, Work& w) {
    const int tiles = (call.queries + kQueries - 1) / kQueries;
    const TileQueries seen = tile_queries(call, w.batch, w.first_key, kKeys);
    const bool none = w.first_key >= key_length(call, w.batch);
    w.tiles.begin = none ? tiles - 1 : ::min(seen.some.begin / kQueries, tiles - 1);
    w.tiles.end = ::max(w.tiles.begin + 1, (seen.some.end + kQueries - 1) / kQueries);
    w.tiles.full = (seen.all.begin + kQueries - 1) / kQueries;
    w.tiles.cut =
        seen.all.end == call.queries ? tiles : seen.all.end / kQueries;  // queries past the end have no weight
  }

  RAPT_DEVICE static int start_of(const OrderedSums& sums, const Work& w, int blocks) {
    if (!sums.goes_round) return w.tiles.begin;
    return static_cast<int>(static_cast<std::int64_t>(w.block) * sums.tiles / blocks);
  }

  RAPT_DEVICE static Work work(const Call& call, const FastGradients& f, const OrderedSums& sums, int item) {
    const int blocks = (call.keys + kKeys - 1) / kKeys;
    const OwnedTile t = owned_tile(item, blocks, call.heads / call.k.group, call.batch, f.heads_together, true);
    Work w{t.tile, t.tile * kKeys, t.head, t.batch};
    find_tiles(call, w);
    w.start = start_of(sums, w, blocks);
    w.next_start = INT_MAX;
    if (w.block + 1 < blocks) {
      Work next{t.tile + 1, (t.tile + 1) * kKeys, t.head, t.batch};
      find_tiles(call, next);
      w.next_start = start_of(sums, next, blocks);
    }
    return w;
  }

  RAPT_DEVICE static void init(Shared& shared) {
    barrier_init(&shared.kv_full, 1);
    for (int s = 0; s < kStages; ++s) {
      barrier_init(&shared.q_full[s], 1);
      barrier_init(&shared.q_empty[s], 4 * kGroups);
      barrier_init(&shared.dout_full[s], 1);
      barrier_init(&shared.dout_empty[s], 4 * kGroups);
    }
    for (int s = 0; s < kBuffers; ++s) {
      barrier_init(&shared.ds_full[s], 4 * kGroups);
      barrier_init(&shared.ds_empty[s], 4 * kGroups);
    }
    for (int g = 0; g < kGroups; ++g) {
      barrier_init(&shared.dq_full[g], 4);
      barrier_init(&shared.dq_empty[g], 1);
    }
    barrier_init_fence();
  }

  struct Producer {
    const Call& call;
    const FastGradients& f;
    const OrderedSums& sums;
    Shared& shared;
    const CUtensorMap &q_map, &k_map, &v_map, &dout_map;
    Ring ring;

    RAPT_DEVICE void load(const Work& w, int head, int tile) {
      const int s = ring.stage, row = (w.batch * call.heads + head) * f.padded_queries + tile * kQueries;
      barrier_wait(&shared.q_empty[s], ring.phase ^ 1);
      barrier_expect(&shared.q_full[s], sizeof(shared.q[0]) + sizeof(shared.log2_sum[0]));
      for (int panel = 0; panel < kPanels; ++panel)
        copy_box(shared.q[s][panel], &q_map, &shared.q_full[s], panel * 64, tile * kQueries, head, w.batch);
      copy_bytes(shared.log2_sum[s], f.log2_sum + row, &shared.q_full[s], sizeof(shared.log2_sum[0]));
      barrier_wait(&shared.dout_empty[s], ring.phase ^ 1);
      barrier_expect(&shared.dout_full[s], sizeof(shared.dout[0]) + sizeof(shared.delta[0]));
      for (int panel = 0; panel < kPanels; ++panel)
        copy_box(shared.dout[s][panel], &dout_map, &shared.dout_full[s], panel * 64, tile * kQueries, head, w.batch);
      copy_bytes(shared.delta[s], f.delta + row, &shared.dout_full[s], sizeof(shared.delta[0]));
      ring.advance();
    }

    RAPT_DEVICE void run(const Work& w) {
      barrier_expect(&shared.kv_full, sizeof(shared.k) + sizeof(shared.v));
      for (int group = 0; group < kGroups; ++group)
        for (int panel = 0; panel < kPanels; ++panel) {
          const int row = w.first_key + 64 * group;
          copy_box(shared.k[group][panel], &k_map, &shared.kv_full, panel * 64, row, w.key_head, w.batch);
          copy_box(shared.v[group][panel], &v_map, &shared.kv_full, panel * 64, row, w.key_head, w.batch);
        }
      const int count = w.tiles.end - w.tiles.begin;
      for (int head = w.key_head * call.k.group; head < (w.key_head + 1) * call.k.group; ++head) {
        int tile = w.start;
#pragma unroll 1
        for (int n = 0; n < count; ++n, tile = w.next(tile)) load(w, head, tile);
      }
    }

    // Adds one warpgroup's half of dq to memory, a tile at a time: before the turn after the block of the keys after these
    // where that starts earlier, after the turn always, if there is one.
    RAPT_DEVICE void add_in_order(const Work& w, int half) {
      constexpr int kNumbers = kQueries * OrderedSums::kColumns;
      const unsigned own = static_cast<unsigned>((call.keys + kKeys - 1) / kKeys - w.block);
      const int count = w.tiles.end - w.tiles.begin;
      std::uint32_t phase = 0;
      for (int head = w.key_head * call.k.group; head < (w.key_head + 1) * call.k.group; ++head) {
        int tile = w.start;
#pragma unroll 1
        for (int n = 0; n < count; ++n, tile = w.next(tile), phase ^= 1) {
          const bool turned = tile < w.start;
          const bool follows = turned ? own > 1 : tile >= w.next_start;
          const std::int64_t part = sums.part(call, w.batch, head, tile, half) + (turned ? sums.count : 0);
          barrier_wait(&shared.dq_full[half], phase);
          if (follows) {
            await_flag(sums.flags + part, own - 1);
            fence_memory();
            add_bytes(sums.dq + part * kNumbers, shared.dq[half], sizeof(shared.dq[0]));
          } else {
            store_bytes(sums.dq + part * kNumbers, shared.dq[half], sizeof(shared.dq[0]));
          }
          await_stores_read();
          barrier_arrive(&shared.dq_empty[half]);
          await_stores();
          set_flag(sums.flags + part, own);
        }
      }
    }
  };

  struct Consumer {
    const Call& call;
    const FastGradients& f;
    Shared& shared;
    const int group, warp, lane;
    Ring ring, next_ring;
    Buffers buffer, dq_buffer;
    std::uint32_t dq_phase;

    // Here a row is a key and a column of s and dp a query. dp also holds the warpgroup's half of dq.
    float dk[D / 2], dv[D / 2];
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

    // After the last step they multiply leftovers, unread.
    RAPT_DEVICE void start_s(bool more) {
      if (more) barrier_wait(&shared.q_full[next_ring.stage], next_ring.phase);
      start_product<T, D>(s, shared.k[group], shared.q[next_ring.stage]);
      next_ring.advance();
    }
    RAPT_DEVICE void start_dp(bool more) {
      if (more) barrier_wait(&shared.dout_full[next_ring.stage], next_ring.phase);
      start_product<T, D>(dp, shared.v[group], shared.dout[next_ring.stage]);
    }

    // Starts the warpgroup's 64 columns of ds·k, into dp.
    RAPT_DEVICE void start_dq(bool ready) {
      if (ready) barrier_wait(&shared.ds_full[dq_buffer.stage], dq_buffer.phase);
      const std::uint64_t a = down_rows(shared.ds[dq_buffer.stage], 1024);
      const std::uint64_t b = down_rows(shared.k[0][group], 1024);
      wgmma_fence();
#pragma unroll
      for (int n = 0; n < kKeys; n += 16)
        wgmma<SumOver::columns, SumOver::columns>(
            dp, cuda::advance(a, n * 128), cuda::advance(b, n / 64 * sizeof(shared.k[0]) + n % 64 * 128), T{}, n > 0);
      wgmma_commit();
    }

    // dq, which is in dp → shared memory, from where the copy engine takes it.
    RAPT_DEVICE void hand_on_dq() {
      release(&shared.ds_empty[dq_buffer.stage]);
      dq_buffer.advance();
      barrier_wait(&shared.dq_empty[group], dq_phase ^ 1);
      dq_phase ^= 1;
#pragma unroll
      for (int n = 0; n < 8; ++n)
        shared.dq[group][n][warp * 32 + lane] = make_float4(dp[4 * n], dp[4 * n + 1], dp[4 * n + 2], dp[4 * n + 3]);
      fence_shared_writes();
      release(&shared.dq_full[group]);
    }

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
    RAPT_DEVICE void weights_and_gradients() {
      const float factor = Rule::exponent_factor(call);
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n) {
        const float2 log2_sum = pair_of(shared.log2_sum[ring.stage], n), delta = pair_of(shared.delta[ring.stage], n);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float &x = s[4 * n + e], &y = dp[4 * n + e];
          x = exp2_fast(fmaf(x, factor, e % 2 ? -log2_sum.y : -log2_sum.x));
          y = x * (y - (e % 2 ? delta.y : delta.x));
        }
        pack_columns<T>(p, s, n);
        pack_columns<T>(ds, dp, n);
      }
    }

    RAPT_DEVICE void share_ds() {
      barrier_wait(&shared.ds_empty[buffer.stage], buffer.phase ^ 1);
      auto* row = reinterpret_cast<std::uint8_t*>(shared.ds[buffer.stage][group * 64 + warp * 16 + lane % 16]);
#pragma unroll
      for (int n = 0; n < kQueries / 16; ++n)
        store_matrices(row + ((n * 32 + lane / 16 * 16) ^ (lane % 8 * 16)), ds[n]);
      fence_shared_writes();
      release(&shared.ds_full[buffer.stage]);
      buffer.advance();
    }

    // Begins with sᵀ and dpᵀ of its tile under way and ends with those of the next.
    RAPT_DEVICE void step(int tile, bool cut, bool first, bool more) {
      wgmma_wait<0>(s);
      wgmma_wait<0>(dp);
      if constexpr (!kWhole)
        if (cut) hide(tile);
      weights_and_gradients();
      share_ds();
      await_turn();
      start_dq(!first);  // of the step before; in the first step of leftovers, unread
      start_sum<T>(dv, p, shared.dout[ring.stage]);
      start_sum<T>(dk, ds, shared.q[ring.stage]);
      wgmma_wait<2>(dp);
      if (!first) hand_on_dq();
      start_dp(more);
      wgmma_wait<2>(dv);  // the registers of p are needed
      release(&shared.dout_empty[ring.stage]);
      start_s(more);
      pass_turn();
      wgmma_wait<2>(dk);
      release(&shared.q_empty[ring.stage]);
      ring.advance();
    }

    RAPT_DEVICE void run(const Work& w) {
#pragma unroll
      for (int e = 0; e < D / 2; ++e) dk[e] = dv[e] = 0;
      keep(dk);
      keep(dv);
      dq_phase = 0;
      barrier_wait(&shared.kv_full, 0);
      if (group == kGroups - 1) pass_turn();  // the first turn is group 0's
      start_dp(true);
      start_s(true);
      const int steps = uniform(call.k.group * (w.tiles.end - w.tiles.begin));
      int tile = kWhole ? 0 : uniform(w.start);
#pragma unroll 1
      for (int n = 0; n < steps; ++n) {
        step(tile, !kWhole && uniform(w.tiles.is_cut(tile)), n == 0, n + 1 < steps);
        if constexpr (!kWhole) tile = uniform(w.next(tile));  // after the last of a head that is the first again
      }
      wgmma_wait<0>(dk);
      wgmma_wait<0>(dv);
      wgmma_wait<0>(s);
      wgmma_wait<0>(dp);
      start_dq(true);
      wgmma_wait<0>(dp);
      hand_on_dq();
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
        store_to(f.dk, call.scale, dk);
        store_to(f.dv, 1.f, dv);
      }
      if (!finite) *f.redo = 1;
    }
  };
};

template <class Side>
__global__ __launch_bounds__(Side::kThreads, 1) void ordered_gradients(const __grid_constant__ CUtensorMap q_map,
                                                                       const __grid_constant__ CUtensorMap k_map,
                                                                       const __grid_constant__ CUtensorMap v_map,
                                                                       const __grid_constant__ CUtensorMap dout_map,
                                                                       const __grid_constant__ Call call,
                                                                       const __grid_constant__ FastGradients f,
                                                                       const __grid_constant__ OrderedSums sums) {
  extern __shared__ std::uint8_t bytes[];
  auto& shared = *reinterpret_cast<typename Side::Shared*>(bytes + (1024 - shared_address(bytes) % 1024) % 1024);
  if (threadIdx.x == 0) {
    Side::init(shared);
    shared.work = Side::work(call, f, sums, static_cast<int>(atomicAdd(sums.ticket, 1u)));
  }
  __syncthreads();
  const auto& w = shared.work;
  const RowMask mask(call, w.batch);
  for (int n = static_cast<int>(threadIdx.x); n < Side::kKeys; n += Side::kThreads)
    shared.range[n] = mask.queries_of(w.first_key + n);
  __syncthreads();
  const int warp = uniform(threadIdx.x / 32);
  if (warp < 4) {
    give_registers<Side::kProducerRegisters>();
    typename Side::Producer producer{call, f, sums, shared, q_map, k_map, v_map, dout_map};
    if (threadIdx.x == 0) producer.run(w);
    else if (threadIdx.x == 32) producer.add_in_order(w, 0);
    else if (threadIdx.x == 64) producer.add_in_order(w, 1);
  } else {
    take_registers<Side::kConsumerRegisters>();
    typename Side::Consumer{call, f, shared, warp / 4 - 1, warp % 4, static_cast<int>(threadIdx.x % 32)}.run(w);
  }
}

// The sums → dq. One thread for four numbers of a fragment; a tile that no block added to is 0.
template <class T>
__global__ __launch_bounds__(256) void finish_queries(const __grid_constant__ Call call,
                                                      const __grid_constant__ FastGradients f,
                                                      const __grid_constant__ OrderedSums sums) {
  const int thread = static_cast<int>(threadIdx.x) % 128, n = static_cast<int>(blockIdx.x) % 4 * 2 + threadIdx.x / 128;
  const int half = static_cast<int>(blockIdx.x) / 4 % 2, tile = static_cast<int>(blockIdx.x) / 8 % sums.tiles;
  const int line = static_cast<int>(blockIdx.x) / 8 / sums.tiles, head = line % call.heads, batch = line / call.heads;
  const std::int64_t part = sums.part(call, batch, head, tile, half);
  float4 x = make_float4(0, 0, 0, 0);
  for (std::int64_t from = part; from < sums.count * (sums.goes_round ? 2 : 1); from += sums.count) {
    if (sums.flags[from] == 0) continue;
    const float4 y = reinterpret_cast<const float4*>(sums.dq)[(from * 8 + n) * 128 + thread];
    x = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  }
  const int row = tile * 64 + thread / 32 * 16 + thread % 32 / 4, column = half * 64 + n * 8 + thread % 4 * 2;
  if (column >= f.dq.dim) return;
  auto* to = static_cast<std::uint16_t*>(f.dq.data) + f.dq.offset(batch, head) + row * f.dq.row_stride + column;
  const float a = x.x * call.scale, b = x.y * call.scale, c = x.z * call.scale, d = x.w * call.scale;
  if (row < call.queries) *reinterpret_cast<std::uint32_t*>(to) = pack(a, b, T{});
  if (row + 8 < call.queries) *reinterpret_cast<std::uint32_t*>(to + 8 * f.dq.row_stride) = pack(c, d, T{});
  if (!is_finite((a + b) * 0.f + (c + d) * 0.f)) *f.redo = 1;
}

}  // namespace rapt::inline v1::cuda::hopper
