#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

// With x = e^{2a} e^{2b}, tanh(a+b) = 1 − 2/(1+x): the exponentials are taken once a row, and a pair costs a
// multiply-add and half a reciprocal, two dimensions sharing one: w₁/x + w₂/y = (w₁y + w₂x)/(xy).
struct Additive {
  static constexpr std::string_view formula = "w · tanh(q Wq + k Wk)";
  static constexpr std::array parameters{
      ParameterSpec{.name = "w", .role = Role::pair_weight, .sizes = {kInner}},
      ParameterSpec{.name = "Wq", .role = Role::query_map, .sizes = {kQueryDim, kInner}, .required = false},
      ParameterSpec{.name = "Wk", .role = Role::key_map, .sizes = {kKeyDim, kInner}, .required = false},
  };

  template <class N>
  constexpr N pair(N q, N k, N w) const {
    return w * tanh(q + k);
  }

  // Up to here e^{2a}·e^{2b} stays finite in f32; up to shared_limit the product of two denominators does too.
  static constexpr double fast_limit = 21;
  static constexpr double shared_limit = 10.5;
  // Root of the mean square below which rows are small: 1 − 2/(1+x) has few digits of a tanh that is small itself.
  static constexpr double fast_least = 0.35;

  template <class V>
  constexpr V fast_prepare(V x) const {
    return exp(x + x);
  }

  // For engines that hold pairs in registers: the raw score is offset·Σw + factor·Σw·r, its slope by either number slope·w·x·r².
  static constexpr double fast_offset = 1;
  static constexpr double fast_factor = -2;
  static constexpr double fast_slope = 4;
  static constexpr double fast_pair_limit = shared_limit;

  // sum + Σ w·r of two dimensions. Zeros add nothing.
  template <class V>
  RAPT_FN static V fast_terms(V sum, V q0, V k0, V w0, V q1, V k1, V w1) {
    const V x = mul_add(q0, k0, V(1));
    const V y = mul_add(q1, k1, V(1));
    return mul_add(mul_add(w0, y, w1 * x), reciprocal(x * y), sum);
  }
  // r of two dimensions.
  template <class V>
  RAPT_FN static void fast_shares(V q0, V k0, V q1, V k1, V& r0, V& r1) {
    const V x = mul_add(q0, k0, V(1));
    const V y = mul_add(q1, k1, V(1));
    const V inverse = reciprocal(x * y);
    r0 = y * inverse;
    r1 = x * inverse;
  }

  // What a pair gets depends on its own two rows alone, whatever else is in the tile.
  template <class V>
  static void fast_raw(const PairTile<typename Lanes<V>::Scalar>& tile) {
    using T = typename Lanes<V>::Scalar;
    constexpr int kLanes = Lanes<V>::count;
    for (int begin = 0; begin < tile.columns; begin += kColumns * kLanes) {
      const int end = begin + kColumns * kLanes < tile.columns ? begin + kColumns * kLanes : tile.columns;
      V large[kColumns];  // 1 for a query with a number that shares no reciprocal, else 0
      bool some_large[kColumns], all_large[kColumns];
      for (int c = begin, n = 0; c < end; c += kLanes, ++n) {
        large[n] = large_queries<V>(tile, c);
        const T count = Lanes<V>::sum(large[n]);
        some_large[n] = count > 0;
        all_large[n] = count == T(kLanes);
      }
      for (int j = 0; j < tile.keys; j += kKeys) {
        // The last keys of a tile may repeat: a full block keeps the loop free of branches.
        const T* key[kKeys];
        T* score[kKeys];
        bool small[kKeys];
        bool some_small = false, all_small = true;
        for (int n = 0; n < kKeys; ++n) {
          const int row = j + n < tile.keys ? j + n : tile.keys - 1;
          key[n] = tile.key_rows + row * tile.key_stride;
          score[n] = tile.scores + static_cast<std::ptrdiff_t>(row) * tile.stride;
          small[n] = is_small<V>(key[n], tile.dim);
          some_small = some_small || small[n];
          all_small = all_small && small[n];
        }
        for (int c = begin, v = 0; c < end; c += kLanes, ++v) {
          V half[kKeys];
          for (int n = 0; n < kKeys; ++n) half[n] = V(0);
          if (some_small && !all_large[v]) half_scores<V, true>(tile, key, c, half);
          if (!all_small || some_large[v]) {
            V alone[kKeys];
            half_scores<V, false>(tile, key, c, alone);
            for (int n = 0; n < kKeys; ++n)
              half[n] = small[n] && !all_large[v] ? where(large[v] > V(0), alone[n], half[n]) : alone[n];
          }
          for (int n = 0; n < kKeys; ++n) Lanes<V>::store(half[n] + half[n], score[n] + c);
        }
      }
    }
  }

