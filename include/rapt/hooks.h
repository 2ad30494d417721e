#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "rapt/dual.h"
#include "rapt/numbers.h"

// The contract between a mechanism and the engines, and all that a mechanism's file includes: it compiles for a CPU,
// with nvcc and with NVRTC. A mechanism is a struct of hooks; all but `formula` are optional:
//
//   static constexpr std::string_view formula;                what `rapt list` prints
//   static constexpr std::array parameters{...};              ParameterSpec, see below
//   static constexpr std::array settings{...};                SettingSpec: numbers without a gradient
//   static constexpr bool scaled = true;                      at.scale is 1/√Dk unless the caller sets it; else 1
//   static constexpr bool grid = true;                        positions form a grid: at.row and at.col are set
//   static constexpr bool unit_rows = true;                   q and k get unit length (after maps, before shifts)
//   N pair(N q, N k, N w)                                     raw score = Σ_d pair; default: the product q·k
//   N score(N raw, const P& p, const At& at)                  default: raw · at.scale
//   Condition visible(const At& at)                           default: everything
//   Visible visible_tile(const TileRange&)                    default: some (ask for each pair)
//   std::int64_t index(std::int64_t offset, const TableShape&)  row of a relative table; offset = key − query
//   bool uses_content(std::span<const double> settings)       false: the raw score is not needed, and is not computed
//   QuadraticForm<N> form(const P& p)                         a score that is a quadratic form of the grid offset
//
// N, P and At are template parameters. N is any number type: plain numbers, SIMD vectors, and dual numbers over them;
// use the functions of numbers.h, unqualified. p[n] are the numbers of the parameters whose role is value,
// relative_value or relative_vector, in order of declaration. Hooks are public and const. contract.h rejects whatever
// breaks these rules.
namespace rapt::inline v1 {

// Declared here first, so that a file that opens rapt::mechanisms need not name the ABI's namespace.
namespace mechanisms {}

enum class Role : std::uint8_t {
  value,            // numbers that the score reads directly
  relative_value,   // a table of numbers; p is the one at index(offset)
  relative_vector,  // a table of vectors; p is the given query (plus relative_query_shift) · the one at index(offset)
  relative_output,  // a table of vectors; the one at index(offset) is added to the key's value
  pair_weight,      // w[d] of pair()
  query_map,        // a matrix [in, out] applied to every query before scoring
  key_map,          // the same for keys
  query_shift,      // a vector added to every query in q·k
  relative_query_shift,  // a vector added to every query in the products with relative vectors
  table,                 // numbers that a formula given at run time reads at any index; see formula.h
};

constexpr bool is_table(Role role) {
  return role == Role::relative_value || role == Role::relative_vector || role == Role::relative_output;
}

// Whether the parameter has a leading dimension of heads.
enum class Heads : std::uint8_t { shared, optional, required };

// The axis that an offset counts along.
enum class Along : std::uint8_t { position, grid_row, grid_col };

// Sizes of parameters: a positive number stands for itself, these depend on the call.
enum Size : int {
  kAny = -1,        // any length from 1
  kQueryDim = -2,   // Dq
  kKeyDim = -3,     // Dk
  kInner = -4,      // A: free, but the same in every parameter that uses it
  kPositions = -5,  // as many as reach every offset between a query and a key
  kGridRows = -6,   // 2·rows − 1
  kGridCols = -7,   // 2·cols − 1
  kOdd = -8,        // any odd length: 2c + 1
  kValueDim = -9,   // Dv of the only value set
  kLastSize = kValueDim,
};

// The initial value of a parameter of role value in an untrained layer. A parameter of two sizes starts as `value`
// times the identity.
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
  // How many p[n] the parameter has.
  constexpr int slots() const {
    if (role != Role::value) return is_slot() ? 1 : 0;
    return (sizes[0] > 0 ? sizes[0] : 1) * (sizes[1] > 0 ? sizes[1] : 1);
  }
};

struct SettingSpec {
  std::string_view name;
  double value = 0;  // the default
  double low = 0;
  double high = 0;  // allowed range, both ends included
  bool integer = true;
};

// What index() can read about its table and the call.
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
  V delta;  // j − i, which stays exact where i and j are rounded
  V row;    // key − query along the grid's rows (only where grid = true)
  V col;    // and along its columns
  V scale;  // the caller's scale, or the mechanism's default
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::span<const double> settings;
  const void* tables = nullptr;  // on a device: those that a formula's own hooks read

  RAPT_FN V offset() const { return delta; }
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

namespace detail {

void not_declared(const char* sentence);  // never defined: calling it ends a constant expression

// A constant n that is the index of a declared parameter's number.
template <int kCount>
struct SlotIndex {
  int n;
  consteval SlotIndex(int index) : n(index) {
    if (index < 0 || index >= kCount) not_declared("rapt: p[n]: n is past the numbers of the declared parameters");
  }
};

}  // namespace detail

// p of the hooks.
template <class N, int kCount>
struct Slots {
  N values[kCount + (kCount == 0)];

