#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backends/cuda/array.h"
#include "normalizers/contract.h"
#include "rapt/hooks.h"

// One checked call as kernels read it: passed by value, with all pointers to device memory.
namespace rapt::inline v1::cuda {

inline constexpr int kMaxValueSets = 8;
inline constexpr int kMaxSettings = 8;

// Beyond every position, but adding one cannot overflow.
inline constexpr std::int32_t kFar = 1 << 29;

// Masks that leave every query one range of keys; see Visibility.
struct Masks {
  bool causal = false;
  bool packed_bottom_right = false;
  std::int32_t left = -1, right = -1;  // negative: no limit; at most kFar
  const std::int64_t* key_lengths = nullptr;
  const std::int64_t* shifts = nullptr;  // of the queries against the keys
  std::int32_t key_length_count = 0, shift_count = 1;
  std::int32_t shift = 0;       // where shift_count is 1
  std::int32_t key_length = 0;  // where key_length_count is 1
  const std::int64_t* query_starts = nullptr;
  const std::int64_t* key_starts = nullptr;
  std::int32_t sequences = 0;  // of a packed batch; 0: not packed
};

// A relative table: a number or a vector for each offset between query and key.
struct Table {
  const float* numbers = nullptr;      // [heads or 1][rows][cols]; null: none
  const std::int32_t* rows = nullptr;  // the row of every offset
  std::int32_t zero = 0;               // rows[offset + zero]
  std::int64_t head_stride = 0;        // 0: shared by the heads
  std::int32_t cols = 1, offsets = 0;
  Along along = Along::position;
  bool is_vector = false;
  // A table of numbers along positions, spread out: the number of every offset, the first at 0, and kOffsetPadding more of
  // the last on both sides. The next head's are `spread_stride` on.
  const float* spread = nullptr;
  std::int64_t spread_stride = 0;
};

// More than a tile at the edge of a problem reads.
inline constexpr int kOffsetPadding = 512;

// A table that a formula reads at any index: [heads or 1][rows][cols]. Outside it reads NaN.
struct FreeTable {
  const float* numbers = nullptr;
  std::int64_t head_stride = 0;  // 0: shared by the heads
  std::int32_t rows = 1, cols = 1;

  // −1: outside.
  RAPT_DEVICE std::int64_t find(float row, float col) const {
    const bool inside = row >= 0 && row < static_cast<float>(rows) && col >= 0 && col < static_cast<float>(cols);
    return inside ? static_cast<std::int64_t>(row) * cols + static_cast<std::int64_t>(col) : -1;
  }
  RAPT_DEVICE float at(std::int64_t head, float row, float col) const {
    const std::int64_t place = find(row, col);
    return place < 0 ? __int_as_float(0x7fffffff) : numbers[head * head_stride + place];
  }
};
inline constexpr int kMaxFreeTables = 8;

// The rows of q or k of an element-wise score, 64 at a time, dimensions before rows; zeros past the ends.
struct PairTiles {
  const float* numbers = nullptr;  // [batches][heads][tiles][dims][64]; null: not prepared
  // [batches][heads][tiles][2]: bit r is set where row r is outside the limit of the fast form, or is not small.
  const std::uint32_t* outside = nullptr;
  const std::uint32_t* large = nullptr;
  std::int32_t batches = 1, heads = 1, tiles = 1, dims = 1;
  std::int32_t group = 1;  // heads of the problem that share one of these

