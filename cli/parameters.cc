#include "cli/parameters.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "cli/options.h"
#include "mechanisms/sizes.h"
#include "rapt/error.h"
#include "rapt/formula.h"
#include "rapt/registry.h"
#include "tensor/npy.h"

namespace rapt::cli {
namespace {

// One --param whose shape is not known yet.
struct Given {
  std::string name;
  const ParameterSpec* spec = nullptr;  // null: no parameter has that name
  std::vector<double> numbers;
  std::optional<Array> array;  // instead of the numbers
};

std::string argument(std::string_view name) { return "attend: --param " + std::string(name); }

const ParameterSpec* find(std::span<const ParameterSpec> specs, std::string_view name) {
  const auto found = std::ranges::find(specs, name, &ParameterSpec::name);
  return found == specs.end() ? nullptr : &*found;
}

// Plain numbers have no shape: it follows from the specification and the sizes of the call.
class Shaper {
 public:
  Shaper(const MechanismInfo& mechanism, const std::vector<Given>& given, const CallSizes& sizes,
         const std::array<std::int64_t, 2>& grid)
      : heads_(sizes.heads) {
    known_.query_dim = sizes.query_dim;
    known_.key_dim = sizes.key_dim;
    known_.value_dim = sizes.value_dim;
    known_.grid_rows = grid[0];
    known_.grid_cols = grid[1];
    find_inner(mechanism, given);
  }

  // The shape that these numbers fill, shared preferred to per head; if none fits, a row of them.
  std::vector<std::int64_t> shape_for(const ParameterSpec* spec, std::size_t numbers) {
    const auto count = static_cast<std::int64_t>(numbers);
    for (const bool per_head : {false, true}) {
      if (!spec || (per_head ? spec->heads == Heads::shared : spec->heads == Heads::required)) continue;
      std::vector<std::int64_t> shape;
      if (per_head) shape.push_back(heads_);
      std::int64_t product = per_head ? heads_ : 1;
      int unknown = 0;
      for (int n = 0; n < spec->rank(); ++n) {
        const std::optional<std::int64_t> size = resolve(spec->sizes[static_cast<std::size_t>(n)], known_);
        if (!size) ++unknown;
        // Exceeds the count of numbers: cannot fit, and must not overflow.
        else if (product > count / std::max<std::int64_t>(*size, 1)) product = count + 1;
        else product *= *size;
        shape.push_back(size.value_or(0));
      }
      if (unknown > 1 || product < 1 || product > count || (unknown == 0 ? product != count : count % product != 0))
        continue;
      std::replace(shape.begin(), shape.end(), std::int64_t{0}, count / product);
      learn_inner(*spec, shape);
      return shape;
    }
    return {count};
  }

 private:
  // The length of mapped rows: given by an array that has it, otherwise that of the unmapped rows.
  void find_inner(const MechanismInfo& mechanism, const std::vector<Given>& given) {
    for (const Given& one : given)
      if (one.spec && one.array) learn_inner(*one.spec, one.array->shape());
    for (const ParameterSpec& spec : mechanism.parameters()) {
      const bool is_map = spec.role == Role::query_map || spec.role == Role::key_map;
      const bool absent = std::ranges::find(given, spec.name, &Given::name) == given.end();
      if (is_map && spec.sizes[1] == kInner && absent && known_.inner == ParameterSizes::kUnknown)
        known_.inner = spec.role == Role::query_map ? known_.query_dim : known_.key_dim;
    }
  }

  void learn_inner(const ParameterSpec& spec, const std::vector<std::int64_t>& shape) {
    for (int n = 0; n < spec.rank(); ++n) {
      const int place = static_cast<int>(shape.size()) - spec.rank() + n;
      if (spec.sizes[static_cast<std::size_t>(n)] != kInner || place < 0) continue;
      if (known_.inner != ParameterSizes::kUnknown) continue;
      if (const std::int64_t size = shape[static_cast<std::size_t>(place)]; size > 0) known_.inner = size;
    }
  }

  std::int64_t heads_;
  ParameterSizes known_;
};

Given read_array(const std::string& name, const ParameterSpec* spec, const std::string& value, ElementType type) {
  if (const auto numbers = try_numbers(value)) {
    constexpr double kMost = std::numeric_limits<float>::max();
    if (type != ElementType::f64 && std::ranges::any_of(*numbers, [](double x) { return std::abs(x) > kMost; }))
      refuse(argument(name), value, "numbers of at most 3.40282e+38 outside f64, either sign");
    return {name, spec, *numbers, {}};
  }
  std::error_code ignored;
  if (!std::filesystem::exists(value, ignored)) refuse(argument(name), value, "numbers or an existing .npy file");
  try {
    return {name, spec, {}, read_npy(value).to(type)};
  } catch (const Error& error) {
    throw Error(argument(name) + ": " + error.what());
  }
}

}  // namespace

Score read_score(const std::string& verb, const std::string& name, const FormulaTexts& texts) {
  if (texts.any() && !name.empty())
    throw Error(verb + ": expected --score or a formula (--formula, --pair, --visible), got both");
  if (texts.any()) return formula(texts.score, {.pair = texts.pair, .visible = texts.visible});
  Score score;
  score.mechanism = &mechanism(name.empty() ? "scaled_dot" : name);
  return score;
}

GivenParameters read_parameters(const MechanismInfo& mechanism, const NormalizerInfo& normalizer,
                                const std::vector<std::string>& assignments, const CallSizes& sizes, ElementType type) {
  GivenParameters result;
  std::set<std::string> seen;
  std::vector<Given> arrays;
  for (const std::string& assignment : assignments) {
    auto [name, value] = parse_assignment("attend: --param", assignment);
    // The formula's name for the setting.
    if (mechanism.name() == "learned_2d" && name == "c") name = "content";
    if (!seen.insert(name).second) throw Error(argument(name) + ": expected once, got twice");
    const auto settings = mechanism.settings();
    if (name == "grid" && mechanism.grid()) {
      const auto grid = parse_integers(argument(name), value, "rows,cols: two integers", 2);
      result.grid = {grid[0], grid[1]};
    } else if (std::ranges::find(settings, name, &SettingSpec::name) != settings.end()) {
      result.settings.push_back({name, parse_number(argument(name), value, "a number")});
    } else {
      const ParameterSpec* own = find(mechanism.parameters(), name);
      arrays.push_back(read_array(name, own ? own : find(normalizer.parameters, name), value, type));
    }
  }
  Shaper shaper(mechanism, arrays, sizes, result.grid);
  // In the order of the specifications: A is known before it is needed.
  const auto specs = mechanism.parameters();
  std::ranges::stable_sort(arrays, {}, [&](const Given& given) {
    return std::ranges::find(specs, given.name, &ParameterSpec::name) - specs.begin();
  });
  for (Given& given : arrays) {
    Array value = given.array ? std::move(*given.array)
                              : Array::of<double>(shaper.shape_for(given.spec, given.numbers.size()), given.numbers);
    const bool of_normalizer = given.spec && !find(specs, given.name);
    (of_normalizer ? result.of_normalizer : result.of_mechanism).push_back({given.name, std::move(value).to(type)});
  }
  return result;
}

}  // namespace rapt::cli