  // With r = 1/(1+x): tanh = 1 − 2r and its slope is 4xr², the same for the query and the key; 4r(1−r) has no digits where x
  // is small.
  template <class V>
  static void fast_raw_backward(const PairTile<typename Lanes<V>::Scalar>& tile) {
    ExactSum<V> grad_sum;
    for (int j = 0; j < tile.keys; ++j)
      for (int c = 0; c < tile.columns; c += Lanes<V>::count)
        grad_sum.add(Lanes<V>::load(tile.grad + static_cast<std::ptrdiff_t>(j) * tile.stride + c));
    const double total = grad_sum.total();
    bool some_large;
    const int paired = shares_reciprocals<V>(tile, some_large) ? tile.dim / 2 * 2 : 0;
    for (int d = 0; d < tile.dim; d += d < paired ? 2 : 1) {
      const int dims = d < paired ? 2 : 1;
      double weight_sums[2] = {};
      int c = 0;
      for (; c + kVectors * Lanes<V>::count <= tile.columns; c += kVectors * Lanes<V>::count) {
        if (dims == 2 && some_large) backward_columns<V, kVectors, 2, true>(tile, d, c, weight_sums);
        else if (dims == 2) backward_columns<V, kVectors, 2>(tile, d, c, weight_sums);
        else backward_columns<V, kVectors, 1>(tile, d, c, weight_sums);
      }
      for (; c < tile.columns; c += Lanes<V>::count) {
        if (dims == 2 && some_large) backward_columns<V, 1, 2, true>(tile, d, c, weight_sums);
        else if (dims == 2) backward_columns<V, 1, 2>(tile, d, c, weight_sums);
        else backward_columns<V, 1, 1>(tile, d, c, weight_sums);
      }
      for (int n = 0; n < dims && tile.grad_weights; ++n) tile.grad_weights[d + n] += total - 2 * weight_sums[n];
    }
  }

 private:
  static constexpr int kKeys = 8;
  static constexpr int kSpan = 16;
  static constexpr int kVectors = 4;
  static constexpr int kColumns = 8;
  static constexpr double kSharedLimit = 1.3e9;  // e^{2·shared_limit}
  static constexpr double kMostProduct = 1e37;   // more than two denominators within it have

  // 1 where a query of the columns from c on has a number above the limit, or NaN; else 0.
  template <class V>
  static V large_queries(const PairTile<typename Lanes<V>::Scalar>& tile, int c) {
    V most(0);
    for (int d = 0; d < tile.dim; ++d)
      most = max(most, Lanes<V>::load(tile.queries + static_cast<std::ptrdiff_t>(d) * tile.stride + c));
    return where(most <= V(kSharedLimit), V(0), V(1));
  }

  template <class V>
  static bool is_small(const typename Lanes<V>::Scalar* key, int dim) {
    V most(0);
    int d = 0;
    for (; d + Lanes<V>::count <= dim; d += Lanes<V>::count) most = max(most, Lanes<V>::load(key + d));
    bool small = Lanes<V>::sum(where(most <= V(kSharedLimit), V(0), V(1))) == 0;
    for (; d < dim; ++d) small = small && key[d] <= kSharedLimit;  // NaN is not small
    return small;
  }

  // Σ w/2 − Σ w/(1+x) of kKeys keys and the columns from c on: span by span, since a sum over all dimensions would round at
  // its own size, however small the score is.
  template <class V, bool kShared>
  static void half_scores(const PairTile<typename Lanes<V>::Scalar>& tile,
                          const typename Lanes<V>::Scalar* const (&key)[kKeys], int c, V (&total)[kKeys]) {
    using T = typename Lanes<V>::Scalar;
    for (int n = 0; n < kKeys; ++n) total[n] = V(0);
    const T* q = tile.queries + c;
    for (int d = 0; d < tile.dim;) {
      const int end = d + kSpan < tile.dim ? d + kSpan : tile.dim;
      T half(0);
      for (int e = d; e < end; ++e) half += tile.weights[e];
      half *= T(0.5);
      V sum[kKeys];
      for (int n = 0; n < kKeys; ++n) sum[n] = V(0);
      if constexpr (kShared)
        for (; d + 2 <= end; d += 2, q += 2 * static_cast<std::ptrdiff_t>(tile.stride)) {
          const V q0 = Lanes<V>::load(q);
          const V q1 = Lanes<V>::load(q + tile.stride);
          const V w0(tile.weights[d]);
          const V w1(tile.weights[d + 1]);
          for (int n = 0; n < kKeys; ++n) {
            const V x = mul_add(q0, V(key[n][d]), V(1));
            const V y = mul_add(q1, V(key[n][d + 1]), V(1));
            sum[n] = mul_add(mul_add(w0, y, w1 * x), reciprocal(x * y), sum[n]);
          }
        }
      for (; d < end; ++d, q += tile.stride) {
        const V q0 = Lanes<V>::load(q);
        const V w0(tile.weights[d]);
        for (int n = 0; n < kKeys; ++n) sum[n] = mul_add(w0, reciprocal(mul_add(q0, V(key[n][d]), V(1))), sum[n]);
      }
      for (int n = 0; n < kKeys; ++n) total[n] = total[n] + (V(half) - sum[n]);
    }
  }

