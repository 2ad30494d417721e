#include "cli/parameters.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include "cli/options.h"
#include "mechanisms/describe.h"
#include "mechanisms/sizes.h"
#include "rapt/error.h"
#include "tensor/npy.h"

namespace rapt::cli {
namespace {

using Sizes = std::vector<std::optional<std::int64_t>>;  // none: any length

// One --param, before its shape is known.
struct Given {
  std::string value;
  std::optional<std::vector<double>> numbers;
  std::optional<Array> array;
};

class ParameterReader {
 public:
  ParameterReader(std::string operation, const MechanismInfo& mechanism, const CallSizes& sizes, ElementType type)
      : operation_(std::move(operation)), mechanism_(mechanism), sizes_(sizes), type_(type) {}

  ScoreArguments read(const std::vector<std::string>& assignments) {
    result_.mechanism = &mechanism_;
    for (const std::string& assignment : assignments) take(assignment);
    find_inner();
    for (const ParameterSpec& spec : mechanism_.parameters()) {
      const auto found = given_.find(std::string(spec.name));
      if (found != given_.end()) add(spec, found->second);
      else if (spec.required)
        throw Error(operation_ + ": --param " + std::string(spec.name) + " is missing; " +
                    std::string(mechanism_.name()) + " takes " + expected(spec));
    }
    return std::move(result_);
  }

 private:
  std::string argument(std::string_view name) const { return operation_ + ": --param " + std::string(name); }

  void take(const std::string& assignment) {
    auto [name, value] = parse_assignment(operation_ + ": --param", assignment);
    // The name that the formula gives the setting.
    if (mechanism_.name() == "learned_2d" && name == "c") name = "content";
    if (!seen_.insert({name, true}).second) throw Error(argument(name) + " is given twice");
    if (mechanism_.grid() && name == "grid") return take_grid(value);
    for (const SettingSpec& spec : mechanism_.settings())
      if (name == spec.name) return take_setting(spec, value);
    for (const ParameterSpec& spec : mechanism_.parameters())
      if (name == spec.name) return take_array(spec, value);
    throw Error(argument(name) + " is unknown; " + std::string(mechanism_.name()) + " takes " + known_names());
  }

  std::string known_names() const {
    std::string names;
    const auto add_name = [&names](std::string_view name) { names += (names.empty() ? "" : ", ") + std::string(name); };
    for (const ParameterSpec& spec : mechanism_.parameters()) add_name(spec.name);
    for (const SettingSpec& spec : mechanism_.settings()) add_name(spec.name);
    if (mechanism_.grid()) add_name("grid");
    return names.empty() ? "no parameters" : names;
  }

  void take_grid(const std::string& value) {
    const char* takes = "rows,cols: two whole numbers from 1";
    const auto grid = parse_integers(argument("grid"), value, takes, 2);
    if (grid[0] < 1 || grid[1] < 1) refuse(argument("grid"), value, takes);
    result_.grid = {grid[0], grid[1]};
  }

  void take_setting(const SettingSpec& spec, const std::string& value) {
    const std::string takes = std::string(spec.integer ? "a whole number" : "a number") + " from " +
                              number_text(spec.low) + " to " + number_text(spec.high);
    const double number = parse_number(argument(spec.name), value, takes);
    const bool whole = !spec.integer || number == std::floor(number);
    if (!whole || number < spec.low || number > spec.high) refuse(argument(spec.name), value, takes);
    result_.settings.push_back({std::string(spec.name), number});
  }

  static std::string number_text(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%g", value);
    return text.data();
  }

  void take_array(const ParameterSpec& spec, const std::string& value) {
    Given given{.value = value, .numbers = try_numbers(value), .array = {}};
    if (!given.numbers) given.array = read_numbers(argument(spec.name), value, type_);
    given_[std::string(spec.name)] = std::move(given);
  }

  // The length that query_map and key_map lead to: of an array that has it, or of the rows that no map changes.
  void find_inner() {
    for (const ParameterSpec& spec : mechanism_.parameters()) {
      const auto found = given_.find(std::string(spec.name));
      if (found == given_.end() || !found->second.array) continue;
      const std::vector<std::int64_t>& shape = found->second.array->shape();
      for (int n = 0; n < spec.rank(); ++n) {
        const int place = static_cast<int>(shape.size()) - spec.rank() + n;
        if (spec.sizes[static_cast<std::size_t>(n)] != kInner || place < 0 || inner_) continue;
        if (const std::int64_t size = shape[static_cast<std::size_t>(place)]; size > 0) inner_ = size;
      }
    }
    for (const ParameterSpec& spec : mechanism_.parameters()) {
      const bool is_map = spec.role == Role::query_map || spec.role == Role::key_map;
      if (is_map && spec.sizes[1] == kInner && !given_.contains(std::string(spec.name)) && !inner_)
        inner_ = spec.role == Role::query_map ? sizes_.query_dim : sizes_.key_dim;
    }
  }

  std::optional<std::int64_t> resolved(int size) const {
    ParameterSizes known{.query_dim = sizes_.query_dim, .key_dim = sizes_.key_dim, .inner = inner_};
    known.grid_rows = result_.grid[0];
    known.grid_cols = result_.grid[1];
    return resolve(size, known);
  }

