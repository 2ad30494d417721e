#pragma once

#include <type_traits>

#include "backends/cuda/hopper/fragments.cuh"
#include "backends/cuda/hopper/score.cuh"

// A dense bias and a dense mask on the numbers of a fragment: read from memory into the registers of the thread that has the
// pair, before the product is waited for.
namespace rapt::inline v1::cuda::hopper {

// Bits of a mask, of the thread's rows r and kColumns columns.
template <int kColumns>
struct MaskWords {
  static_assert(kColumns % 16 == 0);
  static constexpr int kBits = kColumns % 32 == 0 ? 32 : 16;  // of a word
  using Word = std::conditional_t<kBits == 32, std::uint32_t, std::uint16_t>;
  std::uint32_t words[2][kColumns / kBits];

  // `first`: a multiple of kBits; `column`: of the thread's first pair from there, 2·(lane % 4).
  RAPT_DEVICE void load(const std::uint32_t* const (&rows)[2], int first, int column) {
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int n = 0; n < kColumns / kBits; ++n)
        words[r][n] = std::uint32_t{__ldg(reinterpret_cast<const Word*>(rows[r]) + first / kBits + n)} >> column;
  }
  RAPT_DEVICE bool sees(int r, int n, int c) const { return (words[r][8 * n / kBits] >> (8 * n % kBits + c) & 1) != 0; }

  RAPT_DEVICE void hide(float (&s)[kColumns / 2]) const {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[4 * n + e] = sees(e / 2, n, e % 2) ? s[4 * n + e] : -INFINITY;
  }
};

// Whose bias and mask.
struct DensePlace {
  int batch, head;
  int first_row;  // the thread has this one and the one 8 further

  template <class A>
  RAPT_DEVICE std::int64_t offset(const A& a) const {
    return (a.batches == 1 ? 0 : batch) * a.batch_stride + (a.group == 1 ? head : 0) * a.head_stride;
  }
  RAPT_DEVICE int row(int r, int rows) const { return ::min(first_row + 8 * r, rows - 1); }
};

RAPT_DEVICE bool has_short_bias(const Call& call) { return call.paired_bias.dtype != Dtype::f32; }

template <int kColumns>
RAPT_DEVICE void load_mask(MaskWords<kColumns>& to, const MaskBits& bits, const DensePlace& at, int rows, int first,
                           int column) {
  const std::uint32_t* words = bits.words + at.offset(bits);
  const std::uint32_t* const of_rows[2] = {words + static_cast<std::int64_t>(at.row(0, rows)) * bits.row_words,
                                           words + static_cast<std::int64_t>(at.row(1, rows)) * bits.row_words};
  to.load(of_rows, first, column);
}

// Where rows are queries and columns keys. A bias of 16 bits is read in kParts parts, of which only the first is ahead of its
// use; one in f32 in twice as many. `first` is the tile's first key, and the thread's first pair is `column` from there.
template <class T, int kColumns, int kParts>
class DenseKeys {
 public:
  RAPT_DEVICE void load(const Call& call, const DensePlace& at, int first, int column) {
    if (call.paired_bias.data) {
      if (has_short_bias(call)) load_part<true>(call, at, 0, first + column);
      else load_part<false>(call, at, 0, first + column);
    }
    if (call.keys_of_query.words) load_mask(mask_, call.keys_of_query, at, call.queries, first, column);
  }

  // The bias on the tile's scores, and −∞ where the mask hides a pair.
  RAPT_DEVICE void apply(const Call& call, const DensePlace& at, float (&s)[kColumns / 2], int first, int column) {
    if (call.paired_bias.data) {
      if (has_short_bias(call)) add_bias<true>(call, at, s, first + column);
      else add_bias<false>(call, at, s, first + column);
    }
    if (call.keys_of_query.words) mask_.hide(s);
  }

  // Before those of columns 8n + … are asked for.
  RAPT_DEVICE void reach(const Call& call, const DensePlace& at, int n, int first, int column) {
    if (!call.paired_bias.data || n == 0) return;
    if (has_short_bias(call)) {
      if (n % kPart<true> == 0) load_part<true>(call, at, n, first + column);
    } else {
      if (n % kPart<false> == 0) load_part<false>(call, at, n, first + column);
    }
  }
  // 0 without a bias.
  RAPT_DEVICE float2 bias(const Call& call, int n, int r) const {
    if (!call.paired_bias.data) return make_float2(0, 0);
    return has_short_bias(call) ? pair<true>(n, r) : pair<false>(n, r);
  }
  RAPT_DEVICE bool sees(const Call& call, int n, int r, int c) const {
    return !call.keys_of_query.words || mask_.sees(r, n, c);
  }

