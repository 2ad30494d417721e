#pragma once

#include "backends/cuda/general/forward.cuh"

// Outputs on request, from the softmax statistics of a forward pass: weights of some rows, and statistics of each row.
namespace rapt::inline v1::cuda {

RAPT_DEVICE Row row_of(const Call& call, const RowStatistics& rows, int b, int h, int i) {
  if (i >= call.queries) return Row::of(kHidden, 0);
  const std::int64_t n = call.row(b, h, i);
  return Row::of(rows.max[n], rows.sum[n]);
}

// One tile of queries and keys; the tiles start at the request's first row.
template <class M>
__global__ __launch_bounds__(kThreads, 1) void weights_kernel(const __grid_constant__ Call call, RowStatistics rows,
                                                              const __grid_constant__ RequestedWeights wanted) {
  extern __shared__ float4 memory[];
  Scores<M> scores(call, *reinterpret_cast<Shared*>(memory), wanted.batch, wanted.head);
  scores.set_queries(wanted.first + static_cast<int>(blockIdx.x) * kTile);
  scores.compute(static_cast<int>(blockIdx.y) * kTile);
  const float* p = call.normalizer_numbers(scores.h);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const Row row = row_of(call, rows, scores.b, scores.h, scores.query(r));
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (scores.query(r) < wanted.first + wanted.count && scores.key(c) < call.keys)
        store(wanted.out, (scores.query(r) - wanted.first) * wanted.out.row_stride + scores.key(c),
              weight_of(call, row, p, scores.logit[r][c], scores.key(c)).value);
  }
}

// Not inlined, as grid_offset() is not.
static __device__ __noinline__ float key_coordinate(int key, int cols, int axis) {
  if (cols == 0) return axis == 0 ? static_cast<float>(key) : 0.f;
  return static_cast<float>(axis == 0 ? key / cols : key % cols);
}

template <class M>
struct StatisticsBlock {
  const Call& call;
  const RequestedStatistics& wanted;
  Scores<M> scores;
  const float* parameters;
  Row row[4];
  KeyRange tiles;
  float mass[4] = {}, best[4], place[4], mean[4][2] = {}, spread[4][3] = {}, entropy[4] = {};
  int kept = 0;  // scores in the list of the row that this thread ranks

