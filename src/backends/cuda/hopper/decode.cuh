#pragma once

#include "backends/cuda/hopper/decode_parts.h"
#include "backends/cuda/hopper/mma.h"
#include "backends/cuda/hopper/score.cuh"
#include "backends/cuda/hopper/tensor_map.h"

// Attention forward for few queries and many keys: bound by reading keys and values, which each is read once for all heads
// that share it.
//
// A block has one part of the keys of a key head, and the queries of all its heads as rows, in tiles of 16. One warp keeps
// the copy engine ahead: tiles of 64 keys, then of their values, into a ring of slots. The others have 16 rows each and
// take 16 keys of a tile at a time, with a maximum, a sum and an output of their own, which are merged at the end.
namespace rapt::inline v1::cuda::hopper {

// Whether a rule reads no tables by offset or place; their padding is made for tiles that start at multiples of their size.
template <class Rule>
constexpr bool decodable() {
  for (int n = 0; n < Rule::kSlots; ++n)
    if (Rule::is_relative(n)) return false;
  return Rule::kReadsRaw && !Rule::kGrid;
}

struct DecodeArguments {
  DecodeParts parts;
  std::int32_t row_warps = 1, key_warps = 4;  // warps beside each other along the rows and along the keys of a tile
  std::int32_t slots = 3;                     // of the ring
};

// Computes a row of a part again, number by number, with Rapt's rules for what is not finite: a weight of 0 takes nothing
// from its value, and a score that is NaN spoils the row. Not inlined: it hardly ever runs.
template <class Rule>
__device__ __noinline__ void careful_row(const Call& call, const DecodeParts& parts, int batch, int key_head,
                                         std::int64_t place, int row, KeyRange keys) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int head = key_head * call.k.group + row / call.queries, query = row % call.queries;
  const int dim = call.v[0].dim;
  const KeyRange seen = visible_keys(call, batch, query);
  const int end = ::min(seen.end, keys.end);
  const std::int64_t q = call.q.offset(batch, head) + query * call.q.row_stride, k = call.k.offset(batch, head),
                     v = call.v[0].offset(batch, head);
  Rule rule;
  rule.begin(call, batch, head);
  float largest = kHidden, sum = 0, o[8] = {};
#pragma unroll 1
  for (int first = ::max(seen.begin, keys.begin); first < end; first += 32) {
    const int key = first + lane;
    float score = kHidden;
    if (key < end) {
      float raw = 0;
#pragma unroll 1
      for (int d = 0; d < call.inner; ++d)
        raw = fmaf(load(call.q, q + d), load(call.k, k + key * call.k.row_stride + d), raw);
      rule.begin_tile(call, query, key);
      score = smaller(rule.value(raw, 0, 0), kLargest);
    }
    float top = score;
    for (int mask = 1; mask < 32; mask *= 2) top = larger(top, __shfl_xor_sync(~0u, top, mask));
    top = larger(largest, top);
    const float factor = largest == kHidden ? 0.f : expf(largest - top);
    const float weight = score == kHidden ? 0.f : expf(score - top);
    largest = top;
    sum = sum * factor + weight;
#pragma unroll
    for (int e = 0; e < 8; ++e) o[e] = factor == 0 ? 0.f : o[e] * factor;
#pragma unroll 1
    for (int n = 0; n < 32; ++n) {
      const float w = __shfl_sync(~0u, weight, n);
      if (w == 0) continue;
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (lane + 32 * e < dim)
          o[e] = fmaf(w, load(call.v[0], v + (first + n) * call.v[0].row_stride + lane + 32 * e), o[e]);
    }
  }
  for (int mask = 1; mask < 32; mask *= 2) sum += __shfl_xor_sync(~0u, sum, mask);
  if (lane == 0) parts.statistics[place] = make_float2(largest, sum);
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (lane + 32 * e < dim) parts.sums[place * dim + lane + 32 * e] = o[e];
}

template <class Rule, class T, int D>
struct Decode {
  static_assert(D % 64 == 0 && D <= 256);
  static constexpr int kKeys = 64, kStep = 16;  // keys of a tile, and those that a warp takes at a time
  static constexpr int kPanelBytes = kKeys * 128, kSlotBytes = D / 64 * kPanelBytes, kMaxSlots = 24;
  // Beside the producer, at most. The output of 16 rows takes half of D registers: beyond 128 a block has 255 a thread and
  // a multiprocessor of its own.
  static constexpr int kMaxWarps = D <= 128 ? 8 : 4, kThreads = 32 * (kMaxWarps + 1);
  static constexpr int kPitch = D + 8;  // of rows of queries and of outputs: keeps eight rows apart in the banks
  static constexpr bool kKeepsQueries = D <= 128;  // in registers
  static constexpr bool kTwoSums = D != 128;  // of scores, which do not wait for each other, where registers are left

