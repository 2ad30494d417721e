#pragma once

#include <cstddef>
#include <cstdint>

#include "attend/problem.h"
#include "attend/visibility.h"
#include "backends/cpu/tile_size.h"
#include "backends/cpu/x86/bf16.h"
#include "rapt/threads.h"
#include "rapt/tiles.h"

// The functions that are compiled once for each SIMD target, and the plain structs they take. No standard containers here:
// their inline functions, compiled for a newer processor, could be linked in place of all others.
namespace rapt::inline v1 {

// C (+)= A·B. A[m,k] = a[m·a_row + k·a_col] is read one number at a time; B and C rows lie in vectors, so their
// strides and n are padded to Kernels::pad. With accumulate, C is added to.
template <class T>
struct ProductArgs {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::ptrdiff_t a_row = 0, a_col = 0;
  const T* b = nullptr;
  std::ptrdiff_t b_row = 0;
  T* c = nullptr;
  std::ptrdiff_t c_row = 0;
  bool accumulate = false;
};

// One relative table of one head. index maps offset + zero to a row of the table.
template <class T>
struct RelativeTable {
  Role role = Role::relative_value;
  Along along = Along::position;
  const T* table = nullptr;             // [rows][dim] or [rows]
  const std::int32_t* index = nullptr;  // [offsets]
  std::int64_t zero = 0;                // where offset 0 stands in index
  std::int64_t rows = 0;
  bool identity = false;  // index[n] = index[0] + n
  // Added to: by row of the table, [rows][dim] and [rows], or by offset (from the lowest on).
  bool grad_by_offset = false;
  T* grad = nullptr;             // relative_vector
  double* value_grad = nullptr;  // relative_value
};

// A table of vectors that are added to values: the one at index[offset + zero] for a key `offset` after its query.
template <class T>
struct OutputTable {
  const T* table = nullptr;  // [rows][value_dim of set 0]; null: none
  const std::int32_t* index = nullptr;
  std::int64_t zero = 0;
  std::int64_t rows = 0;
  T* grad = nullptr;  // [rows][value_dim], added to
};

// The weights of a tile of scores, [keys][stride], by a normaliser's weight(x), x = (score − row_max) − threshold.
template <class T>
struct WeightTile {
  T* tile = nullptr;    // scores; weights in their place
  T* slopes = nullptr;  // written too, unless null: ∂weight/∂score
  int keys = 0, columns = 0, stride = 0;
  const T* row_max = nullptr;    // [columns]
  const T* threshold = nullptr;  // [columns]
  const T* values = nullptr;     // p of weight()
  T* weight_sum = nullptr;       // sum(): [columns], added to, the scores left as they are
  T* slope_sum = nullptr;
  const T* grad = nullptr;        // parameter_gradient(): ∂loss/∂weight, [keys][stride]
  double* value_grads = nullptr;  // [slots], added to
};

// A normaliser compiled for one number type and one SIMD target.
template <class T>
struct NormalizerProgram {
  Threshold threshold = Threshold::none;
  T reach = 0;
  void (*weights)(const WeightTile<T>&) = nullptr;
  void (*sum)(const WeightTile<T>&) = nullptr;
  void (*parameter_gradient)(const WeightTile<T>&) = nullptr;  // null: it has no parameters
};

// Everything about one batch and head that the tiles need.
template <class T>
struct HeadTask {
  std::int64_t b = 0, h = 0;
  std::int64_t queries = 0, keys = 0;
  std::int64_t first_key = 0;    // position of key 0
  std::int64_t query_shift = 0;  // where query 0 stands, counted from key 0
  int dim = 0;                   // of the scored rows
  int relative_dim = 0;          // of relative vectors
  MatrixRef q, q_relative, k;
  int sets = 1;
  const MatrixRef* v = nullptr;  // [sets]
  const std::int64_t* value_dim = nullptr;