  RAPT_DEVICE StatisticsBlock(const Call& c, const RowStatistics& rows, const RequestedStatistics& w, Shared& s)
      : call(c),
        wanted(w),
        scores(c, s, static_cast<int>(blockIdx.x) / c.heads, static_cast<int>(blockIdx.x) % c.heads),
        parameters(c.normalizer_numbers(scores.h)) {
    scores.set_queries(static_cast<int>(blockIdx.y) * kTile);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      row[r] = row_of(call, rows, scores.b, scores.h, scores.query(r));
      best[r] = kHidden;
      place[r] = -1;
    }
    tiles = scores.key_tiles();
  }

  // Each phase needs what the one before has summed.
  RAPT_DEVICE void run() {
#pragma unroll 1
    for (int phase = 0; phase < (wanted.top_k > 0 ? 4 : 3); ++phase) {
      if (phase == 3) begin_rank();
      for (int first = tiles.begin; first < tiles.end; first += kTile) {
        scores.compute(first);
        float w[4][4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            w[r][c] = weight_of(call, row[r], parameters, scores.logit[r][c], scores.key(c)).value;
            if (scores.logit[r][c] != kHidden) add_pair(phase, r, c, w[r][c]);
          }
        if (phase == 3) rank(first, w);
      }
      finish(phase);
    }
    store();
  }

 private:
  RAPT_DEVICE void add_pair(int phase, int r, int c, float w) {
    if (phase == 0) {
      mass[r] += w;
      if (scores.logit[r][c] > best[r]) {
        best[r] = scores.logit[r][c];
        place[r] = static_cast<float>(scores.key(c));
      }
      return;
    }
    const float share = mass[r] == 0 ? 0.f : w / mass[r];
    if (phase == 1) {
      const float e = call.threshold == Threshold::none ? share : w;
      if (e != 0) entropy[r] -= e * logf(e);
#pragma unroll
      for (int axis = 0; axis < 2; ++axis) mean[r][axis] += share * coordinate(c, axis);
    } else if (phase == 2 && share != 0) {
      const float x = coordinate(c, 0) - mean[r][0], y = coordinate(c, 1) - mean[r][1];
      spread[r][0] += share * x * x;
      spread[r][1] += share * x * y;
      spread[r][2] += share * y * y;
    }
  }

  RAPT_DEVICE void finish(int phase) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (phase == 0) {
        mass[r] = reduce_row(mass[r], add);
        const float top = reduce_row(best[r], [](float a, float b) { return fmaxf(a, b); });
        place[r] = reduce_row(best[r] == top && place[r] >= 0 ? place[r] : INFINITY,
                              [](float a, float b) { return fminf(a, b); });
      } else if (phase == 1) {
        entropy[r] = reduce_row(entropy[r], add);
#pragma unroll
        for (int axis = 0; axis < 2; ++axis) mean[r][axis] = reduce_row(mean[r][axis], add);
      } else if (phase == 2) {
#pragma unroll
        for (int n = 0; n < 3; ++n) spread[r][n] = reduce_row(spread[r][n], add);
      }
    }
  }

  RAPT_DEVICE float coordinate(int c, int axis) const { return key_coordinate(scores.key(c), wanted.grid_cols, axis); }

  RAPT_DEVICE std::int64_t row_index(int i) const { return call.row(scores.b, scores.h, i); }

  RAPT_DEVICE void store() const {
    if (threadIdx.x % 16 != 0) return;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = scores.query(r);
      if (i >= call.queries) continue;
      const std::int64_t n = row_index(i);
      if (wanted.entropy) wanted.entropy[n] = entropy[r];
      if (wanted.argmax) wanted.argmax[n] = place[r] < INFINITY ? static_cast<std::int64_t>(place[r]) : -1;
      if (wanted.grid_cols == 0) {
        if (wanted.position) wanted.position[n] = mean[r][0];
        if (wanted.covariance) wanted.covariance[n] = spread[r][0];
        continue;
      }
      if (wanted.position) wanted.position[2 * n] = mean[r][0], wanted.position[2 * n + 1] = mean[r][1];
      if (wanted.covariance)
        for (int a = 0; a < 4; ++a) wanted.covariance[4 * n + a] = spread[r][a == 0 ? 0 : (a == 3 ? 2 : 1)];
    }
  }

  RAPT_DEVICE bool ranks() const {
    return threadIdx.x < kTile && scores.i + static_cast<int>(threadIdx.x) < call.queries;
  }

  RAPT_DEVICE void begin_rank() const {
    if (!ranks()) return;
    const std::int64_t base = row_index(scores.i + static_cast<int>(threadIdx.x)) * wanted.top_k;
    for (int n = 0; n < wanted.top_k; ++n) {
      wanted.top_indices[base + n] = -1;
      wanted.top_weights[base + n] = 0;
    }
  }

  // The k largest scores of each row, the first of equal ones first: one thread a row keeps its list in device memory.
  RAPT_DEVICE void rank(int first, const float (&w)[4][4]) {
    Shared& s = scores.s;
    __syncthreads();
    store_by_row(s.w, scores.logit);
    store_by_row(s.u, w);
    __syncthreads();
    if (!ranks()) return;
    const int lane = static_cast<int>(threadIdx.x), k = wanted.top_k;
    const std::int64_t base = row_index(scores.i + lane) * k;
    for (int key = 0; key < kTile; ++key) {
      const float logit = s.w[lane][key];
      if (!(logit > kHidden) || (kept == k && !(logit > wanted.top_scores[base + k - 1]))) continue;
      int n = kept < k ? kept++ : k - 1;
      for (; n > 0 && wanted.top_scores[base + n - 1] < logit; --n) {
        wanted.top_scores[base + n] = wanted.top_scores[base + n - 1];
        wanted.top_indices[base + n] = wanted.top_indices[base + n - 1];
        wanted.top_weights[base + n] = wanted.top_weights[base + n - 1];
      }
      wanted.top_scores[base + n] = logit;
      wanted.top_indices[base + n] = first + key;
      wanted.top_weights[base + n] = s.u[lane][key];
    }
  }
};

template <class M>
__global__ __launch_bounds__(kThreads, 1) void statistics_kernel(const __grid_constant__ Call call, RowStatistics rows,
                                                                 const __grid_constant__ RequestedStatistics wanted) {
  extern __shared__ float4 memory[];
  StatisticsBlock<M>(call, rows, wanted, *reinterpret_cast<Shared*>(memory)).run();
}

}  // namespace rapt::inline v1::cuda