  // Whether every number of the tile is small enough for two denominators to be multiplied; rows without a gradient, which may
  // be hidden, have no say. `some_large`: one of them is not.
  template <class V>
  static bool shares_reciprocals(const PairTile<typename Lanes<V>::Scalar>& tile, bool& some_large) {
    some_large = false;
    const auto grad = [&](int j, int c) {
      return Lanes<V>::load(tile.grad + static_cast<std::ptrdiff_t>(j) * tile.stride + c);
    };
    for (int c = 0; c < tile.columns; c += Lanes<V>::count) {
      const V large = large_queries<V>(tile, c);
      if (Lanes<V>::sum(large) == 0) continue;
      some_large = true;
      for (int j = 0; j < tile.keys; ++j)
        if (Lanes<V>::sum(where(grad(j, c) == V(0), V(0), large)) > 0) return false;
    }
    for (int j = 0; j < tile.keys; ++j) {
      if (is_small<V>(tile.key_rows + j * tile.key_stride, tile.dim)) continue;
      some_large = true;
      for (int c = 0; c < tile.columns; c += Lanes<V>::count)
        if (Lanes<V>::sum(where(grad(j, c) == V(0), V(0), V(1))) > 0) return false;
    }
    return true;
  }

  // kGuarded: some rows have no gradient but numbers with an infinite product, of which 0 would become NaN.
  // Dimensions d … d+kDims−1 of the columns from c on. What all pairs share, 4·w, is multiplied in at the end, and so is the
  // factor of x that all pairs of a sum have.
  template <class V, int kCount, int kDims, bool kGuarded = false>
  static void backward_columns(const PairTile<typename Lanes<V>::Scalar>& tile, int d, int c, double* weight_sums) {
    using T = typename Lanes<V>::Scalar;
    constexpr int kLanes = Lanes<V>::count;
    V q[kDims][kCount], dq[kDims][kCount];
    ExactSum<V> weight_sum[kDims];
    T slope[kDims];
    for (int n = 0; n < kDims; ++n) {
      slope[n] = tile.weights[d + n] * T(4);
      for (int v = 0; v < kCount; ++v) {
        q[n][v] = Lanes<V>::load(tile.queries + static_cast<std::ptrdiff_t>(d + n) * tile.stride + c + v * kLanes);
        dq[n][v] = V(0);
      }
    }
    V key_sums[4] = {V(0), V(0), V(0), V(0)};
    for (int j = 0; j < tile.keys; ++j) {
      const T* grad = tile.grad + static_cast<std::ptrdiff_t>(j) * tile.stride + c;
      const T* key = tile.key_rows + j * tile.key_stride + d;
      V k[kDims], key_sum[kDims], row_sum[kDims];
      for (int n = 0; n < kDims; ++n) {
        k[n] = V(key[n]);
        key_sum[n] = V(0);
        row_sum[n] = V(0);
      }
      for (int v = 0; v < kCount; ++v) {
        const V g = Lanes<V>::load(grad + v * kLanes);
        V r[kDims];
        if constexpr (kDims == 2) {
          const V x = mul_add(q[0][v], k[0], V(1));
          const V y = mul_add(q[1][v], k[1], V(1));
          V product = x * y;
          if constexpr (kGuarded) product = where(product < V(T(kMostProduct)), product, V(T(kMostProduct)));
          const V inverse = reciprocal(product);
          r[0] = y * inverse;
          r[1] = x * inverse;
        } else {
          r[0] = reciprocal(mul_add(q[0][v], k[0], V(1)));
        }
        for (int n = 0; n < kDims; ++n) {
          const V gr = g * r[n];
          const V part = gr * r[n];
          row_sum[n] = row_sum[n] + gr;
          dq[n][v] = mul_add(part, k[n], dq[n][v]);
          key_sum[n] = mul_add(part, q[n][v], key_sum[n]);
        }
      }
      for (int n = 0; n < kDims; ++n) {
        weight_sum[n].add(row_sum[n]);
        key_sums[j % 2 * 2 + n] = key_sum[n];
      }
      if (j % 2 == 0 && j + 1 < tile.keys) continue;
      // The lanes of two keys are added up together: four sums in little more than the time of one.
      T sums[4] = {};
      Lanes<V>::add_sums(key_sums, sums);
      for (int row = j / 2 * 2; row <= j; ++row)
        for (int n = 0; n < kDims; ++n)
          tile.grad_keys[row * tile.grad_key_stride + d + n] +=
              slope[n] * tile.key_rows[row * tile.key_stride + d + n] * sums[row % 2 * 2 + n];
    }
    for (int n = 0; n < kDims; ++n) {
      weight_sums[n] += weight_sum[n].total();
      for (int v = 0; v < kCount; ++v) {
        T* to = tile.grad_queries + static_cast<std::ptrdiff_t>(d + n) * tile.stride + c + v * kLanes;
        Lanes<V>::store(mul_add(V(slope[n]) * q[n][v], dq[n][v], Lanes<V>::load(to)), to);
      }
    }
  }
};

}  // namespace rapt::mechanisms