  // What lies before the ring in shared memory; after it come the queries.
  struct Head {
    Barrier full[kMaxSlots], empty[kMaxSlots];
    float2 statistics[kMaxWarps][16];
  };
  static constexpr int kHeadBytes = 2048;
  static_assert(sizeof(Head) <= kHeadBytes);
  static int shared_bytes(int slots, int row_warps) {  // dynamic shared memory is not aligned to 1024
    return 1024 + kHeadBytes + slots * kSlotBytes + row_warps * 16 * kPitch * 2;
  }

  const Call& call;
  const DecodeArguments& f;
  Head& head;
  std::uint8_t* const ring;
  const int batch, key_head, warp, lane;
  const KeyRange keys;  // of the part

  RAPT_DEVICE int tiles() const { return (keys.end - keys.begin + kKeys - 1) / kKeys; }
  RAPT_DEVICE std::uint16_t* queries() const { return reinterpret_cast<std::uint16_t*>(ring + f.slots * kSlotBytes); }

  // The keys that some query sees, dealt out to the parts in tiles.
  RAPT_DEVICE static KeyRange part_of(const Call& call, const DecodeParts& parts, int batch, int part) {
    int begin = call.keys, end = 0;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < call.queries; i += 32) {
      const KeyRange seen = visible_keys(call, batch, i);
      if (seen.begin >= seen.end) continue;
      begin = ::min(begin, seen.begin);
      end = ::max(end, seen.end);
    }
    begin = __reduce_min_sync(~0u, begin);
    end = __reduce_max_sync(~0u, end);
    if (begin >= end) return {};
    const int share = ::max(parts.fewest_keys, (end - begin + parts.count - 1) / parts.count);
    const int size = (share + kKeys - 1) / kKeys * kKeys, first = begin + part * size;
    return first < end ? KeyRange{first, ::min(end, first + size)} : KeyRange{};
  }

  struct Slot {
    int count, place = 0;
    std::uint32_t phase = 0;

    RAPT_DEVICE void advance() {
      if (++place == count) {
        place = 0;
        phase ^= 1;
      }
    }
  };

  // One thread: K of a tile, then V of it.
  RAPT_DEVICE void produce(const CUtensorMap& k_map, const CUtensorMap& v_map) {
    Slot slot{f.slots};
    const int k_batch = call.k.batches == 1 ? 0 : batch, v_batch = call.v[0].batches == 1 ? 0 : batch;
#pragma unroll 1
    for (int n = 0; n < 2 * tiles(); ++n) {
      barrier_wait(&head.empty[slot.place], slot.phase ^ 1);
      barrier_expect(&head.full[slot.place], kSlotBytes);
      for (int panel = 0; panel < D / 64; ++panel)
        copy_box(ring + slot.place * kSlotBytes + panel * kPanelBytes, n % 2 == 0 ? &k_map : &v_map,
                 &head.full[slot.place], panel * 64, keys.begin + n / 2 * kKeys, key_head,
                 n % 2 == 0 ? k_batch : v_batch);
      slot.advance();
    }
  }

  // The rows of queries → shared memory, by all threads; zeros past the last row and the last number.
  RAPT_DEVICE void load_queries() {
    constexpr int kPieces = D / 8;
    for (int n = static_cast<int>(threadIdx.x); n < f.row_warps * 16 * kPieces; n += static_cast<int>(blockDim.x)) {
      const int row = n / kPieces, d = n % kPieces * 8;
      uint4 piece = make_uint4(0, 0, 0, 0);
      if (row < f.parts.rows && d < call.inner)
        piece = *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(call.q.data) +
                                                call.q.offset(batch, key_head * call.k.group + row / call.queries) +
                                                row % call.queries * call.q.row_stride + d);
      *reinterpret_cast<uint4*>(queries() + row * kPitch + d) = piece;
    }
  }

  // One warp's 16 rows. A lane has the rows lane/4 and lane/4 + 8; see fragments.cuh.
  struct Consumer {
    Decode& block;
    const int row_tile, key_warp, lane;
    float o[D / 2];
    std::uint32_t q[kKeepsQueries ? D / 16 : 1][4];
    float row_max[2], row_sum[2];
    Rule rule[2];
    KeyRange range[2];
    int query[2];

    RAPT_DEVICE std::uint32_t query_address() const {
      return shared_address(block.queries() + (row_tile * 16 + lane % 16) * kPitch + lane / 16 * 8);
    }

    RAPT_DEVICE void begin() {
      const Call& call = block.call;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = row_tile * 16 + lane / 4 + 8 * r, inside = ::min(row, block.f.parts.rows - 1);
        query[r] = inside % call.queries;
        rule[r].begin(call, block.batch, block.key_head * call.k.group + inside / call.queries);
        range[r] = row == inside ? visible_keys(call, block.batch, query[r]) : KeyRange{};
        range[r].end = ::min(range[r].end, block.keys.end);
        row_max[r] = -INFINITY;
        row_sum[r] = 0;
      }
#pragma unroll
      for (int e = 0; e < D / 2; ++e) o[e] = 0;
      if constexpr (kKeepsQueries)
#pragma unroll
        for (int t = 0; t < D / 16; ++t) load_matrices(q[t], query_address() + 32 * t);
    }

    RAPT_DEVICE void release(Barrier* b) {
      __syncwarp();
      if (lane == 0) barrier_arrive(b);
    }

    // Where a lane's row of a matrix lies: `row` of the tile, 8 numbers from 8·piece on in its panel. The copy engine puts
    // piece n of a row at n ^ (row % 8).
    RAPT_DEVICE static std::uint32_t piece_address(std::uint32_t slot, int row, int piece) {
      return slot + (piece / 8 * kKeys + row) * 128 + ((piece % 8 ^ row % 8) << 4);
    }

    // s = q·kᵀ of 16 keys.
    RAPT_DEVICE void multiply_keys(float (&s)[8], std::uint32_t slot, int first) {
      float odd[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) s[e] = odd[e] = 0;
      const int row = first + lane / 16 * 8 + lane % 8, half = lane / 8 % 2;
#pragma unroll
      for (int t = 0; t < D / 16; ++t) {
        std::uint32_t k[4];
        load_matrices(k, piece_address(slot, row, 2 * t + half));
        if constexpr (!kKeepsQueries) load_matrices(q[0], query_address() + 32 * t);
        const auto& left = q[kKeepsQueries ? t : 0];
        float(&to)[8] = kTwoSums && t % 2 == 1 ? odd : s;
        multiply_add(to, left, k[0], k[1], T{});
        multiply_add(to + 4, left, k[2], k[3], T{});
      }
      if constexpr (kTwoSums)
#pragma unroll
        for (int e = 0; e < 8; ++e) s[e] += odd[e];
    }

    // The formula and the masks on the scores of 16 keys from `key` on, as this lane has them.
    RAPT_DEVICE void finish_scores(float (&s)[8], int key) {
#pragma unroll
      for (int r = 0; r < 2; ++r) rule[r].begin_tile(block.call, query[r], key);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int r = e / 2 % 2, along = e / 4 * 8 + e % 2;
        // Keys of infinite score share the weight: ∞ − ∞ would be NaN.
        const float score = smaller(rule[r].value(s[e], 0, along), kLargest);
        s[e] = key + along >= range[r].begin && key + along < range[r].end ? score : kHidden;
      }
    }

    // s = exp(s − maximum), with the maxima, sums and outputs brought up to date.
    RAPT_DEVICE void softmax(float (&s)[8]) {
      float top[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        top[r] = fmaxf(fmaxf(s[2 * r], s[2 * r + 1]), fmaxf(s[4 + 2 * r], s[5 + 2 * r]));
        top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 1));
        top[r] = fmaxf(top[r], __shfl_xor_sync(~0u, top[r], 2));
      }
      if (__any_sync(~0u, top[0] > row_max[0] || top[1] > row_max[1])) {
        float factor[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float largest = fmaxf(row_max[r], top[r]);
          factor[r] = exp2_fast((row_max[r] - finite(largest)) * kLog2E);
          row_sum[r] *= factor[r];
          row_max[r] = largest;
        }
#pragma unroll
        for (int e = 0; e < D / 2; ++e) o[e] *= factor[e / 2 % 2];
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int r = e / 2 % 2;
        s[e] = exp2_fast((s[e] - finite(row_max[r])) * kLog2E);
        row_sum[r] += s[e];
      }
    }

    // o += p·v of 16 keys. Values past the part's end read as 0, whatever lies there.
    RAPT_DEVICE void add_values(const float (&p)[8], std::uint32_t slot, int first, int key) {
      const std::uint32_t weights[4] = {pack(p[0], p[1], T{}), pack(p[2], p[3], T{}), pack(p[4], p[5], T{}),
                                        pack(p[6], p[7], T{})};
      const int end = block.keys.end;
      const auto inside = [&](int n) { return (n < end ? 0xFFFFu : 0u) | (n + 1 < end ? 0xFFFF0000u : 0u); };
      const std::uint32_t low = inside(key), high = inside(key + 8);
      const int row = first + lane / 8 % 2 * 8 + lane % 8, half = lane / 16;
#pragma unroll
      for (int u = 0; u < D / 16; ++u) {
        std::uint32_t v[4];
        load_transposed(v, piece_address(slot, row, 2 * u + half));
        multiply_add(o + 8 * u, weights, v[0] & low, v[1] & high, T{});
        multiply_add(o + 8 * u + 4, weights, v[2] & low, v[3] & high, T{});
      }
    }

    RAPT_DEVICE void run() {
      Slot k_slot{block.f.slots}, v_slot{block.f.slots};
      v_slot.advance();
      const std::uint32_t ring = shared_address(block.ring);
#pragma unroll 1
      for (int tile = 0; tile < block.tiles(); ++tile) {
        barrier_wait(&block.head.full[k_slot.place], k_slot.phase);
#pragma unroll 1
        for (int first = key_warp * kStep; first < kKeys; first += block.f.key_warps * kStep) {
          const bool last = first + block.f.key_warps * kStep >= kKeys;
          const int key = block.keys.begin + tile * kKeys + first + lane % 4 * 2;
          float s[8];
          multiply_keys(s, ring + k_slot.place * kSlotBytes, first);
          if (last) release(&block.head.empty[k_slot.place]);
          finish_scores(s, key);
          softmax(s);
          barrier_wait(&block.head.full[v_slot.place], v_slot.phase);
          add_values(s, ring + v_slot.place * kSlotBytes, first, key);
          if (last) release(&block.head.empty[v_slot.place]);
        }
        for (int n = 0; n < 2; ++n) {
          k_slot.advance();
          v_slot.advance();
        }
      }
    }

    // What the warp has → shared memory, where the ring was.
    RAPT_DEVICE void store() {
      float* to = reinterpret_cast<float*>(block.ring) + block.warp * 16 * kPitch;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        row_sum[r] += __shfl_xor_sync(~0u, row_sum[r], 1);
        row_sum[r] += __shfl_xor_sync(~0u, row_sum[r], 2);
        const int row = lane / 4 + 8 * r;
        if (lane % 4 == 0) block.head.statistics[block.warp][row] = make_float2(row_max[r], row_sum[r]);
#pragma unroll
        for (int n = 0; n < D / 8; ++n)
          *reinterpret_cast<float2*>(to + row * kPitch + 8 * n + lane % 4 * 2) =
              make_float2(o[4 * n + 2 * r], o[4 * n + 2 * r + 1]);
      }
    }
  };

  // A row that has seen nothing has the maximum −∞.
  RAPT_DEVICE static float finite(float maximum) { return maximum == -INFINITY ? 0.f : maximum; }

  // The warps' results in order → the part's. False: some number is infinite or NaN.
  RAPT_DEVICE bool merge_warps(std::int64_t place) {
    const float* from = reinterpret_cast<const float*>(ring);
    const int dim = call.v[0].dim, pieces = dim / 4;
    bool all_finite = true;
    for (int n = static_cast<int>(threadIdx.x); n < f.parts.rows * pieces; n += static_cast<int>(blockDim.x)) {
      const int row = n / pieces, d = n % pieces * 4;
      float largest = -INFINITY;
      for (int w = row / 16; w < f.row_warps * f.key_warps; w += f.row_warps)
        largest = fmaxf(largest, head.statistics[w][row % 16].x);
      float sum = 0;
      float4 o = make_float4(0, 0, 0, 0);
      for (int w = row / 16; w < f.row_warps * f.key_warps; w += f.row_warps) {
        const float2 own = head.statistics[w][row % 16];
        const float factor = exp2_fast((own.x - finite(largest)) * kLog2E);
        const float4 x = *reinterpret_cast<const float4*>(from + (w * 16 + row % 16) * kPitch + d);
        sum = fmaf(factor, own.y, sum);
        o = make_float4(fmaf(factor, x.x, o.x), fmaf(factor, x.y, o.y), fmaf(factor, x.z, o.z), fmaf(factor, x.w, o.w));
      }
      all_finite = all_finite && is_finite(sum) && is_finite(o.x) && is_finite(o.y) && is_finite(o.z) && is_finite(o.w);
      *reinterpret_cast<float4*>(f.parts.sums + (place + row) * dim + d) = o;
      if (d == 0) f.parts.statistics[place + row] = make_float2(largest, sum);
    }
    return all_finite;
  }

  RAPT_DEVICE void run(const CUtensorMap& k_map, const CUtensorMap& v_map, std::int64_t place) {
    const int consumers = f.row_warps * f.key_warps;
    if (threadIdx.x == 0) {
      for (int n = 0; n < f.slots; ++n) {
        barrier_init(&head.full[n], 1);
        barrier_init(&head.empty[n], consumers);
      }
      barrier_init_fence();
    }
    load_queries();
    __syncthreads();
    if (warp == consumers) {
      if (lane == 0) produce(k_map, v_map);
      __syncwarp();
      allow_kernel_after();
      __syncthreads();
    } else {
      Consumer consumer{*this, warp % f.row_warps, warp / f.row_warps, lane};
      consumer.begin();
      consumer.run();
      allow_kernel_after();
      __syncthreads();
      consumer.store();
    }
    __syncthreads();
    if (__syncthreads_and(merge_warps(place))) return;
    for (int row = warp; row < f.parts.rows; row += consumers + 1)
      careful_row<Rule>(call, f.parts, batch, key_head, place + row, row, keys);
  }
};

