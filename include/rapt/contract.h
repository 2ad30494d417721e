#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "rapt/hooks.h"

// The rules for a mechanism, checked at compile time: a hook that the engine cannot call, or a name that it does not
// read, would otherwise be ignored silently.
namespace rapt::inline v1::detail {

// Whether M has a member of that name, of any kind and access: a class that inherits the name twice makes it ambiguous.
#define RAPT_NAME(name)                            \
  struct Other_##name {                            \
    int name;                                      \
  };                                               \
  template <class M>                               \
  struct Both_##name : M, Other_##name {};         \
  template <class M>                               \
  inline constexpr bool names_##name = !requires { \
    &Both_##name<M>::name;                         \
  };

RAPT_NAME(formula)
RAPT_NAME(parameters)
RAPT_NAME(settings)
RAPT_NAME(scaled)
RAPT_NAME(grid)
RAPT_NAME(unit_rows)
RAPT_NAME(pair)
RAPT_NAME(add_pair)
RAPT_NAME(of_difference)
RAPT_NAME(score)
RAPT_NAME(visible)
RAPT_NAME(visible_tile)
RAPT_NAME(index)
RAPT_NAME(uses_content)
RAPT_NAME(form)
RAPT_NAME(fast_limit)
RAPT_NAME(fast_prepare)
RAPT_NAME(fast_raw)
RAPT_NAME(fast_raw_backward)

// How the engine uses each hook. On dual numbers a hook must return one too, or the derivative is lost.
template <class M, class N> concept PairsOver = requires(const M& m, const N& x) {
  requires std::is_same_v<decltype(m.pair(x, x, x)), N>;
};
template <class M, class N, class V>
concept ScoresOver = requires(const M& m, const N& raw, const SlotsOf<M, N>& p, const At<V>& at) {
  requires std::is_same_v<decltype(m.score(raw, p, at)), N>;
};
template <class M, class N> concept FormsOver = requires(const M& m, const SlotsOf<M, N>& p) {
  requires std::is_same_v<decltype(m.template form<N>(p)), QuadraticForm<N>>;
};
template <class M, class V> concept ShowsOver = requires(const M& m, const At<V>& at) {
  requires std::is_same_v<decltype(m.visible(at)), bool>;
};

using F32 = Number<float>;
using F64 = Number<double>;
template <class M, class V>
using ScoreDual = Dual<V, slot_count<M>() + 1>;

template <class M, class V> concept PairsOn = PairsOver<M, V> && PairsOver<M, Dual<V, 3>>;
template <class M, class V> concept ScoresOn = ScoresOver<M, V, V> && ScoresOver<M, ScoreDual<M, V>, V>;
template <class M, class V> concept FormsOn = FormsOver<M, V> && FormsOver<M, ScoreDual<M, V>>;

template <class M> concept GoodFormula = requires {
  typename std::bool_constant<!std::string_view(M::formula).empty()>;
};
template <class M> concept GoodScaled = requires { typename std::bool_constant<M::scaled>; };
template <class M> concept GoodGrid = requires { typename std::bool_constant<M::grid>; };
template <class M> concept GoodUnitRows = requires { typename std::bool_constant<M::unit_rows>; };
template <class M> concept GoodPair = PairsOn<M, F32> && PairsOn<M, F64>;
template <class M> concept GoodScore = ScoresOn<M, F32> && ScoresOn<M, F64>;
template <class M> concept GoodVisible = ShowsOver<M, F32> && ShowsOver<M, F64>;
template <class M> concept GoodVisibleTile = requires(const M& m, const TileRange& tile) {
  requires std::is_same_v<decltype(m.visible_tile(tile)), Visible>;
};
template <class M> concept GoodIndex = requires(const M& m, std::int64_t offset, const TableShape& table) {
  requires std::is_integral_v<decltype(m.index(offset, table))>;
};
template <class M> concept GoodUsesContent = requires(const M& m, std::span<const double> settings) {
  requires std::is_same_v<decltype(m.uses_content(settings)), bool>;
};
template <class M> concept GoodForm = FormsOn<M, F32> && FormsOn<M, F64>;
template <class M> concept GoodAddPair = requires(const M& m, F32 x, F64 y) {
  requires std::is_same_v<decltype(m.add_pair(x, x, x, x)), F32>;
  requires std::is_same_v<decltype(m.add_pair(y, y, y, y)), F64>;
};
template <class M> concept GoodOfDifference = requires { typename std::bool_constant<M::of_difference>; };
template <class M> concept GoodFast = requires(const M& m, F32 x, const PairTile<float>& tile) {
  typename std::bool_constant<(double{M::fast_limit} > 0)>;
  requires std::is_same_v<decltype(m.fast_prepare(x)), F32>;
  M::template fast_raw<F32>(tile);
  M::template fast_raw_backward<F32>(tile);
};

