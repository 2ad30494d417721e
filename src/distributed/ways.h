#pragma once

#include "distributed/call.h"

// The ways of a call over processes, each forward and backward. The first two give the same bits.
namespace rapt::inline v1::distributed {

// Keys and values travel from process to process.
template <class T>
void ring_forward(const Call& call, const Outputs& outputs);
// Backward sums travel in so many groups of slots: the last process starts n − 1 of them late, which shall be little of all.
std::int64_t sum_groups(const Call& call);
template <class T>
void ring_backward(const Call& call, const Given& given, const Saved::Rows& rows);

// Rows of all heads are exchanged for all rows of some heads, and back.
template <class T>
void heads_forward(const Call& call, const Outputs& outputs);
template <class T>
void heads_backward(const Call& call, const Given& given, const Saved::Rows& rows);

// The ring in steps that are known beforehand, for memory of a device and messages without tags: all is in the order of a
// stream, and the sums are made where the arrays are.
void steps_forward(const Call& call, const Outputs& outputs);
void steps_backward(const Call& call, const Given& given);

// Row maxima and row sums as arrays [B, H, rows, 1].
template <class T>
View rows_view(const Call& call, T* numbers, std::int64_t rows) {
  const Shape shape{call.whole.batch, call.whole.heads, rows, 1};
  return {numbers, dtype_of<T>(), shape, contiguous_strides(shape), {}};
}

// Stores [B, H, rows, 1] of lse where it is wanted; max and sum are as Saved::Rows has them.
template <class T>
void store_lse(const Call& call, const View& lse, const View& max, const View& sum);

// δ needs outputs as they were before they were rounded to 16 bits: contiguous arrays, which `saved` gets copies of.
template <class T>
void keep_wide_out(const Outputs& outputs, const std::vector<View>& wide, Saved::Rows& saved);
inline bool has_16_bits(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::f16; }

// dst = src of the same shape, in another type or layout.
template <class T>
void store_view(const View& src, const View& dst);

int threads_of(const Call& call);

}  // namespace rapt::inline v1::distributed
