#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "normalizers/definition.h"
#include "rapt/attend.h"
#include "rapt/threads.h"

// A call to attend() or attend_backward(), checked and put into the one form that every path reads.
namespace rapt::inline v1 {

// The matrix of one batch and head: rows of contiguous numbers. Strides count elements.
struct MatrixRef {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::int64_t stride = 0;
};

// A [batches, heads, rows, dim] array. Batches and heads may be fewer than the problem's: they are shared.
struct Operand {
  void* data = nullptr;  // never written through unless it is a gradient or an output
  Dtype dtype = Dtype::f32;
  std::int64_t batches = 1, heads = 1, rows = 1, dim = 1;
  std::int64_t group = 1;  // how many heads of the problem share one of these
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;

  explicit operator bool() const { return data != nullptr; }
  // Which of the array's own matrices serves (b, h).
  std::int64_t slice(std::int64_t b, std::int64_t h) const { return (batches == 1 ? 0 : b) * heads + h / group; }
  std::int64_t offset(std::int64_t b, std::int64_t h) const {
    return (batches == 1 ? 0 : b) * batch_stride + (h / group) * head_stride;
  }
  MatrixRef at(std::int64_t b, std::int64_t h) const {
    return {static_cast<char*>(data) + offset(b, h) * static_cast<std::int64_t>(size_of(dtype)), dtype, row_stride};
  }
};

// A parameter of a mechanism or a normaliser, [heads or 1][rows][cols]. Its shape is checked; its numbers are read by the
// backend, which has them in `data` in the compute type and contiguous (see host_parameters.h).
struct ParameterValue {
  const ParameterSpec* spec = nullptr;
  int first_slot = -1;
  int table = -1;  // which of the tables that a formula reads at its own places
  bool given = false;
  bool per_head = false;
  std::int64_t rows = 1, cols = 1;
  ConstView view;
  const void* data = nullptr;
  std::shared_ptr<void> storage;  // when the caller's array has another type or layout
  // A table's row for every offset, key − query: relative_rows[offset + relative_zero]. Empty: no table.
  std::vector<std::int32_t> relative_rows;
  std::int64_t relative_zero = 0;
  // What index() says of the offsets from known_first on: a plan's next step asks for few others.
  std::vector<std::int32_t> known_rows;
  std::int64_t known_first = 0;

  std::int64_t size() const { return rows * cols; }
  template <class T>
  const T* head(std::int64_t h) const {
    return static_cast<const T*>(data) + (per_head ? h * size() : 0);
  }
};

struct Backend;

// The call that this is a part of, or this one itself, as hooks see it: at.batch and at.head count from its first ones, at.queries
// and at.keys are its own.
struct OuterCall {
  std::int64_t first_batch = 0, first_head = 0;
  std::int64_t queries = 0, keys = 0;

  bool operator==(const OuterCall&) const = default;
};

struct Problem {
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1;
  std::int64_t query_dim = 1, key_dim = 1;
  std::int64_t inner = 1;  // length of the rows that are scored, after query_map and key_map
  bool is_double = false;  // compute type
  Operand q, k;
  std::vector<Operand> v;

  const MechanismInfo* mechanism = nullptr;
  const void* object = nullptr;
  std::shared_ptr<const void> keep_object;
  std::vector<double> settings;
  std::array<std::int64_t, 2> grid{};
  std::vector<ParameterValue> parameters;  // in the order of the mechanism's specs
  bool uses_content = true;

  double scale = 1;
  double softcap = 0;
  Operand bias;               // rows 1 with row_stride 0: the same for every query
  Operand dense_mask;         // bytes; dtype is not used
  Mask mask;                  // the other masks; outside packed sequences causal is top_left or none
  bool bottom_right = false;  // first_query follows from the key lengths
  const NormalizerDefinition* normalizer = nullptr;
  std::vector<ParameterValue> normalizer_parameters;  // in the order of the normaliser's specs
  std::vector<std::int64_t> first_query;              // one, or one for each batch
  std::int64_t first_key = 0;
  bool is_part = false;  // of a longer sequence of keys
  OuterCall outer;
  bool one_position = false;  // all queries stand where query 0 does: they are one query of several heads
  // The offsets, key − query, that visible() of the mechanism leaves, if it depends on offsets alone.
  bool offsets_seen = false;
  std::int64_t first_offset = 0, last_offset = 0;
  Rotary rotary;