// What is wrong with the declared parameters and settings, if anything.
enum class Fault : std::uint8_t {
  none,
  rank,
  free_value,
  no_index,
  no_table,
  no_grid,
  role_twice,
  no_pair,
  not_read,
  no_relative_vector,
  names,
  setting_range,
  too_many,
};

constexpr int wanted_rank(Role role) {
  switch (role) {
    case Role::query_map:
    case Role::key_map:
    case Role::relative_vector:
    case Role::relative_output: return 2;
    case Role::table:
    case Role::value: return -1;  // 0 to 2
    default: return 1;
  }
}

template <class M>
constexpr bool declares_grid() {
  if constexpr (GoodGrid<M>) return M::grid;
  return false;
}

template <class M>
constexpr Fault parameter_fault() {
  bool vectors = false, shifts = false, tables = false;
  if constexpr (HasParameters<M>) {
    int seen[16] = {};
    for (const ParameterSpec& p : M::parameters) {
      if ((p.sizes[0] == 0 && p.sizes[1] != 0) || p.sizes[0] < kLastSize || p.sizes[1] < kLastSize) return Fault::rank;
      if (wanted_rank(p.role) >= 0 && p.rank() != wanted_rank(p.role)) return Fault::rank;
      if (p.role == Role::table) return Fault::not_read;
      if (p.role == Role::value && (p.sizes[0] < 0 || p.sizes[1] < 0)) return Fault::free_value;
      const bool table = is_table(p.role);
      if (table && !names_index<M>) return Fault::no_index;
      if (p.along != Along::position && !(table && declares_grid<M>())) return Fault::no_grid;
      if (!p.is_slot() && seen[static_cast<int>(p.role)]++ > 0) return Fault::role_twice;
      if (p.role == Role::pair_weight && !names_pair<M>) return Fault::no_pair;
      if (p.is_slot() && !names_score<M> && !names_form<M>) return Fault::not_read;
      tables = tables || table;
      vectors = vectors || p.role == Role::relative_vector;
      shifts = shifts || p.role == Role::relative_query_shift;
    }
  }
  if (shifts && !vectors) return Fault::no_relative_vector;
  if (names_index<M> && !tables) return Fault::no_table;
  return slot_count<M>() > kMaxSlots ? Fault::too_many : Fault::none;
}

// Parameters and settings are given by name, so names differ.
template <class M>
constexpr Fault name_fault() {
  const auto count = [](std::string_view name) {
    int found = 0;
    if constexpr (HasParameters<M>)
      for (const ParameterSpec& p : M::parameters) found += p.name == name;
    if constexpr (HasSettings<M>)
      for (const SettingSpec& s : M::settings) found += s.name == name;
    return found;
  };
  if constexpr (HasParameters<M>)
    for (const ParameterSpec& p : M::parameters)
      if (p.name.empty() || count(p.name) > 1) return Fault::names;
  if constexpr (HasSettings<M>)
    for (const SettingSpec& s : M::settings) {
      if (s.name.empty() || count(s.name) > 1) return Fault::names;
      if (!(s.low <= s.value && s.value <= s.high)) return Fault::setting_range;
    }
  return Fault::none;
}

// Names that are not read but look like one that is. A constant is recognised by its type, a hook by being neither
// object nor type; a mechanism's own state may have any name.
template <class T> concept Flag = std::is_same_v<T, const bool>;
template <class T> concept ParameterList = std::is_convertible_v<T, std::span<const ParameterSpec>>;
template <class T> concept SettingList = std::is_convertible_v<T, std::span<const SettingSpec>>;

