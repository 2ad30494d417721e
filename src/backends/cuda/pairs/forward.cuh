#pragma once

#include "backends/cuda/general/forward.cuh"
#include "backends/cuda/pairs/products.cuh"

// The forward pass of element-wise scores under softmax: a block has 64 queries of a head and up to 128 columns of one value
// set. T: the type that weights are rounded to for the tensor cores, or float.
namespace rapt::inline v1::cuda::pairs {

struct ForwardShared : Shared {
  float factors[kTile];  // of the rows
  HalfTile values[2];
};

template <class M, class T>
class Forward {
 public:
  static constexpr bool kLow = !std::is_same_v<T, float>;

  RAPT_DEVICE Forward(const Call& c, const ForwardOutputs& o, ForwardShared& shared, int batch, int head,
                      int first_query, int pass)
      : call_(c),
        outputs_(o),
        s_(shared),
        scores_(c, shared, batch, head),
        columns_(columns_of(c, pass)),
        has_values_(columns_.count > 0 && o.out[columns_.set].data),
        first_pass_(pass == 0) {
    scores_.set_queries(first_query);
#pragma unroll
    for (int r = 0; r < 4; ++r) max_[r] = kHidden, sum_[r] = 0;
    if constexpr (kLow)
      for (int panel = 0; panel < panels(); ++panel)
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int r = 0; r < 2; ++r) low_sum(panel, n, r) = make_float2(0, 0);
  }

  RAPT_DEVICE void run() {
    const KeyRange tiles = scores_.key_tiles();
    for (int first = tiles.begin; first < tiles.end; first += kTile) {
      scores_.compute(first);
      add_tile();
    }
    finish();
    store_rows();
    if (has_values_) store_values();
  }