template <class Rule, class T, int D>
__global__ __launch_bounds__(Decode<Rule, T, D>::kThreads, 1) void decode(const __grid_constant__ CUtensorMap k_map,
                                                                          const __grid_constant__ CUtensorMap v_map,
                                                                          const __grid_constant__ Call call,
                                                                          const __grid_constant__ DecodeArguments f) {
  using Block = Decode<Rule, T, D>;
  extern __shared__ std::uint8_t bytes[];
  std::uint8_t* const base = bytes + (1024 - shared_address(bytes) % 1024) % 1024;
  const int part = static_cast<int>(blockIdx.x) % f.parts.count, item = static_cast<int>(blockIdx.x) / f.parts.count;
  const int key_heads = call.heads / call.k.group, batch = item / key_heads;
  const std::int64_t place = f.parts.place(item, part, 0);
  const KeyRange keys = Block::part_of(call, f.parts, batch, part);
  if (keys.begin >= keys.end) {
    if (static_cast<int>(threadIdx.x) < f.parts.rows) f.parts.statistics[place + threadIdx.x] = make_float2(kHidden, 0);
    return;
  }
  Block{call,
        f,
        *reinterpret_cast<typename Block::Head*>(base),
        base + Block::kHeadBytes,
        batch,
        item % key_heads,
        uniform(static_cast<int>(threadIdx.x) / 32),
        static_cast<int>(threadIdx.x) % 32,
        keys}
      .run(k_map, v_map, place);
}