// clang-format off
#define RAPT_CONSTANT_ALIASES(X)                                                                                       \
  X(scale, scaled, Flag) X(Scaled, scaled, Flag) X(is_scaled, scaled, Flag) X(scaling, scaled, Flag)                   \
  X(rescaled, scaled, Flag) X(kScaled, scaled, Flag)                                                                   \
  X(Grid, grid, Flag) X(grids, grid, Flag) X(is_grid, grid, Flag) X(has_grid, grid, Flag) X(on_grid, grid, Flag)       \
  X(kGrid, grid, Flag)                                                                                                 \
  X(unit_row, unit_rows, Flag) X(unitRows, unit_rows, Flag) X(unit, unit_rows, Flag) X(units, unit_rows, Flag)         \
  X(unit_vectors, unit_rows, Flag) X(normalized, unit_rows, Flag) X(kUnitRows, unit_rows, Flag)                        \
  X(params, parameters, ParameterList) X(param, parameters, ParameterList) X(parameter, parameters, ParameterList)     \
  X(Parameters, parameters, ParameterList) X(paramters, parameters, ParameterList)                                     \
  X(kParameters, parameters, ParameterList)                                                                            \
  X(setting, settings, SettingList) X(Settings, settings, SettingList) X(options, settings, SettingList)               \
  X(kSettings, settings, SettingList)

#define RAPT_HOOK_ALIASES(X)                                                                                           \
  X(pairs, pair) X(pairwise, pair) X(pair_score, pair)                                                   \
  X(scores, score) X(score_fn, score) X(get_score, score)                                              \
  X(visibility, visible) X(is_visible, visible) X(isVisible, visible) X(visable, visible)          \
  X(visibleTile, visible_tile) X(visible_tiles, visible_tile) X(tile_visible, visible_tile)                            \
  X(indices, index) X(indexes, index) X(get_index, index)                                              \
  X(usesContent, uses_content) X(use_content, uses_content) X(uses_contents, uses_content)                             \
  X(reads_content, uses_content)                                                                                       \
  X(forms, form) X(quadratic_form, form) X(get_form, form)
// clang-format on

#define RAPT_CONSTANT_ALIAS(alias, name, kind)           \
  template <class M>                                     \
  inline constexpr bool constant_called_##alias = false; \
  template <class M>                                     \
    requires kind<decltype(M::alias)>                    \
  inline constexpr bool constant_called_##alias<M> = true;
#define RAPT_HOOK_ALIAS(alias, name)                                          \
  RAPT_NAME(alias)                                                            \
  template <class M>                                                          \
  inline constexpr bool hook_called_##alias = names_##alias<M> && !requires { \
    typename M::alias;                                                        \
  }                                                                           \
  &&!requires(const M& m) { sizeof(decltype(m.alias)) == 0; };

RAPT_CONSTANT_ALIASES(RAPT_CONSTANT_ALIAS)
RAPT_HOOK_ALIASES(RAPT_HOOK_ALIAS)