 private:
  RAPT_DEVICE void add_tile() {
    float p[4][4], factor[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float top = kHidden;
#pragma unroll
      for (int c = 0; c < 4; ++c) top = larger(top, scores_.logit[r][c]);
      top = larger(max_[r], reduce_row(top, larger));
      factor[r] = max_[r] == kHidden ? 0.f : expf(max_[r] - top);
      max_[r] = top;
      sum_[r] *= factor[r];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float logit = scores_.logit[r][c];
        p[r][c] = logit == kHidden ? 0.f : expf(logit - top);
        sum_[r] += p[r][c];
      }
    }
    if (!has_values_) return;
    const Array& v = call_.v[columns_.set];
    if constexpr (kLow) {
      auto& weights = reinterpret_cast<HalfTile&>(s_.u);
      __syncthreads();
      store_half<T>(weights, p);
      share_factors(factor);
      bool special = false;
      for (int n = 0; n < panels(); ++n)
        special |=
            load_half<T>(s_.values[n], v, scores_.b, scores_.h, scores_.j, call_.keys, columns_.first + n * kTile);
      const bool careful = __syncthreads_or(special) != 0;
      if (careful) {
        store_by_row(s_.w, p);
        __syncthreads();
      }
      const float scale[2] = {s_.factors[fragment_row(0)], s_.factors[fragment_row(1)]};
#pragma unroll 1
      for (int panel = 0; panel < panels(); ++panel) {
        Fragment sum = {};
        if (careful) add_carefully<T, SumAlong::columns>(sum, s_.w, s_.values[panel]);
        else add_product<T, SumAlong::columns, SumAlong::rows>(sum, weights, s_.values[panel]);
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            float2& to = low_sum(panel, n, r);
            to = make_float2(fmaf(to.x, scale[r], sum[n][2 * r]), fmaf(to.y, scale[r], sum[n][2 * r + 1]));
          }
      }
    } else {
      scale_values(factor);
      __syncthreads();
      store_by_column(s_.w, p);
      accumulate(s_, wide_, s_.w, columns_.count,
                 RowLoader(v, scores_.b, scores_.h, scores_.j, call_.keys, columns_.first));
    }
  }

  RAPT_DEVICE int panels() const { return (columns_.count + kTile - 1) / kTile; }

  RAPT_DEVICE void share_factors(const float (&factor)[4]) {
    if (threadIdx.x % 16 != 0) return;
#pragma unroll
    for (int r = 0; r < 4; ++r) s_.factors[thread_row() + r] = factor[r];
  }
  // Sums of values of the tensor cores: two of a thread's.
  RAPT_DEVICE float2& low_sum(int panel, int n, int r) const {
    return *reinterpret_cast<float2*>(&s_.wide[fragment_row(r)][panel * kTile + fragment_column(n)]);
  }
  RAPT_DEVICE void scale_values(const float (&factor)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int n = 0; n < 8; ++n) wide_[r][n] *= factor[r];
  }

  // The sums of the rows, their sink, and what the values are to be divided by.
  RAPT_DEVICE void finish() {
    float factor[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      sum_[r] = reduce_row(sum_[r], add);
      factor[r] = 1;
      if (call_.has_sink && max_[r] != kHidden) {
        const float sink = call_.normalizer_numbers(scores_.h)[0], top = larger(max_[r], sink);
        factor[r] = expf(max_[r] - top);
        sum_[r] = sum_[r] * factor[r] + expf(sink - top);
        max_[r] = top;
      }
      factor[r] = sum_[r] == 0 ? 0.f : factor[r] / sum_[r];
    }
    if constexpr (kLow) {
      __syncthreads();
      share_factors(factor);
      __syncthreads();
    } else {
      scale_values(factor);
    }
  }

  RAPT_DEVICE void store_rows() const {
    if (!first_pass_ || threadIdx.x % 16 != 0) return;
    const int b = scores_.b, h = scores_.h;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = scores_.query(r);
      if (i >= call_.queries) continue;
      if (outputs_.rows.max) {
        outputs_.rows.max[call_.row(b, h, i)] = max_[r];
        outputs_.rows.sum[call_.row(b, h, i)] = sum_[r];
      }
      const auto put = [&](const Array& array, float x) {
        if (array.data) cuda::store(array, array.offset(b, h) + i * array.row_stride, x);
      };
      put(outputs_.lse, max_[r] == kHidden ? kHidden : max_[r] + logf(sum_[r]));
      put(outputs_.row_max, max_[r]);
      put(outputs_.row_sum, sum_[r]);
    }
  }

  RAPT_DEVICE void store_values() const {
    const Array& out = outputs_.out[columns_.set];
    const int b = scores_.b, h = scores_.h;
    if constexpr (kLow) {
      for (int panel = 0; panel < panels(); ++panel)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int i = scores_.i + fragment_row(r);
          if (i >= call_.queries) continue;
          const float scale = s_.factors[fragment_row(r)];
          auto* const row = static_cast<std::uint16_t*>(out.data) + out.offset(b, h) + i * out.row_stride;
          auto* const remainder = outputs_.remainder
                                      ? static_cast<std::uint16_t*>(outputs_.remainder) + call_.row(b, h, i) * out.dim
                                      : nullptr;
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            const float2 x = low_sum(panel, n, r);
            const float y[2] = {x.x * scale, x.y * scale};
            const std::uint32_t bits = pack(y[0], y[1], T{});
            const float2 kept = unpack(bits, T{});
            const std::uint32_t lost = pack(y[0] - kept.x, y[1] - kept.y, T{});
#pragma unroll
            for (int c = 0; c < 2; ++c) {
              const int column = panel * kTile + fragment_column(n) + c;
              if (column >= columns_.count) continue;
              row[columns_.first + column] = static_cast<std::uint16_t>(bits >> (16 * c));
              if (remainder) remainder[columns_.first + column] = static_cast<std::uint16_t>(lost >> (16 * c));
            }
          }
        }
    } else {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int i = scores_.query(r);
        if (i >= call_.queries) continue;
#pragma unroll
        for (int n = 0; n < 8; ++n)
          if (wide_column(n) < columns_.count)
            cuda::store(out, out.offset(b, h) + i * out.row_stride + columns_.first + wide_column(n), wide_[r][n]);
      }
    }
  }

  const Call& call_;
  const ForwardOutputs& outputs_;
  ForwardShared& s_;
  Scores<M> scores_;
  const Columns columns_;
  const bool has_values_;
  const bool first_pass_;  // the one that also stores what belongs to rows
  float max_[4], sum_[4];
  float wide_[4][8] = {};  // sums of values where T is float
};

template <class M, class T>
__global__ __launch_bounds__(kThreads, kBlocks<T>) void forward_kernel(const __grid_constant__ Call call,
                                                                       const __grid_constant__ ForwardOutputs outputs) {
  extern __shared__ float4 memory[];
  const int b = static_cast<int>(blockIdx.x) / call.heads, h = static_cast<int>(blockIdx.x) % call.heads;
  Forward<M, T>(call, outputs, *reinterpret_cast<ForwardShared*>(memory), b, h, static_cast<int>(blockIdx.y) * kTile,
                static_cast<int>(blockIdx.z))
      .run();
}

}  // namespace rapt::inline v1::cuda::pairs