  // Resolved once: nothing below reads a global choice again.
  const Backend* backend = nullptr;  // set by choose_backend()
  Device device;
  void* stream = nullptr;
  Isa isa = Isa::portable;
  int threads = 1;
  Path path = Path::automatic;

  // The parameter of that role, or null.
  const ParameterValue* find(Role role) const;
  // The position of query 0 of batch b, counted from key 0.
  std::int64_t query_shift(std::int64_t b) const {
    return first_query[first_query.size() == 1 ? 0 : static_cast<std::size_t>(b)] - first_key;
  }
  // The position of query i of batch b on the grid. One before position 0 sees nothing, so it may be put anywhere.
  std::int64_t query_place(std::int64_t b, std::int64_t i) const {
    const std::int64_t position = first_key + query_shift(b) + i;
    return position < 0 ? 0 : position;
  }
  std::int64_t lowest_shift() const;
  std::int64_t highest_shift() const;
  std::int64_t row_count() const { return batch * heads * queries; }
  bool is_inner() const { return outer != OuterCall{0, 0, queries, keys}; }
  bool is_softmax() const { return normalizer->threshold == Threshold::exponential; }
  // No row of queries: nothing to compute.
  bool is_empty() const { return batch == 0 || heads == 0 || queries == 0; }
};

// Key lengths and first_query of AttendOptions, checked, and what follows from them.
void set_positions(const char* operation, Problem& problem, std::span<const std::int64_t> key_lengths,
                   std::span<const std::int64_t> first_query);

// Checks everything and throws rapt::Error, naming `operation`. `outer`: null where the call is a part of no other.
Problem make_problem(const char* operation, const Inputs& inputs, const AttendOptions& options,
                     const OuterCall* outer = nullptr);

// Whether make_operand() takes it.
bool is_operand(const ConstView& view);
// A checked array for (b, h) indexing; the sizes of 1 that stand for more are repeated.
Operand make_operand(const char* operation, const char* argument, const ConstView& view);

// Two numbers of each row, [batch·heads·queries] each, in double for f64 and float else. By the normaliser's threshold:
// exponential: the maximum that was followed (at most 8 below the largest score) and the sum of exponentials under it;
// solved: the largest score and τ − that; first_largest: the largest score and the chosen key, −1 for none, NaN where a
// score is NaN; none: both 0.
struct Saved::Rows {
  std::int64_t count = 0;
  bool is_double = false;
  Device device;
  std::shared_ptr<void> device_memory;  // a device's backend keeps both there
  std::size_t device_bytes = 0;
  // Per row, what rounding took from the first output, which a device keeps for δ; 0: not kept.
  std::int64_t remainder_dim = 0;
  bool of_more_keys = false;  // than the call has: its weights of a row do not sum to one
  // Then δ of every row, over all those keys; empty: not known, which solved thresholds must have.
  std::vector<double> means;
  std::vector<double> max_f64, sum_f64;
  std::vector<float> max_f32, sum_f32;
  // Outputs before they were rounded to 16 bits, [sets]: [rows][dim]; empty where they were not. False: not kept.
  std::vector<std::vector<float>> wide_out;
  bool has_wide_out = false;

  void resize(std::int64_t rows, bool as_double, const Device& where = {});
  template <class T>
  T* max() {
    if constexpr (std::is_same_v<T, float>) return max_f32.data();
    else return max_f64.data();
  }
  template <class T>
  T* sum() {
    if constexpr (std::is_same_v<T, float>) return sum_f32.data();
    else return sum_f64.data();
  }
};

bool asks_statistics(const Statistics& statistics);
// Neither weights, nor statistics, nor partial results.
bool asks_plain(const Outputs& outputs);

}  // namespace rapt::inline v1
