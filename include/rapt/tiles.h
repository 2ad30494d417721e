#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include "rapt/hooks.h"

// How the CPU engine passes tiles to a mechanism's compiled hooks. Tiles are stored keys × queries, so that queries are
// in the lanes of vectors and everything along a row of weights is vertical.
namespace rapt::inline v1 {

// One slot's numbers for every pair of a tile: row(j)[column].
template <class T>
struct RelativeRows {
  const T* base = nullptr;
  T* grad = nullptr;
  std::ptrdiff_t stride = 0;
  const std::int32_t* coordinate = nullptr;  // of each key; null: the key's index in the tile

  RAPT_FN std::ptrdiff_t at(int key) const { return (coordinate ? coordinate[key] : key) * stride; }
};

// A table that a formula reads at any index. Outside of it there are no numbers.
template <class T>
struct TableRef {
  const T* data = nullptr;
  double* grad = nullptr;  // added to; null: not wanted
  std::int64_t rows = 1, cols = 1;

  // Indices are rounded down; −1: outside the table.
  RAPT_FN std::ptrdiff_t find(T row, T col) const {
    const bool inside = row >= T(0) && row < static_cast<T>(rows) && col >= T(0) && col < static_cast<T>(cols);
    return inside ? static_cast<std::ptrdiff_t>(row) * cols + static_cast<std::ptrdiff_t>(col) : -1;
  }
  RAPT_FN T at(T row, T col) const {
    const std::ptrdiff_t place = find(row, col);
    return place < 0 ? std::numeric_limits<T>::quiet_NaN() : data[place];
  }
};

inline constexpr int kMaxTables = 8;

template <class T>
struct ScoreTile {
  const void* object = nullptr;
  T* scores = nullptr;     // [keys][stride]; forward: raw → score; backward: ∂score → ∂raw
  const T* raw = nullptr;  // backward: the raw scores
  int keys = 0;
  int columns = 0;  // queries, padded to a multiple of every lane count
  int stride = 0;
  std::int64_t first_query = 0;
  std::int64_t first_key = 0;
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t queries_total = 0;
  std::int64_t keys_total = 0;
  T scale = 1;
  std::span<const double> settings;
  const T* values = nullptr;            // [slots]: this head's numbers where the role is value
  RelativeRows<T> relative[kMaxSlots];  // the other slots
  double* value_grads = nullptr;        // [slots], added to
  const T* query_row = nullptr;         // [columns], grid coordinates
  const T* query_col = nullptr;
  const T* key_row = nullptr;  // [keys]
  const T* key_col = nullptr;
  std::int64_t grid_cols = 1;
  TableRef<T> tables[kMaxTables];  // of the role table
  bool offsets_seen = false;       // conditions of visible() on offsets are already in the ranges of keys
};

// Raw scores by pair(): queries transposed [dim][stride], keys [keys][key_stride].
template <class T>
struct PairTile {
  const void* object = nullptr;
  const T* queries = nullptr;
  const T* key_rows = nullptr;
  const T* weights = nullptr;      // [dim], or null: all 1
  T* scores = nullptr;             // [keys][stride], written
  const T* grad = nullptr;         // [keys][stride]
  T* grad_queries = nullptr;       // [dim][stride], added to
  T* grad_keys = nullptr;          // [keys][grad_key_stride], added to
  double* grad_weights = nullptr;  // [dim], added to; may be null
  int dim = 0;
  int keys = 0;
  int columns = 0;
  int stride = 0;
  std::ptrdiff_t key_stride = 0;
  std::ptrdiff_t grad_key_stride = 0;
};

// Rows of queries or keys that may be prepared for fast_raw, and what tells which form a pair takes: its plain one unless
// |a + b| > 1 of the centers a and b of its two rows.
template <class T>
struct FastRows {
  const T* rows = nullptr;     // [count][stride]
  const T* weights = nullptr;  // [dim], or null: all 1
  T* centers = nullptr;        // [count], written; NaN: all its pairs are plain, +∞: none but with such a row
  std::int64_t count = 0;
  std::ptrdiff_t stride = 0;
  int dim = 0;
};

// The hooks of one mechanism compiled for one number type and one instruction set. Null: the engine's default.
template <class T>
struct TileProgram {
  void (*score)(const ScoreTile<T>&) = nullptr;            // raw scores → scores, in place
  void (*score_backward)(const ScoreTile<T>&) = nullptr;   // ∂score → ∂raw, in place; and ∂p
  void (*hide)(const ScoreTile<T>&) = nullptr;             // −∞ where visible() says no
  Visible (*visible_tile)(const ScoreTile<T>&) = nullptr;  // of a tile without scores; columns are not padded here
  void (*raw)(const PairTile<T>&) = nullptr;               // Σ_d pair
  void (*raw_backward)(const PairTile<T>&) = nullptr;
  void (*fast_raw)(const PairTile<T>&) = nullptr;  // the same from prepared rows, see fast_limit
  void (*fast_raw_backward)(const PairTile<T>&) = nullptr;
  void (*fast_prepare)(T* values, std::int64_t count) = nullptr;
  void (*fast_centers)(const FastRows<T>&) = nullptr;
};

struct Programs {
  TileProgram<float> f32;
  TileProgram<double> f64;

  template <class T>
  const TileProgram<T>& get() const {
    if constexpr (std::is_same_v<T, float>) return f32;
    else return f64;
  }
};

struct RegistryEntry;  // private to the library

// What the engine runs of one mechanism; make_definition() of tile_program.h fills it in.
struct MechanismDefinition {
  std::string_view name;
  std::string_view formula;
  std::span<const ParameterSpec> parameters;
  std::span<const SettingSpec> settings;
  int slots = 0;
  bool scaled = false;
  bool grid = false;
  bool unit_rows = false;
  bool has_index = false;
  double fast_limit = 0;                 // |q| and |k| up to which the fast path is exact; 0: there is none
  Programs scalar;                       // plain C++: for the reference, and for custom mechanisms
  const RegistryEntry* entry = nullptr;  // of built-in mechanisms: the programs of each SIMD target

  bool uses_scale = true;
  bool reads_head = false;  // of a formula: it names the head
  bool reads_call = false;  // of a formula: it names the batch, or how many queries or keys there are
  // The row of table `parameter` for an offset.
  std::int64_t (*index)(const void* object, std::size_t parameter, std::int64_t offset, const TableShape&) = nullptr;
  bool (*uses_content)(const void* object, std::span<const double> settings) = nullptr;
  // Whether visible() only restricts the offsets [first, last] to one range, which is then written to them.
  bool (*visible_offsets)(const void* object, const TableShape&, std::int64_t& first, std::int64_t& last) = nullptr;
  // The six coefficients of the form and their derivatives in every slot.
  void (*form)(const void* object, const double* slots, double* coefficients,
               double (*derivatives)[kMaxSlots]) = nullptr;
};

}  // namespace rapt::inline v1
