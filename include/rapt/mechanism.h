#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rapt/dual.h"
#include "rapt/numbers.h"
#include "rapt/view.h"

// The contract between a mechanism and the engine. A mechanism is a struct of hooks; all but `formula` may be left out:
//
//   static constexpr std::string_view formula;                what `rapt list` prints
//   static constexpr std::array parameters{...};              ParameterSpec, see below
//   static constexpr std::array settings{...};                SettingSpec: numbers without a gradient
//   static constexpr bool scaled = true;                      at.scale is 1/√Dk unless the caller sets it; else 1
//   static constexpr bool grid = true;                        positions lie on a grid: at.row and at.col are filled
//   static constexpr bool unit_rows = true;                   q and k are divided by their lengths (after maps, before shifts)
//   N pair(N q, N k, N w)                                     raw score = Σ_d pair; left out: the product q·k
//   N score(N raw, const P& p, const At& at)                  left out: raw · at.scale
//   Condition visible(const At& at)                           left out: everything
//   Visible visible_tile(const TileRange&)                    left out: some (ask for each pair)
//   std::int64_t index(std::int64_t offset, const TableShape&)  row of a relative table; offset = key − query
//   bool uses_content(std::span<const double> settings)       false: the raw score is not needed, and is not computed
//   QuadraticForm<N> form(const P& p)                         a score that is a quadratic form of the grid offset
//
// N is any number type: float, double, SIMD vectors, and dual numbers over them. Use the functions of numbers.h.
// p[n] counts the numbers of the parameters whose role is value or relative_*, in the order of declaration.
namespace rapt {

enum class Role : std::uint8_t {
  value,            // numbers that the score reads as they are
  relative_value,   // a table of numbers; p is the one at index(offset)
  relative_vector,  // a table of vectors; p is the given query (plus relative_query_shift) · the one at index(offset)
  pair_weight,      // w[d] of pair()
  query_map,        // a matrix [in, out] applied to every query before scoring
  key_map,          // the same for keys
  query_shift,      // a vector added to every query in q·k
  relative_query_shift,  // a vector added to every query in the products with relative vectors
};

// Whether the parameter has a leading dimension of heads.
enum class Heads : std::uint8_t { shared, optional, required };

// What an offset is counted along.
enum class Along : std::uint8_t { position, grid_row, grid_col };

// Sizes of parameters: a positive number is itself, these depend on the call.
enum Size : int {
  kAny = -1,        // any length from 1
  kQueryDim = -2,   // Dq
  kKeyDim = -3,     // Dk
  kInner = -4,      // A: free, but the same in every parameter that names it
  kPositions = -5,  // Sq + Sk − 1
  kGridRows = -6,   // 2·rows − 1
  kGridCols = -7,   // 2·cols − 1
  kOdd = -8,        // any odd length: 2c + 1
};

// What an untrained layer starts a parameter of the role value with. A parameter of two sizes starts as `value` times
// the identity.
struct Fresh {
  double value = 1;
  double spread = 0;  // standard deviation around it
  double ratio = 1;   // from one head to the next
};

struct ParameterSpec {
  std::string_view name;
  Role role = Role::value;
  Heads heads = Heads::optional;
  std::array<int, 2> sizes{};  // after the heads; 0 = no such dimension
  bool required = true;
  Along along = Along::position;
  Fresh fresh{};

  constexpr int rank() const { return (sizes[0] != 0) + (sizes[1] != 0); }
  constexpr bool is_slot() const {
    return role == Role::value || role == Role::relative_value || role == Role::relative_vector;
  }
  // How many p[n] the parameter takes.
  constexpr int slots() const {
    if (role != Role::value) return is_slot() ? 1 : 0;
    return (sizes[0] > 0 ? sizes[0] : 1) * (sizes[1] > 0 ? sizes[1] : 1);
  }
};

struct SettingSpec {
  std::string_view name;
  double value = 0;  // when the caller gives none
  double low = 0;
  double high = 0;  // allowed range, both ends included
  bool integer = true;
};

// What index() may know about its table and the call.
struct TableShape {
  std::int64_t rows = 0;  // of the table
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::array<std::int64_t, 2> grid{};
  std::span<const double> settings;
};

// The pair that a hook is asked about. V is the plain number type of the lanes, never a dual number.
template <class V>
struct At {
  V i;      // position of the query
  V j;      // position of the key
  V row;    // key − query along the grid's rows (only where grid = true)
  V col;    // and along its columns
  V scale;  // the caller's scale, or the mechanism's default
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::span<const double> settings;

  RAPT_FN V offset() const { return j - i; }
};

enum class Visible : std::uint8_t { none, some, all };

// Positions [first_query, last_query] × [first_key, last_key], ends included.
struct TileRange {
  std::int64_t first_query, last_query, first_key, last_key;
  std::int64_t batch, head;
};

// c + r·row + q·col + rr·row² + cc·col² + rc·row·col
template <class N>
struct QuadraticForm {
  N constant, row, col, row_row, col_col, row_col;
};

template <class T>
struct ScoreTile;
template <class T>
struct PairTile;

// The hooks of one mechanism compiled for one number type and one instruction set. Null: the engine's default.
template <class T>
struct TileProgram {
  void (*score)(const ScoreTile<T>&) = nullptr;           // raw scores → scores, in place
  void (*score_backward)(const ScoreTile<T>&) = nullptr;  // ∂score → ∂raw, in place; and ∂p
  void (*hide)(const ScoreTile<T>&) = nullptr;            // −∞ where visible() says no
  void (*raw)(const PairTile<T>&) = nullptr;              // Σ_d pair
  void (*raw_backward)(const PairTile<T>&) = nullptr;
  void (*fast_raw)(const PairTile<T>&) = nullptr;  // the same from prepared rows, see fast_limit
  void (*fast_raw_backward)(const PairTile<T>&) = nullptr;
  void (*fast_prepare)(T* values, std::int64_t count) = nullptr;
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

inline constexpr int kInstructionSets = 4;
inline constexpr int kMaxSlots = 8;

// All that the library knows of a mechanism at run time; made from its struct, see make_mechanism().
struct MechanismInfo {
  std::string_view name;
  std::string_view formula;
  std::span<const ParameterSpec> parameters;
  std::span<const SettingSpec> settings;
  int slots = 0;
  bool scaled = false;
  bool grid = false;
  bool unit_rows = false;
  bool has_index = false;
  double fast_limit = 0;  // |q| and |k| up to which the fast path is exact; 0: there is none
  Programs scalar;        // plain C++: for the reference, and for mechanisms of a user's program
  std::array<const Programs*, kInstructionSets> vectorized{};

  std::int64_t (*index)(const void* object, std::int64_t offset, const TableShape&) = nullptr;
  bool (*uses_content)(const void* object, std::span<const double> settings) = nullptr;
  Visible (*visible_tile)(const void* object, const TileRange&) = nullptr;
  // The six coefficients of the form and their derivatives in every slot.
  void (*form)(const void* object, const double* slots, double* coefficients,
               double (*derivatives)[kMaxSlots]) = nullptr;
};

struct NamedView {
  std::string name{};
  ConstView value{};
};

struct NamedNumber {
  std::string name{};
  double value = 0;
};

// A mechanism with its parameters: what `attend` scores with.
struct Score {
  const MechanismInfo* mechanism = nullptr;  // null: scaled_dot
  std::vector<NamedView> parameters{};
  std::vector<NamedNumber> settings{};
  std::array<std::int64_t, 2> grid{};    // rows, columns
  std::shared_ptr<const void> object{};  // the hooks' own state, when they have any; see custom.h
};

}  // namespace rapt