  // p[n] with a constant n, which the compiler checks.
  RAPT_FN constexpr const N& operator[](detail::SlotIndex<kCount> index) const { return values[index.n]; }
  // For n that is counted in a loop; NaN past the end.
  RAPT_FN constexpr N at(int n) const { return n >= 0 && n < kCount ? values[n] : N(__builtin_nan("")); }
  RAPT_FN static constexpr int size() { return kCount; }
};

inline constexpr int kMaxSlots = 8;

// How a lane type is loaded, stored and summed. SIMD vectors have their own.
template <class V>
struct Lanes;

template <class T>
struct Lanes<Number<T>> {
  using Scalar = T;
  static constexpr int count = 1;
  static constexpr int registers = 16;
  RAPT_FN static Number<T> load(const T* p) { return *p; }
  RAPT_FN static void store(Number<T> v, T* p) { *p = v.value; }
  RAPT_FN static Number<T> iota(T start) { return start; }
  RAPT_FN static T sum(Number<T> v) { return v.value; }
  // to[n] += the sum of v[n]
  RAPT_FN static void add_sums(const Number<T> (&v)[4], T* to) {
    for (int n = 0; n < 4; ++n) to[n] += v[n].value;
  }
};

// A sum that keeps what each addition rounds off: where rows cancel, little is left of many large terms.
template <class V>
struct ExactSum {
  V sum = V(0), rest = V(0);

  RAPT_FN void add(V x) {
    const V next = sum + x;
    const V part = next - sum;
    rest = rest + ((sum - (next - part)) + (x - part));
    sum = next;
  }
  RAPT_FN double total() const {
    const auto kept = static_cast<double>(Lanes<V>::sum(rest));
    // NaN where the sum is infinite.
    return static_cast<double>(Lanes<V>::sum(sum)) + (kept == kept ? kept : 0);
  }
};

// The tile that a mechanism's own fast path reads; see tiles.h.
template <class T>
struct PairTile;

namespace detail {

// True; a constant expression only where the list is constant too.
template <class Spec>
constexpr bool is_constant(std::span<const Spec> list) {
  bool constant = true;
  for (const Spec& spec : list) constant = constant && spec.name.size() + 1 > 0;
  return constant;
}

template <class M> concept HasParameters = requires {
  typename std::bool_constant<is_constant<ParameterSpec>(M::parameters)>;
};
template <class M> concept HasSettings = requires {
  typename std::bool_constant<is_constant<SettingSpec>(M::settings)>;
};

template <class M>
constexpr int slot_count() {
  int count = 0;
  if constexpr (HasParameters<M>)
    for (const ParameterSpec& p : M::parameters) count += p.slots();
  return count;
}

template <class M, class N>
using SlotsOf = Slots<N, slot_count<M>()>;

template <class M> concept HasForm = requires(const M& m, const SlotsOf<M, Number<double>>& p) {
  m.template form<Number<double>>(p);
};
template <class M>
concept HasScore = requires(const M& m, Number<float> x, const SlotsOf<M, Number<float>>& p,
                            const At<Number<float>>& at) {
  m.score(x, p, at);
};
template <class M> concept HasPair = requires(const M& m, Number<float> x) { m.pair(x, x, x); };
template <class M> concept HasAddPair = requires(const M& m, Number<float> x) { m.add_pair(x, x, x, x); };
// pair(q, k, w) depends on q − k alone: its slope by k is that by q with the other sign.
template <class M>
constexpr bool of_difference() {
  if constexpr (requires { M::of_difference; }) return M::of_difference;
  else return false;
}
template <class M> concept HasVisible = requires(const M& m, const At<Number<float>>& at) { m.visible(at); };
template <class M> concept HasVisibleTile = requires(const M& m, const TileRange& r) { m.visible_tile(r); };
template <class M> concept HasIndex = requires(const M& m, const TableShape& s) { m.index(std::int64_t{}, s); };
template <class M> concept HasUsesContent = requires(const M& m, std::span<const double> s) { m.uses_content(s); };

template <class M>
constexpr bool slot_is_relative(int slot) {
  if constexpr (HasParameters<M>)
    for (const ParameterSpec& p : M::parameters) {
      if (slot < p.slots()) return p.role != Role::value;
      slot -= p.slots();
    }
  return false;
}

template <class M>
constexpr bool has_grid() {
  if constexpr (requires { M::grid; }) return M::grid;
  return false;
}

template <class M, class N, class P, class V>
RAPT_FN N evaluate(const M& m, N raw, const P& p, const At<V>& at) {
  if constexpr (HasForm<M> && !HasScore<M>) {
    const QuadraticForm<N> f = m.template form<N>(p);
    return ((f.row_row * at.row + f.row) * at.row + (f.col_col * at.col + f.col) * at.col +
            f.row_col * (at.row * at.col) + f.constant) *
           at.scale;
  } else {
    return m.score(raw, p, at);
  }
}

}  // namespace detail

}  // namespace rapt::inline v1