// False: nothing was started, since the copy engine does not take the arrays.
template <class Rule, class T, int D>
bool launch_decode(const Call& call, const ForwardOutputs& outputs, void* memory, cudaStream_t stream) {
  using Block = Decode<Rule, T, D>;
  const int key_heads = call.heads / call.k.group;
  CUtensorMap k_map, v_map;
  if (!make_map(&k_map, call.k, key_heads, call.keys, Block::kKeys) ||
      !make_map(&v_map, call.v[0], key_heads, call.keys, Block::kKeys))
    return false;
  DecodeArguments f;
  f.parts = decode_parts(call, memory);
  // Up to 16 rows leave room for two blocks on a multiprocessor; more are served by all warps of one.
  f.row_warps = f.parts.rows <= 16 ? 1 : (f.parts.rows <= 32 ? 2 : 4);
  f.key_warps = f.row_warps == 1 ? 4 : Block::kMaxWarps / f.row_warps;
  const int limit = (f.row_warps == 1 && D <= 128 ? 113 : 227) * 1024;
  f.slots = std::min(Block::kMaxSlots, (limit - Block::shared_bytes(0, f.row_warps)) / Block::kSlotBytes);
  const int bytes = Block::shared_bytes(f.slots, f.row_warps);
  const auto kernel = decode<Rule, T, D>;
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024);
  kernel<<<static_cast<unsigned>(call.batch * key_heads * f.parts.count),
           static_cast<unsigned>(32 * (f.row_warps * f.key_warps + 1)), static_cast<std::size_t>(bytes), stream>>>(
      k_map, v_map, call, f);
  merge_parts(call, outputs, f.parts, stream);
  return true;
}

}  // namespace rapt::inline v1::cuda::hopper
