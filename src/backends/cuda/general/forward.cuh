#pragma once

#include "backends/cuda/general/weights.cuh"

// The forward pass of any call: a block has 64 queries of a head and up to 128 columns of one value set.
namespace rapt::inline v1::cuda {

// Which columns of which value set pass n computes: sets one after the other, 128 columns at a time.
struct Columns {
  int set = 0, first = 0, count = 0;
};
__host__ __device__ inline int column_passes(const Call& call) {
  int passes = 0;
  for (int n = 0; n < call.sets; ++n) passes += (call.v[n].dim + kWide - 1) / kWide;
  return passes;
}
RAPT_DEVICE Columns columns_of(const Call& call, int pass) {
  for (int n = 0; n < call.sets; ++n) {
    const int passes = (call.v[n].dim + kWide - 1) / kWide;
    if (pass < passes) return {n, pass * kWide, ::min(kWide, call.v[n].dim - pass * kWide)};
    pass -= passes;
  }
  return {};
}

template <class M>
struct ForwardBlock {
  const Call& call;
  const ForwardOutputs& outputs;
  Shared& s;
  Scores<M> scores;
  const Columns columns;
  const float* parameters;  // of the normaliser
  KeyRange tiles;
  float acc[4][8];
  float max[4], sum[4];         // of the rows; see Saved::Rows
  float total[4];               // Σ of the weights, where there is no threshold
  float weights[4], slopes[4];  // Σ of them at the threshold of this round
  int steps_back[4];
  static constexpr int kMaxRounds = 64, kMaxStepsBack = 4;

  const bool first_pass;  // the one that also stores what belongs to rows

  RAPT_DEVICE ForwardBlock(const Call& c, const ForwardOutputs& o, Shared& shared, int batch, int head, int first_query,
                           int pass)
      : call(c),
        outputs(o),
        s(shared),
        scores(c, shared, batch, head),
        columns(columns_of(c, pass)),
        parameters(c.normalizer_numbers(head)),
        first_pass(pass == 0) {
    scores.set_queries(first_query);
    tiles = scores.key_tiles();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      max[r] = kHidden;
      sum[r] = total[r] = 0;
      steps_back[r] = 0;
#pragma unroll
      for (int n = 0; n < 8; ++n) acc[r][n] = 0;
    }
  }

  // One loop over the tiles for every phase: their code is long, and is compiled once.
  RAPT_DEVICE void run() {
    Phase phase = call.threshold == Threshold::exponential ? Phase::softmax
                  : call.threshold == Threshold::none      ? Phase::apply
                                                           : Phase::largest;
    if (phase == Phase::apply)
#pragma unroll
      for (int r = 0; r < 4; ++r) max[r] = 0;
    for (int round = 0; phase != Phase::done; ++round) {
#pragma unroll
      for (int r = 0; r < 4; ++r) weights[r] = slopes[r] = 0;
      for (int first = tiles.begin; first < tiles.end; first += kTile) {
        scores.compute(first);
        if (phase == Phase::largest) find_largest();
        else if (phase == Phase::solve) sum_weights();
        else add_values(phase == Phase::softmax);
      }
      phase = next(phase, round);
    }
    store();
  }

 private:
  // solve runs until τ stays: Newton's iteration, see step().
  enum class Phase { softmax, largest, solve, apply, done };

  RAPT_DEVICE Phase next(Phase phase, int round) {
    switch (phase) {
      case Phase::softmax: finish_softmax(); return Phase::done;
      case Phase::largest:
        if (call.threshold == Threshold::first_largest) return Phase::apply;
#pragma unroll
        for (int r = 0; r < 4; ++r) sum[r] = has_threshold(r) ? -call.reach : 0.f;
        return Phase::solve;
      case Phase::solve: return step() || round == kMaxRounds ? Phase::apply : Phase::solve;
      default:
#pragma unroll
        for (int r = 0; r < 4; ++r) total[r] = reduce_row(total[r], add);
        return Phase::done;
    }
  }

  RAPT_DEVICE float row_maximum(int r) const {
    float top = kHidden;
#pragma unroll
    for (int c = 0; c < 4; ++c) top = larger(top, scores.logit[r][c]);
    return reduce_row(top, larger);
  }

  // The weights of a tile, and acc += weights·v. Softmax in one pass: its maximum is followed, and what was summed under
  // the old one is scaled.
  RAPT_DEVICE void add_values(bool softmax) {
    float p[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (softmax) {
        const float top = larger(max[r], row_maximum(r)), factor = max[r] == kHidden ? 0.f : expf(max[r] - top);
        max[r] = top;
        scale(r, factor);
        sum[r] *= factor;
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float logit = scores.logit[r][c];
        p[r][c] = softmax ? (logit == kHidden ? 0.f : expf(logit - max[r]))
                          : weight_of(call, Row::of(max[r], sum[r]), parameters, logit, scores.key(c)).value;
        (softmax ? sum[r] : total[r]) += p[r][c];
      }
    }
    if (columns.count == 0 || !outputs.out[columns.set].data) return;
    __syncthreads();
    store_by_column(s.w, p);
    const Array& v = call.v[columns.set];
    accumulate(s, acc, s.w, columns.count, RowLoader(v, scores.b, scores.h, scores.j, call.keys, columns.first));
    if (call.output_table.numbers) add_output_table(p);
  }

