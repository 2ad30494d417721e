#pragma once

#include "rapt/mechanism.h"
#include "rapt/tile_program.h"

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

  // Up to here the product of two denominators stays finite in f32.
  static constexpr double fast_limit = 10;

  template <class V>
  constexpr V fast_prepare(V x) const {
    return exp(x + x);
  }

  template <class V>
  static void fast_raw(const PairTile<typename Lanes<V>::Scalar>& tile) {
    constexpr int kKeys = 4;
    using T = typename Lanes<V>::Scalar;
    T weight_sum(0);
    for (int d = 0; d < tile.dim; ++d) weight_sum += tile.weights[d];
    for (int j = 0; j < tile.keys; j += kKeys) {
      // The last keys of a tile may repeat: a full block keeps the loop free of branches.
      const T* key[kKeys];
      T* score[kKeys];
      for (int n = 0; n < kKeys; ++n) {
        const int row = j + n < tile.keys ? j + n : tile.keys - 1;
        key[n] = tile.key_rows + row * tile.key_stride;
        score[n] = tile.scores + static_cast<std::ptrdiff_t>(row) * tile.stride;
      }
      for (int c = 0; c < tile.columns; c += Lanes<V>::count) {
        V sum[kKeys];
        for (int n = 0; n < kKeys; ++n) sum[n] = V(0);
        int d = 0;
        for (; d + 2 <= tile.dim; d += 2) {
          const T* q = tile.queries + static_cast<std::ptrdiff_t>(d) * tile.stride + c;
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
        if (d < tile.dim) {
          const V q0 = Lanes<V>::load(tile.queries + static_cast<std::ptrdiff_t>(d) * tile.stride + c);
          for (int n = 0; n < kKeys; ++n)
            sum[n] = mul_add(V(tile.weights[d]), reciprocal(mul_add(q0, V(key[n][d]), V(1))), sum[n]);
        }
        for (int n = 0; n < kKeys; ++n) Lanes<V>::store(V(weight_sum) - (sum[n] + sum[n]), score[n] + c);
      }
    }
  }

  // With r = 1/(1+x): tanh = 1 − 2r and its slope is 4r(1−r), the same for the query and the key.
  template <class V>
  static void fast_raw_backward(const PairTile<typename Lanes<V>::Scalar>& tile) {
    using T = typename Lanes<V>::Scalar;
    for (int d = 0; d < tile.dim; ++d) {
      const std::ptrdiff_t line = static_cast<std::ptrdiff_t>(d) * tile.stride;
      const V slope_weight(tile.weights[d] * T(4));
      V weight_sum(0);
      for (int j = 0; j < tile.keys; ++j) {
        const V k(tile.key_rows[j * tile.key_stride + d]);
        V key_sum(0);
        for (int c = 0; c < tile.columns; c += Lanes<V>::count) {
          const V grad = Lanes<V>::load(tile.grad + static_cast<std::ptrdiff_t>(j) * tile.stride + c);
          const V r = reciprocal(mul_add(Lanes<V>::load(tile.queries + line + c), k, V(1)));
          const V g = slope_weight * grad * (r - r * r);
          T* q = tile.grad_queries + line + c;
          Lanes<V>::store(Lanes<V>::load(q) + g, q);
          key_sum = key_sum + g;
          weight_sum = weight_sum + grad * (V(1) - (r + r));
        }
        tile.grad_keys[j * tile.grad_key_stride + d] += Lanes<V>::sum(key_sum);
      }
      if (tile.grad_weights) tile.grad_weights[d] += static_cast<double>(Lanes<V>::sum(weight_sum));
    }
  }
};

}  // namespace rapt::mechanisms