  const TileProgram<T>* program = nullptr;
  const void* object = nullptr;
  ScoreTile<T> score_tile;       // what all its tiles have in common
  bool content = true;           // raw scores are computed
  bool fast = false;             // q and k are prepared for fast_raw
  MatrixRef plain_q, plain_k;    // as they were before they were prepared; data null: no pair is plain
  const T* q_centers = nullptr;  // what tells which pairs are, see FastRows
  const T* k_centers = nullptr;
  T scale = 1;
  const T* pair_weights = nullptr;
  T values[kMaxSlots] = {};
  int slots = 0;
  RelativeTable<T> relative[kMaxSlots];  // table null: the slot is a value
  bool grid = false;
  std::int64_t grid_rows = 0, grid_cols = 0;

  // Set where q, k and v are bf16 and go through bf16 products; transposed_v is the forward pass's, or null.
  const Bf16Kernels* bf16 = nullptr;
  const std::uint16_t* const* transposed_v = nullptr;  // [sets]: tiles of arrange_columns()

  T softcap = 0;
  MatrixRef bias;  // data null: none
  const std::uint8_t* mask = nullptr;
  std::ptrdiff_t mask_row = 0;
  OutputTable<T> output_table;
  const NormalizerProgram<T>* normalizer = nullptr;
  T normalizer_values[kMaxSlots] = {};
  const T* sink = nullptr;  // softmax: one more score of every row; null: none
  const Visibility* visibility = nullptr;
};

// Row statistics of one head; null pointers are not wanted. [queries] and what follows.
template <class T>
struct StatisticsTask {
  T* entropy = nullptr;
  std::int64_t* argmax = nullptr;
  T* position = nullptr;
  T* covariance = nullptr;
  int top_k = 0;
  std::int64_t* top_indices = nullptr;
  T* top_weights = nullptr;
  std::int64_t grid_cols = 0;  // 0: positions on a line

  bool any() const { return entropy || argmax || position || covariance || top_k > 0; }
};

// Rows [row_begin, row_end) of the weights of this head.
struct WeightsTask {
  std::int64_t row_begin = 0, row_end = 0;
  MatrixRef out;
  const WeightsTask* next = nullptr;
};

// Blocks of queries that one task may take, so that keys and values are read from afar once for all of them.
inline constexpr int kForwardBlocks = 4;

template <class T>
struct ForwardTask {
  const HeadTask<T>* head = nullptr;
  std::int64_t first_query = 0;
  std::int64_t count = 0;  // at most kForwardBlocks · Kernels::forward_rows
  std::int64_t key_begin = 0;
  std::int64_t key_end = INT64_MAX;  // keys outside are left to other tasks
  const MatrixRef* out = nullptr;    // [sets]; null: not wanted
  MatrixRef lse;                     // one number a row; data null: not wanted
  T* row_max = nullptr;              // [queries], or null: what Saved keeps
  T* row_sum = nullptr;
  T* true_max = nullptr;  // [queries], or null: the largest score, and the sum of exponentials under it
  T* true_sum = nullptr;
  bool is_part = false;  // the keys are some of the row's: out gets sums that are not yet divided
  StatisticsTask<T> statistics;
  const WeightsTask* weights = nullptr;
  char* workspace = nullptr;
};

// What a backward task calls its caller with: the index of each block of queries, in order.
template <class T>
class BackwardOrder {
 public:
  // Before its tiles are computed; false: its queries see none of the task's keys.
  virtual bool enter_block(std::int64_t block) = 0;
  // Around the adding of its part of dq and of tables by offset.
  virtual void begin_block(std::int64_t block) = 0;
  virtual void end_block(std::int64_t block) = 0;
  // With the finished gradients of the task's keys, [count][stride] each, before the workspace is used again.
  virtual void finish(const T* dk, std::ptrdiff_t dk_stride, T* const* dv, const std::ptrdiff_t* dv_stride) = 0;