 private:
  // Of 8 columns each.
  template <bool kShort>
  static constexpr int kPart = kColumns / 8 / kParts / (kShort ? 1 : 2);

  template <bool kShort>
  RAPT_DEVICE float2 pair(int n, int r) const {
    const int m = 2 * (n % kPart<kShort>)+r;
    if constexpr (kShort) return unpack(words_[m], T{});
    else return make_float2(__uint_as_float(words_[2 * m]), __uint_as_float(words_[2 * m + 1]));
  }

  template <bool kShort>
  RAPT_DEVICE void load_part(const Call& call, const DensePlace& at, int n, int key) {
    const Array& bias = call.paired_bias;
    key += 8 * n;
    // What is read past a row's last pair is hidden.
    const int last = (call.keys - 1) & ~1;
    const bool inside = key + 8 * kPart<kShort> <= call.keys;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::int64_t row = at.offset(bias) + at.row(r, call.queries) * bias.row_stride;
      const auto load = [&](auto place) {
#pragma unroll
        for (int m = 0; m < kPart<kShort>; ++m) {
          const std::int64_t from = row + place(key + 8 * m);
          if constexpr (kShort) {
            words_[2 * m + r] =
                __ldg(reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint16_t*>(bias.data) + from));
          } else {
            const uint2 x = __ldg(reinterpret_cast<const uint2*>(static_cast<const float*>(bias.data) + from));
            words_[2 * (2 * m + r)] = x.x;
            words_[2 * (2 * m + r) + 1] = x.y;
          }
        }
      };
      if (inside) load([](int k) { return k; });
      else load([&](int k) { return ::min(k, last); });
    }
  }

  template <bool kShort>
  RAPT_DEVICE void add_bias(const Call& call, const DensePlace& at, float (&s)[kColumns / 2], int key) {
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
      if (n > 0 && n % kPart<kShort> == 0) load_part<kShort>(call, at, n, key);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float2 x = pair<kShort>(n, r);
        s[4 * n + 2 * r] += x.x;
        s[4 * n + 2 * r + 1] += x.y;
      }
    }
  }

  std::uint32_t words_[kColumns / 4 / kParts];
  MaskWords<kColumns> mask_;
};

// Where rows are keys and columns queries: neighbouring columns of a bias are a row apart.
template <class T, int kColumns, int kParts>
class DenseQueries {
 public:
  RAPT_DEVICE void load(const Call& call, const DensePlace& at, int first, int column) {
    load_part(call, at, 0, first + column);
    if (call.queries_of_key.words) load_mask(mask_, call.queries_of_key, at, call.keys, first, column);
  }
  RAPT_DEVICE void reach(const Call& call, const DensePlace& at, int n, int first, int column) {
    if (n > 0 && n % kPart == 0) load_part(call, at, n, first + column);
  }

  RAPT_DEVICE float bias(const Call& call, int n, int r, int c) const {
    if (!call.paired_bias.data) return 0;
    const std::uint32_t x = words_[4 * (n % kPart) + 2 * r + c];
    return has_short_bias(call) ? unpack(x, T{}).x : __uint_as_float(x);
  }
  RAPT_DEVICE bool sees(const Call& call, int n, int r, int c) const {
    return !call.queries_of_key.words || mask_.sees(r, n, c);
  }

 private:
  static constexpr int kPart = kColumns / 8 / kParts;  // of 8 columns each

  RAPT_DEVICE void load_part(const Call& call, const DensePlace& at, int n, int query) {
    if (!call.paired_bias.data) return;
    if (has_short_bias(call)) load_numbers<std::uint16_t>(call, at, query + 8 * n);
    else load_numbers<std::uint32_t>(call, at, query + 8 * n);
  }
  template <class N>
  RAPT_DEVICE void load_numbers(const Call& call, const DensePlace& at, int query) {
    const Array& bias = call.paired_bias;
    const N* numbers = static_cast<const N*>(bias.data) + at.offset(bias);
#pragma unroll
    for (int m = 0; m < kPart; ++m)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const N* row = numbers + ::min(query + 8 * m + c, call.queries - 1) * bias.row_stride;
#pragma unroll
        for (int r = 0; r < 2; ++r) words_[4 * m + 2 * r + c] = __ldg(row + at.row(r, call.keys));
      }
  }

  std::uint32_t words_[4 * kPart];
  MaskWords<kColumns> mask_;
};

// Of kernels without.
struct NotDense {};

}  // namespace rapt::inline v1::cuda::hopper
