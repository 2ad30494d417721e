#pragma once

#include "backends/cpu/simd/scores.h"

// Gradients of few queries: bf16 keys and values are read as they are stored, and their gradients are written once, from
// registers. The bits are those of the wide path.
namespace rapt::inline v1::RAPT_TARGET {

// Rows of gradients: row j = Σ_c weights[j·columns + c]·rows[c], for the keys of a tile.
struct FewRows {
  const float* weights = nullptr;
  std::ptrdiff_t columns = 0;
  const float* rows = nullptr;  // padded to whole vectors
  std::ptrdiff_t stride = 0;
  int keys = 0;
  Bf16Bits* to = nullptr;
  std::ptrdiff_t to_stride = 0;
};

template <int kQueries, int kVectors>
RAPT_FN void few_rows_of(const FewRows& args, std::int64_t d, std::int64_t dim) {
  const Tag<float> tag;
  const hn::Rebind<std::uint16_t, Tag<float>> narrow;
  Vec<float> rows[kQueries][kVectors];
#pragma GCC unroll 8
  for (int c = 0; c < kQueries; ++c)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) rows[c][v] = hn::LoadU(tag, args.rows + c * args.stride + d + v * kLanes<float>);
  const float* w = args.weights;
  Bf16Bits* to = args.to + d;
  for (int j = 0; j < args.keys; ++j, w += args.columns, to += args.to_stride) {
    Vec<float> sum[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(tag);
#pragma GCC unroll 8
    for (int c = 0; c < kQueries; ++c) {
      const Vec<float> y = hn::Set(tag, w[c]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[v] = hn::MulAdd(y, rows[c][v], sum[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const auto bits = bfloat16_bits(tag, sum[v]);
      const std::int64_t left = dim - d - v * kLanes<float>;
      if (left >= kLanes<float>) {
        hn::StoreU(bits, narrow, to + v * kLanes<float>);
        continue;
      }
      Bf16Bits rest[kLanes<float>];
      hn::StoreU(bits, narrow, rest);
      for (std::int64_t n = 0; n < left; ++n) to[v * kLanes<float> + n] = rest[n];
    }
  }
}

template <int kQueries>
void few_rows_from(const FewRows& args, std::int64_t dim) {
  constexpr int kVectors = kQueries > 4 ? 2 : 4;
  std::int64_t d = 0;
  for (; d + kVectors * kLanes<float> <= dim; d += kVectors * kLanes<float>)
    few_rows_of<kQueries, kVectors>(args, d, dim);
  for (; d < dim; d += kLanes<float>) few_rows_of<kQueries, 1>(args, d, dim);
}

RAPT_FN void few_rows(const FewRows& args, int count, std::int64_t dim) {
  switch (count) {
    case 1: return few_rows_from<1>(args, dim);
    case 2: return few_rows_from<2>(args, dim);
    case 3: return few_rows_from<3>(args, dim);
    case 4: return few_rows_from<4>(args, dim);
    case 5: return few_rows_from<5>(args, dim);
    case 6: return few_rows_from<6>(args, dim);
    case 7: return few_rows_from<7>(args, dim);
    default: return few_rows_from<8>(args, dim);
  }
}
static_assert(kNarrow == 8);

// No infinity and no NaN among rows as they are stored.
RAPT_FN bool finite_stored(const Bf16Bits* rows, std::ptrdiff_t stride, std::int64_t count, std::int64_t dim) {
  const Tag<std::uint16_t> tag;
  constexpr std::int64_t kStep = hn::MaxLanes(tag);
  const auto exponent = hn::Set(tag, std::uint16_t{0x7F80});
  auto largest = hn::Zero(tag);
  std::uint16_t most = 0;
  for (std::int64_t r = 0; r < count; ++r) {
    const Bf16Bits* const row = rows + r * stride;
    std::int64_t d = 0;
    for (; d + kStep <= dim; d += kStep) largest = hn::Max(hn::And(hn::LoadU(tag, row + d), exponent), largest);
    for (; d < dim; ++d) {
      const auto bits = static_cast<std::uint16_t>(row[d] & 0x7F80);
      most = bits > most ? bits : most;
    }
  }
  return hn::AllFalse(tag, hn::Eq(largest, exponent)) && most != 0x7F80;
}

// The products of one tile of a task's keys. Tiles of numbers are [keys][columns], rows of the queries padded to whole vectors.
template <class T>
class FewGradients {
 public:
  FewGradients(const HeadTask<T>& head, const BackwardTask<T>& task, std::int64_t offset, int columns)
      : head_(head), task_(task), first_(task.first_key + offset), columns_(columns) {}

  // Values, and gradients as far as they are wanted.
  static bool fits(const HeadTask<T>& head, const BackwardTask<T>& task) {
    const auto is_bf16 = [](const MatrixRef& matrix) { return matrix.dtype == Dtype::bf16; };
    return is_bf16(head.v[0]) && (!task.want_dk || is_bf16(task.dk_rows)) &&
           (!task.want_dv || is_bf16(task.dv_rows[0]));
  }

  bool finite(std::int64_t keys) const {
    return finite_stored(rows_of(head_.k), head_.k.stride, keys, head_.dim) &&
           finite_stored(rows_of(head_.v[0]), head_.v[0].stride, keys, head_.value_dim[0]);
  }

  Bf16Rows key_rows() const { return {rows_of(head_.k), head_.k.stride * 2}; }

  // dP = V·dOᵀ. The buffer holds kLanes padded rows.
  void weight_gradient(const T* grad_out, int queries, int keys, T* buffer, T* grads) const {
    if constexpr (std::is_same_v<T, float>) {
      const FewQueries<T> rows{grad_out, padded<T>(head_.value_dim[0]), queries, columns_,
                               static_cast<int>(head_.value_dim[0])};
      few_dots<T, true>(rows, rows_of(head_.v[0]), head_.v[0].stride, keys, reinterpret_cast<Bf16Bits*>(buffer), grads,
                        columns_);
    }
  }

  // dV = P·dO, dK = dS·Q.
  void value_gradient(const T* weights, const T* grad_out, int queries, int keys) const {
    write(weights, grad_out, queries, keys, head_.value_dim[0], task_.dv_rows[0]);
  }
  void key_gradient(const T* grads, const T* q, int queries, int keys) const {
    write(grads, q, queries, keys, head_.dim, task_.dk_rows);
  }

  // dQ += dSᵀ·K. The line holds kLanes numbers.
  void query_gradient(const T* grads, int queries, int keys, T* dq, T* line) const {
    if constexpr (std::is_same_v<T, float>)
      few_values<T>({dq, padded<T>(head_.dim), grads, columns_, 1}, queries, rows_of(head_.k), head_.k.stride,
                    head_.dim, keys, false, false, line);
  }

 private:
  Bf16Bits* rows_of(const MatrixRef& matrix) const {
    return static_cast<Bf16Bits*>(matrix.data) + first_ * matrix.stride;
  }

  void write(const T* tile, const T* rows, int queries, int keys, std::int64_t dim, const MatrixRef& to) const {
    if constexpr (std::is_same_v<T, float>)
      few_rows({tile, columns_, rows, padded<T>(dim), keys, rows_of(to), to.stride}, queries, dim);
  }

  const HeadTask<T>& head_;
  const BackwardTask<T>& task_;
  const std::int64_t first_;
  const int columns_;
};

}  // namespace rapt::inline v1::RAPT_TARGET