 protected:
  ~BackwardOrder() = default;
};

// Gradients of one head from the keys [first_key, first_key + count).
template <class T>
struct BackwardTask {
  const HeadTask<T>* head = nullptr;
  std::int64_t first_key = 0;
  std::int64_t count = 0;                        // at most most_keys
  std::int64_t most_keys = 0;                    // of a task of the pass, whole tiles: what the workspace is for
  std::int64_t first_block = 0, last_block = 0;  // blocks of queries that may see them
  const MatrixRef* grad_out = nullptr;           // [sets]
  const T* row_max = nullptr;                    // [queries]
  const T* row_sum = nullptr;
  const T* delta = nullptr;       // [queries]: what every ∂weight of a row is lowered by
  const T* delta_rest = nullptr;  // the digits of it that follow, of solved thresholds; null: none
  // [queries], added to, or null: Σ ∂score of each row, and the sum of their sizes.
  double* score_sums = nullptr;
  double* score_sizes = nullptr;
  // Set: a second pass that takes weight·delta from the gradients of the scores, of the blocks of queries marked here.
  const std::uint8_t* correct = nullptr;
  BackwardOrder<T>* order = nullptr;
  T* dq = nullptr;  // [queries][dq_stride], added to; null: not wanted
  std::ptrdiff_t dq_stride = 0;
  MatrixRef dq_rows;  // where each row of dq is written whole, instead; data null: it is not
  // The same of dk and dv: finish() then does not get them.
  MatrixRef dk_rows;
  const MatrixRef* dv_rows = nullptr;  // [sets], null or the data of each null
  T* dq_relative = nullptr;
  std::ptrdiff_t dq_relative_stride = 0;
  T* dbias = nullptr;  // [queries or 1][keys from dbias_first], added to; null: not wanted
  std::ptrdiff_t dbias_stride = 0;
  std::int64_t dbias_first = 0;
  bool want_dk = false;
  bool want_dv = false;
  // Where dk and dv of the task's keys are to be added up, whole vectors of each row; null: in the workspace.
  T* dk = nullptr;
  std::ptrdiff_t dk_stride = 0;
  T* const* dv = nullptr;  // [sets], null or each of them null
  const std::ptrdiff_t* dv_stride = nullptr;
  bool want_score = false;              // gradients before the softmax: q, k, bias, parameters
  double* value_grads = nullptr;        // [kMaxSlots], added to
  double* normalizer_grads = nullptr;   // [kMaxSlots], added to; null: not wanted
  double* pair_weight_grads = nullptr;  // [dim], added to
  char* workspace = nullptr;
};

// total ← total and part under their common maximum.
template <class T>
struct MergeRows {
  std::int64_t rows = 0;
  int sets = 0;
  const std::int64_t* dim = nullptr;  // [sets]
  T* const* total = nullptr;          // [sets]: [rows][dim]
  const T* const* part = nullptr;
  T* total_max = nullptr;  // [rows]
  T* total_sum = nullptr;
  const T* part_max = nullptr;
  const T* part_sum = nullptr;
};

template <class T>
struct SlopeMeansTask {
  const HeadTask<T>* head = nullptr;
  std::int64_t first_query = 0;
  std::int64_t count = 0;               // at most Kernels::forward_rows
  const MatrixRef* grad_out = nullptr;  // [sets]
  const T* row_max = nullptr;           // [queries]
  const T* row_sum = nullptr;
  T* delta = nullptr;       // [queries], written
  T* delta_rest = nullptr;  // [queries], written: what one number of δ does not hold
  char* workspace = nullptr;
};

// An array [batches, heads, rows, dim] of a ShortTask; its strides are in bytes, and one for batches of 0 repeats them.
struct ShortArray {
  MatrixRef first;  // of batch 0 and head 0
  std::int64_t batch_bytes = 0, head_bytes = 0;
  std::int64_t group = 1;  // how many heads share one of these
};

struct ShortValues {
  ShortArray array;
  std::int64_t dim = 0;
};

// Plain products under softmax of whole heads with at most kShort queries and keys.
template <class T>
struct ShortTask {
  std::int64_t heads = 1;  // of a batch
  std::int64_t queries = 0, keys = 0;
  int dim = 0;
  T scale = 1;
  ShortArray q, k;

