#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/tile_size.h"
#include "rapt/threads.h"

// Products of bf16 numbers, two at a time, summed in f32: instructions that newer processors have in addition to their
// SIMD target.
namespace rapt::inline v1 {

// C (+)= A·B, by words of two bf16 numbers that follow each other along the sum. Sizes are padded: n to 16, and unless the
// kernels are exact m to 16 and k to 16 words; what pads A or B is zero.
struct Bf16Product {
  std::int64_t m = 0, n = 0;
  std::int64_t k = 0;                // words
  const void* a = nullptr;           // [m] rows of k words
  std::ptrdiff_t a_row = 0;          // bytes from one to the next
  std::ptrdiff_t a_step = 4;         // bytes from one word of a row to the next: 4 but for kernels that read columns
  const std::uint32_t* b = nullptr;  // [k][b_row]
  std::ptrdiff_t b_row = 0;
  float* c = nullptr;  // [m][c_row]
  std::ptrdiff_t c_row = 0;
  bool accumulate = false;
  float scale = 1;  // of the sums; only with exact kernels, and without accumulate
};

struct Bf16Kernels {
  const char* name;
  bool exact;  // any m, k and a_step, so that A is read as it lies
  // Backward passes with fewer queries or keys are faster without: rows are rearranged for each product.
  std::int64_t fewest_backward;
  // Around the products of one task, on its thread.
  void (*begin)();
  void (*end)();
  void (*product)(const Bf16Product&);
  // Rounds rows of numbers to rows of bf16, [rows][to_stride], the padding of each zero. cols is a multiple of 16.
  void (*round_rows)(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride,
                     std::uint16_t* to, std::ptrdiff_t to_stride);
  // The same of any number of columns, and what follows a row is left as it is.
  void (*store_rows)(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride,
                     std::uint16_t* to, std::ptrdiff_t to_stride);
  // Rounds, and interleaves adjacent rows in pairs: [padded_rows / 2][cols], zero past the last row.
  void (*round_to_bf16)(const float* from, std::int64_t rows, std::int64_t cols, std::ptrdiff_t from_stride,
                        std::int64_t padded_rows, std::uint32_t* to);
  // Each two rows side by side, as words: [padded_rows / 2][to_stride], zero where there are none. to_stride: a multiple of 16.
  void (*interleave_rows)(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                          std::int64_t padded_rows, std::uint32_t* to, std::ptrdiff_t to_stride);
  // A whose rows are the columns of up to kTileKeys rows: [padded_cols][kTileKeys], or where the kernels are exact
  // [kTileKeys / 2][padded_cols] words of two rows side by side. padded_cols: a multiple of 16.
  void (*arrange_columns)(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                          std::int64_t padded_cols, std::uint16_t* to);
  // Rows as they lie, to [rows][to_stride]; the padding is zero.
  void (*copy_rows)(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                    std::uint16_t* to, std::ptrdiff_t to_stride);
  // Rows as they lie, transposed by pairs of their numbers: words [padded_cols / 2][to_stride], zero where there are none.
  // padded_rows: a multiple of 16, padded_cols of 32.
  void (*transpose_pairs)(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                          std::int64_t padded_rows, std::int64_t padded_cols, std::uint32_t* to,
                          std::ptrdiff_t to_stride);
  // Pairs [rows][from_stride] transposed to [cols][to_stride]; rows and cols: multiples of 16.
  void (*transpose_words)(const std::uint32_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols,
                          std::uint32_t* to, std::ptrdiff_t to_stride);
  // No infinity and no NaN among [rows][cols].
  bool (*finite_rows)(const std::uint16_t* from, std::ptrdiff_t from_stride, std::int64_t rows, std::int64_t cols);
};

// All that this processor can run, the fastest last; empty if there are none.
struct Bf16Choices {
  const Bf16Kernels* list[2] = {};
  int count = 0;
};
const Bf16Choices& available_bf16();

// The kernels in use: the fastest ones under the newest SIMD target, null under others.
const Bf16Kernels* active_bf16(Isa isa);
// For tests and measurements; null: none.
void set_active_bf16(const Bf16Kernels* kernels);

}  // namespace rapt::inline v1