  Sizes resolved(const ParameterSpec& spec) const {
    Sizes sizes;
    for (int n = 0; n < spec.rank(); ++n) sizes.push_back(resolved(spec.sizes[static_cast<std::size_t>(n)]));
    return sizes;
  }

  // "m [H] with H=4".
  std::string expected(const ParameterSpec& spec) const {
    std::string values;
    const auto add_value = [&values](const std::string& name, std::int64_t value) {
      values += (values.empty() ? " with " : ", ") + name + "=" + std::to_string(value);
    };
    if (spec.heads != Heads::shared) add_value("H", sizes_.heads);
    for (int n = 0; n < spec.rank(); ++n) {
      const int size = spec.sizes[static_cast<std::size_t>(n)];
      if (const auto value = resolved(size); value && size < 0) add_value(size_text(spec, size), *value);
    }
    return std::string(spec.name) + " " + shape_text(spec) + values;
  }

  void add(const ParameterSpec& spec, const Given& given) {
    std::optional<std::vector<std::int64_t>> shape;
    if (given.array) {
      if (fits(spec, given.array->shape())) shape = given.array->shape();
      else
        throw Error(argument(spec.name) + ": got shape " + to_string(given.array->shape()) + "; takes " +
                    expected(spec));
    } else {
      shape = shape_for(spec, given.numbers->size());
      if (!shape)
        throw Error(argument(spec.name) + ": got " + std::to_string(given.numbers->size()) + " numbers; takes " +
                    expected(spec));
    }
    if (!given.array) learn_inner(spec, *shape);
    Array value = given.array ? *given.array : Array::of<double>(*shape, *given.numbers).to(type_);
    result_.parameters.push_back({std::string(spec.name), std::move(value)});
  }

  void learn_inner(const ParameterSpec& spec, const std::vector<std::int64_t>& shape) {
    for (int n = 0; n < spec.rank(); ++n)
      if (spec.sizes[static_cast<std::size_t>(n)] == kInner && !inner_)
        inner_ = shape[shape.size() - static_cast<std::size_t>(spec.rank() - n)];
  }

  bool fits(const ParameterSpec& spec, const std::vector<std::int64_t>& shape) const {
    const Sizes sizes = resolved(spec);
    const std::size_t lead = shape.size() - std::min(shape.size(), sizes.size());
    if (shape.size() != sizes.size() + lead || lead > 1) return false;
    if (lead == 0 && spec.heads == Heads::required) return false;
    if (lead == 1 && spec.heads == Heads::shared) return false;
    if (lead == 1 && shape[0] != sizes_.heads && !(shape[0] == 1 && spec.heads == Heads::optional)) return false;
    for (std::size_t n = 0; n < sizes.size(); ++n)
      if (shape[lead + n] < 1 || (sizes[n] && *sizes[n] != shape[lead + n])) return false;
    return true;
  }

  // The shape that so many numbers fill; shared before per head.
  std::optional<std::vector<std::int64_t>> shape_for(const ParameterSpec& spec, std::size_t numbers) const {
    const auto count = static_cast<std::int64_t>(numbers);
    for (const bool per_head : {false, true}) {
      if (per_head ? spec.heads == Heads::shared : spec.heads == Heads::required) continue;
      std::vector<std::int64_t> shape;
      if (per_head) shape.push_back(sizes_.heads);
      std::int64_t known = per_head ? sizes_.heads : 1;
      int unknown = 0;
      for (const std::optional<std::int64_t>& size : resolved(spec)) {
        if (!size) ++unknown;
        // More than there are numbers: it cannot fit, and must not overflow.
        else if (known > count / std::max<std::int64_t>(*size, 1)) known = count + 1;
        else known *= *size;
        shape.push_back(size.value_or(0));
      }
      if (unknown > 1 || known > count || (unknown == 0 ? known != count : count % known != 0)) continue;
      std::replace(shape.begin(), shape.end(), std::int64_t{0}, count / known);
      return shape;
    }
    return std::nullopt;
  }

  std::string operation_;
  const MechanismInfo& mechanism_;
  CallSizes sizes_;
  ElementType type_;
  ScoreArguments result_;
  std::map<std::string, bool> seen_;
  std::map<std::string, Given> given_;
  std::optional<std::int64_t> inner_;
};

}  // namespace

Array read_numbers(const std::string& argument, const std::string& value, ElementType type) {
  if (const auto numbers = try_numbers(value))
    return Array::of<double>({static_cast<std::int64_t>(numbers->size())}, *numbers).to(type);
  std::error_code ignored;
  if (!std::filesystem::exists(value, ignored))
    refuse(argument, value, "numbers or a .npy file, and there is no such file");
  try {
    return read_npy(value).to(type);
  } catch (const Error& error) {
    throw Error(argument + ": " + error.what());
  }
}

Score ScoreArguments::score() const {
  Score score;
  score.mechanism = mechanism;
  for (const Parameter& parameter : parameters) score.parameters.push_back({parameter.name, parameter.value.view()});
  score.settings = settings;
  score.grid = grid;
  return score;
}

ScoreArguments read_score(const std::string& operation, const MechanismInfo& mechanism,
                          const std::vector<std::string>& assignments, const CallSizes& sizes, ElementType type) {
  return ParameterReader(operation, mechanism, sizes, type).read(assignments);
}

}  // namespace rapt::cli