  int sets = 1;
  const ShortValues* v = nullptr;   // [sets]
  const ShortArray* out = nullptr;  // [sets]; null: not wanted
  ShortArray lse;                   // data null: not wanted
  T* row_max = nullptr;             // [batches·heads·queries], or null: what Saved keeps
  T* row_sum = nullptr;
  const Visibility* visibility = nullptr;  // null: every query sees every key
  std::uint8_t* failed = nullptr;  // [batches·heads]: becomes 1 where a sum is not finite and the head is not done
};

// The gradients of the same. The heads that share a matrix follow each other, and one call gets all of them.
template <class T>
struct ShortBackwardTask {
  std::int64_t heads = 1;
  std::int64_t queries = 0, keys = 0;
  int dim = 0;
  T scale = 1;
  ShortArray q, k, dq, dk;  // dq and dk: data null: not wanted

  int sets = 1;
  const ShortValues* v = nullptr;  // [sets], as those that follow
  const ShortArray* grad_out = nullptr;
  const ShortArray* dv = nullptr;  // data null: not wanted
  ShortArray grad_lse;             // data null: none
  const T* row_max = nullptr;      // [batches·heads·queries]: what Saved keeps
  const T* row_sum = nullptr;
  const Visibility* visibility = nullptr;  // null: every query sees every key
  // Exact ones, set where every array is bf16, nothing is shared or hidden: heads that are finite go through their products.
  const Bf16Kernels* bf16 = nullptr;
  const std::int64_t* value_dim = nullptr;  // [sets], for them
};

template <class T>
struct Kernels {
  int pad = 1;            // rows of vectors are padded to a multiple of this
  int forward_rows = 0;   // queries of one block of a ForwardTask
  int backward_rows = 0;  // queries of one block of a BackwardTask

  void (*product)(const ProductArgs<T>&) = nullptr;
  // dst[rows][dst_stride] = src, the padding zero.
  void (*load_rows)(const MatrixRef& src, std::int64_t first, std::int64_t rows, std::int64_t dim, T* dst,
                    std::ptrdiff_t dst_stride) = nullptr;
  // Converts as it stores.
  void (*store_row)(const T* src, std::int64_t dim, const MatrixRef& dst, std::int64_t row) = nullptr;
  // sums[r] += Σ_d out[first+r][d]·grad[first+r][d], added up in f64; the buffer holds two padded rows. Where a row's
  // weights sum to exactly 1 under its maximum, one key has it all: there in the order in which dP is made.
  void (*row_products)(const MatrixRef& out, const MatrixRef& grad, std::int64_t first, std::int64_t rows,
                       std::int64_t dim, const T* row_sum, T* buffer, T* sums) = nullptr;
  std::size_t (*forward_workspace)(const ForwardTask<T>&) = nullptr;
  void (*forward)(const ForwardTask<T>&) = nullptr;
  std::size_t (*short_workspace)(const ShortTask<T>&) = nullptr;
  // The heads first … first+count−1, counted b·heads + h.
  void (*short_heads)(const ShortTask<T>&, std::int64_t first, std::int64_t count, char* workspace) = nullptr;
  std::size_t (*short_backward_workspace)(const ShortBackwardTask<T>&) = nullptr;
  void (*short_backward)(const ShortBackwardTask<T>&, std::int64_t first, std::int64_t count,
                         char* workspace) = nullptr;
  // Adds a part of the keys to the parts before it: rows [rows][dim] of sums with their maxima and sums.
  void (*merge_rows)(const MergeRows<T>&) = nullptr;
  // δ of the rows of a block of queries where it is not Σ out∘grad_out: Σ u·∂weight / Σ u, u the slopes.
  std::size_t (*slope_means_workspace)(const SlopeMeansTask<T>&) = nullptr;
  void (*slope_means)(const SlopeMeansTask<T>&) = nullptr;
  std::int64_t (*backward_keys)(const HeadTask<T>&) = nullptr;
  std::size_t (*backward_workspace)(const BackwardTask<T>&) = nullptr;
  void (*backward)(const BackwardTask<T>&) = nullptr;
};

// The tables of a SIMD target that this processor runs.
template <class T>
const Kernels<T>& kernels_for(Isa isa);
template <class T>
const NormalizerProgram<T>& normalizer_program(Isa isa, const NormalizerDefinition& normalizer);

}  // namespace rapt::inline v1