  RAPT_DEVICE void add_output_table(const float (&p)[4][4]) {
    const Table& table = call.output_table;
    const OffsetRange range = tile_offsets(call, table, scores.b, scores.i, scores.j);
    const float* numbers = table.numbers + scores.h * table.head_stride;
    __syncthreads();
    store_by_row(s.u, p);
    for (int base = range.low; base <= range.high; base += kTile) {
      __syncthreads();
      sum_by_offset<OffsetTile::by_offset>(s, call, table, scores.b, scores.i, scores.j, base);
      accumulate(s, acc, s.w, columns.count, [&](int row, int column) {
        return base + row <= range.high ? numbers[table_row(table, base + row) * table.cols + columns.first + column]
                                        : 0.f;
      });
    }
  }

  RAPT_DEVICE void scale(int r, float factor) {
#pragma unroll
    for (int n = 0; n < 8; ++n) acc[r][n] *= factor;
  }

  RAPT_DEVICE void finish_softmax() {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      sum[r] = reduce_row(sum[r], add);
      if (call.has_sink && max[r] != kHidden) {
        const float sink = parameters[0], top = larger(max[r], sink), factor = expf(max[r] - top);
        sum[r] = sum[r] * factor + expf(sink - top);
        max[r] = top;
        scale(r, factor);
      }
      scale(r, sum[r] == 0 ? 0.f : 1 / sum[r]);
    }
  }

  // The largest score of each row and the first key that has it; NaN where a score is NaN.
  RAPT_DEVICE void find_largest() {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float top = row_maximum(r), before = max[r];
      if (before == kHidden) sum[r] = -1;
      max[r] = larger(max[r], top);
      float first = INFINITY;
#pragma unroll
      for (int c = 3; c >= 0; --c)
        if (scores.logit[r][c] == top) first = static_cast<float>(scores.key(c));
      first = reduce_row(first, [](float a, float b) { return fminf(a, b); });
      if (top > before) sum[r] = first;
      if (max[r] != max[r]) sum[r] = max[r];
    }
  }

  RAPT_DEVICE bool has_threshold(int r) const { return max[r] != kHidden && max[r] == max[r]; }

  RAPT_DEVICE void sum_weights() {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const Weight w = weight_of(call, Row::of(max[r], sum[r]), parameters, scores.logit[r][c], scores.key(c));
        weights[r] += w.value;
        slopes[r] += w.slope;
      }
  }

  // Newton's iteration from the left: Σ weight(score − τ) is convex and falls, so that τ rises to the root. Rounding may
  // take a step past it; after a few steps back a row is as near as its sums tell.
  RAPT_DEVICE bool step() {
    bool all = true;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float excess = reduce_row(weights[r], add) - 1, slope = reduce_row(slopes[r], add);
      const bool moves = has_threshold(r) && slope != 0 && steps_back[r] < kMaxStepsBack;
      const float moved = moves ? sum[r] + excess / slope : sum[r];
      steps_back[r] += moved < sum[r] ? 1 : 0;
      all = all && moved == sum[r];
      sum[r] = moved;
    }
    return __syncthreads_and(all) != 0;
  }

  RAPT_DEVICE float lse(int r) const {
    switch (call.threshold) {
      case Threshold::exponential: return max[r] == kHidden ? kHidden : max[r] + logf(sum[r]);
      case Threshold::first_largest: return max[r];
      case Threshold::solved: return max[r] == kHidden ? kHidden : max[r] + sum[r];
      default: return total[r] == 0 ? kHidden : logf(total[r]);
    }
  }

  RAPT_DEVICE void store() const {
    const Array& out = outputs.out[columns.set];
    const int b = scores.b, h = scores.h;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = scores.query(r);
      if (i >= call.queries) continue;
      if (out.data)
#pragma unroll
        for (int n = 0; n < 8; ++n)
          if (wide_column(n) < columns.count)
            cuda::store(out, out.offset(b, h) + i * out.row_stride + columns.first + wide_column(n), acc[r][n]);
      if (!first_pass || threadIdx.x % 16 != 0) continue;
      const std::int64_t row = call.row(b, h, i);
      if (outputs.rows.max) {
        outputs.rows.max[row] = max[r];
        outputs.rows.sum[row] = sum[r];
      }
      const auto put = [&](const Array& array, float x) {
        if (array.data) cuda::store(array, array.offset(b, h) + i * array.row_stride, x);
      };
      put(outputs.lse, lse(r));
      put(outputs.row_max, max[r]);
      put(outputs.row_sum, sum[r]);
    }
  }
};

template <class M>
__global__ __launch_bounds__(kThreads, 1) void forward_kernel(const __grid_constant__ Call call,
                                                              const __grid_constant__ ForwardOutputs outputs) {
  extern __shared__ float4 memory[];
  const int b = static_cast<int>(blockIdx.x) / call.heads, h = static_cast<int>(blockIdx.x) % call.heads;
  ForwardBlock<M>(call, outputs, *reinterpret_cast<Shared*>(memory), b, h, static_cast<int>(blockIdx.y) * kTile,
                  static_cast<int>(blockIdx.z))
      .run();
}

__host__ __device__ inline int tile_count(int rows) { return (rows + kTile - 1) / kTile; }

}  // namespace rapt::inline v1::cuda