template <class M>
consteval bool has_good_members() {
  bool good = true;
#define RAPT_REQUIRE(condition, sentence)        \
  static_assert((condition), "rapt: " sentence); \
  good = good && (condition);
#define RAPT_NOT_CONSTANT(alias, name, kind) \
  RAPT_REQUIRE(!constant_called_##alias<M>, #alias ": the engine does not read this name; did you mean " #name "?")
#define RAPT_NOT_HOOK(alias, name) \
  RAPT_REQUIRE(!hook_called_##alias<M>, #alias ": the engine does not call this name; did you mean " #name "?")

  RAPT_REQUIRE(names_formula<M> && GoodFormula<M>,
               "formula: expected a public `static constexpr std::string_view formula` that is not empty")
  RAPT_REQUIRE(!names_parameters<M> || HasParameters<M>,
               "parameters: expected a public `static constexpr std::array parameters{ParameterSpec{…}, …}`")
  RAPT_REQUIRE(!names_settings<M> || HasSettings<M>,
               "settings: expected a public `static constexpr std::array settings{SettingSpec{…}, …}`")
  RAPT_REQUIRE(!names_scaled<M> || GoodScaled<M>, "scaled: expected a public `static constexpr bool scaled`")
  RAPT_REQUIRE(!names_grid<M> || GoodGrid<M>, "grid: expected a public `static constexpr bool grid`")
  RAPT_REQUIRE(!names_unit_rows<M> || GoodUnitRows<M>, "unit_rows: expected a public `static constexpr bool unit_rows`")
  RAPT_REQUIRE(!names_pair<M> || GoodPair<M>,
               "pair: expected a public `template <class N> N pair(N q, N k, N w) const`")
  RAPT_REQUIRE(
      !names_score<M> || GoodScore<M>,
      "score: expected a public `template <class N, class P, class At> N score(N raw, const P& p, const At& at) const`")
  RAPT_REQUIRE(
      !names_visible<M> || GoodVisible<M>,
      "visible: expected a public `template <class At> auto visible(const At& at) const` that returns a condition")
  RAPT_REQUIRE(!names_visible_tile<M> || GoodVisibleTile<M>,
               "visible_tile: expected a public `Visible visible_tile(const TileRange& tile) const`")
  RAPT_REQUIRE(!names_visible_tile<M> || names_visible<M>,
               "visible_tile: expected visible() too, for tiles that are seen in part")
  RAPT_REQUIRE(!names_index<M> || GoodIndex<M>,
               "index: expected a public `std::int64_t index(std::int64_t offset, const TableShape& table) const`")
  RAPT_REQUIRE(!names_uses_content<M> || GoodUsesContent<M>,
               "uses_content: expected a public `bool uses_content(std::span<const double> settings) const`")
  RAPT_REQUIRE(!names_form<M> || GoodForm<M>,
               "form: expected a public `template <class N, class P> QuadraticForm<N> form(const P& p) const`")
  RAPT_REQUIRE(!names_form<M> || declares_grid<M>(),
               "form: expected `static constexpr bool grid = true`, whose offsets it reads")
  RAPT_REQUIRE(!names_add_pair<M> || (GoodAddPair<M> && names_pair<M>),
               "add_pair: expected a public `template <class N> N add_pair(N sum, N q, N k, N w) const` beside pair")
  RAPT_REQUIRE(!names_of_difference<M> || (GoodOfDifference<M> && names_pair<M>),
               "of_difference: expected a public `static constexpr bool of_difference` beside pair")
  RAPT_REQUIRE(
      !(names_fast_limit<M> || names_fast_prepare<M> || names_fast_raw<M> || names_fast_raw_backward<M>) ||
          (GoodFast<M> && names_pair<M>),
      "fast path: expected pair, fast_limit, fast_prepare, fast_raw and fast_raw_backward together, as in additive.h")

  constexpr Fault parameters = parameter_fault<M>();
  constexpr Fault names = name_fault<M>();
  RAPT_REQUIRE(parameters != Fault::rank,
               "parameters: expected as many sizes as the role takes: none to two for value, two for maps and relative "
               "vectors, one for the others")
  RAPT_REQUIRE(parameters != Fault::free_value,
               "parameters: expected fixed sizes where the role is value: each is a p[n]")
  RAPT_REQUIRE(parameters != Fault::no_index, "parameters: expected an index() for the relative table")
  RAPT_REQUIRE(
      parameters != Fault::no_table,
      "index: expected a parameter of role relative_value, relative_vector or relative_output, which it indexes")
  RAPT_REQUIRE(parameters != Fault::no_grid,
               "parameters: expected grid = true for a relative table along grid_row or grid_col")
  RAPT_REQUIRE(parameters != Fault::role_twice,
               "parameters: expected one parameter at most for each map, shift and pair_weight")
  RAPT_REQUIRE(parameters != Fault::no_pair, "parameters: expected a pair() that reads the pair_weight")
  RAPT_REQUIRE(parameters != Fault::not_read,
               "parameters: expected a score() or form() that reads the values and relative tables")
  RAPT_REQUIRE(parameters != Fault::no_relative_vector,
               "parameters: expected a relative_vector that the relative_query_shift is multiplied with")
  RAPT_REQUIRE(parameters != Fault::too_many, "parameters: expected at most 8 numbers p[n] in all")
  RAPT_REQUIRE(names != Fault::names, "parameters and settings: expected different names, none empty")
  RAPT_REQUIRE(names != Fault::setting_range, "settings: expected low ≤ value ≤ high")

  RAPT_CONSTANT_ALIASES(RAPT_NOT_CONSTANT)
  RAPT_HOOK_ALIASES(RAPT_NOT_HOOK)
#undef RAPT_REQUIRE
#undef RAPT_NOT_CONSTANT
#undef RAPT_NOT_HOOK
  return good;
}

// Fails to compile with one sentence for each rule that M breaks; false then, so that nothing else is compiled.
template <class M>
consteval bool keeps_contract() {
  static_assert(!std::is_final_v<M>,
                "rapt: expected a struct that is not final: its members are told by deriving from it");
  if constexpr (std::is_final_v<M>) return false;
  else return has_good_members<M>();
}

#undef RAPT_NAME
#undef RAPT_CONSTANT_ALIASES
#undef RAPT_HOOK_ALIASES
#undef RAPT_CONSTANT_ALIAS
#undef RAPT_HOOK_ALIAS

}  // namespace rapt::inline v1::detail