  RAPT_DEVICE std::int64_t index(int b, int h, int tile) const {
    return (static_cast<std::int64_t>(batches == 1 ? 0 : b) * heads + h / group) * tiles + tile;
  }
  RAPT_DEVICE const float* tile(int b, int h, int tile) const { return numbers + index(b, h, tile) * dims * 64; }
};
inline constexpr int kPairSpan = 16;  // dimensions of an element-wise score that share an offset

// A dense mask of which every row of one side has a bit for each row of the other: 1 where they may meet. Read a word or
// more at a time: kMaskPadding words follow the last.
struct MaskBits {
  const std::uint32_t* words = nullptr;  // null: none
  std::int32_t row_words = 0;            // 0: all rows share one
  std::int32_t batches = 1, group = 1;
  std::int64_t batch_stride = 0, head_stride = 0;  // in words
};
inline constexpr int kMaskPadding = 8;

class Kernels;

struct Call {
  std::int32_t batch = 1, heads = 1, queries = 1, keys = 1;
  std::int32_t inner = 1;  // length of the rows that are scored
  bool uses_content = true;
  Array q, k;        // the rows that meet in raw scores
  Array q_relative;  // those that meet relative vectors
  float scale = 1, softcap = 0;
  double settings[kMaxSettings] = {};
  std::int32_t setting_count = 0;
  const float* values = nullptr;       // [heads][slots]: p[n] of the role value
  const float* pair_weight = nullptr;  // [heads or 1][inner]; null: all 1
  std::int64_t pair_weight_stride = 0;
  PairTiles q_tiles, k_tiles;
  // Of tiles in the fast form, which those of a mechanism that has one are.
  const float* fast_weights = nullptr;  // [heads or 1][dims]: the weights times the factor
  const float* fast_offsets = nullptr;  // [heads or 1][spans]: the offset times the sum of a span's weights
  // Of element-wise scores: bf16 or f16 where q, k and v are and have whole rows (is_aligned). Weights may be rounded to it.
  Dtype storage = Dtype::f32;
  Table tables[kMaxSlots];  // by slot; numbers null where the slot is a value
  Table output_table;
  FreeTable free_tables[kMaxFreeTables];
  Array bias, mask;
  // The same for the tensor cores, see dense.h; the bias may be the caller's.
  Array paired_bias;
  MaskBits keys_of_query, queries_of_key;
  Masks masks;
  std::int32_t first_key = 0;
  std::int32_t grid_cols = 1;
  // Row and column of every position, the first at 0, and kOffsetPadding more on both sides; null: no grid.
  const float2* grid_places = nullptr;

  Threshold threshold = Threshold::exponential;
  std::int32_t normalizer = 0;               // its place in the registry
  float reach = 0;                           // of a solved threshold
  const float* normalizer_values = nullptr;  // [heads][kMaxSlots]; softmax: the sink, where there is one
  bool has_sink = false, is_sigmoid = false;

  const Kernels* kernels = nullptr;  // of the host: those of a mechanism that is compiled when the program runs
  std::int32_t sets = 1;
  Array v[kMaxValueSets];

  // The place of a query among the rows of all batches and heads.
  __host__ __device__ std::int64_t row(int b, int h, int i) const {
    return (static_cast<std::int64_t>(b) * heads + h) * queries + i;
  }
  // The normaliser's numbers and the weights of pair() of a head; null: none.
  __host__ __device__ const float* normalizer_numbers(int h) const {
    return normalizer_values ? normalizer_values + h * kMaxSlots : nullptr;
  }
  __host__ __device__ const float* pair_weights(int h) const {
    return pair_weight ? pair_weight + h * pair_weight_stride : nullptr;
  }
};

// Softmax statistics of every row, [batch·heads·queries] each; see Saved::Rows.
struct RowStatistics {
  float* max = nullptr;
  float* sum = nullptr;
};

struct ForwardOutputs {
  Array out[kMaxValueSets];  // data null: not wanted
  Array lse, row_max, row_sum;
  RowStatistics rows;  // null: not wanted
  // Of out[0]: [batch·heads·queries][dim], what rounding to its type took from it; only the fast kernel gives it.
  void* remainder = nullptr;
};

// The weights of some rows of one head.
struct RequestedWeights {
  std::int32_t batch = 0, head = 0, first = 0, count = 0;
  Array out;
};

struct RequestedStatistics {
  float* entropy = nullptr;
  std::int64_t* argmax = nullptr;
  float* position = nullptr;
  float* covariance = nullptr;
  std::int32_t top_k = 0;
  std::int64_t* top_indices = nullptr;
  float* top_weights = nullptr;  // may be workspace
  float* top_scores = nullptr;   // workspace
  std::int32_t grid_cols = 0;    // 0: positions are 0 … Sk − 1
};

struct BackwardArguments {
  // Not null: the kernels do nothing if it points to 0, since the fast ones have done everything.
  const int* gate = nullptr;
  RowStatistics rows;
  const float* delta = nullptr;  // [batch·heads·queries]
  Array grad_out[kMaxValueSets];
  // Of every batch and head apart; sums over those that share an array come after. Null data: not wanted.
  Array dq, dq_relative, dk;
  Array dv[kMaxValueSets];
  float* value_grads = nullptr;        // [batch·heads·query tiles][slots]
  float* pair_weight_grads = nullptr;  // [batch·heads·query tiles][inner]
  float* normalizer_grads = nullptr;   // [batch·heads·query tiles][slots]
  // [batch·heads·queries]: Σ u∘dP less grad_lse, where the threshold is solved over Σ u; nothing else is computed then.
  float* mean = nullptr;
  Array grad_lse;
};

}  // namespace rapt::inline v1::cuda
