#include "attend/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include "attend/counted.h"
#include "attend/either.h"
#include "attend/exact_choices.h"
#include "attend/relative_rows.h"
#include "mechanisms/objects.h"
#include "mechanisms/sizes.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "rapt/threads.h"

namespace rapt::inline v1 {
namespace {

[[noreturn]] void fail(const std::string& operation, const std::string& what) { throw Error(operation + ": " + what); }

std::string number(std::int64_t n) { return std::to_string(n); }
std::string number(double x) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", x);
  return text.data();
}

// The context of one check: the operation's name goes into every message.
class Builder {
 public:
  Builder(const char* operation, const Inputs& inputs, const AttendOptions& options, const OuterCall* outer)
      : operation_(operation), inputs_(inputs), options_(options), outer_(outer) {}

  Problem build() {
    operands();
    choices();
    positions();
    mechanism();
    settings();
    parameters();
    scored_rows();
    scores();
    normalizer();
    masks();
    set_positions(operation_, p_, options_.mask.key_lengths, options_.first_query);
    return std::move(p_);
  }

 private:
  void operands() {
    p_.q = make_operand(operation_, "q", inputs_.q);
    p_.k = make_operand(operation_, "k", inputs_.k);
    if (inputs_.v.empty()) fail(operation_, "v: expected at least one value set, got none");
    for (std::size_t n = 0; n < inputs_.v.size(); ++n)
      p_.v.push_back(make_operand(operation_, value_name(n).c_str(), inputs_.v[n]));
    p_.batch = p_.q.batches;
    std::int64_t most_heads = p_.q.heads;
    // A size of 1 is repeated; any other, 0 included, must be the same for all.
    const auto widen = [](std::int64_t& size, std::int64_t own) { size = size == 1 ? own : size; };
    widen(p_.batch, p_.k.batches);
    widen(most_heads, p_.k.heads);
    p_.is_double = p_.q.dtype == Dtype::f64 || p_.k.dtype == Dtype::f64;
    for (const Operand& v : p_.v) {
      widen(p_.batch, v.batches);
      widen(most_heads, v.heads);
      p_.is_double = p_.is_double || v.dtype == Dtype::f64;
    }
    p_.heads = p_.q.heads == 1 ? most_heads : p_.q.heads;
    p_.queries = p_.q.rows;
    p_.keys = p_.k.rows;
    p_.outer = outer_ ? *outer_ : OuterCall{0, 0, p_.queries, p_.keys};
    p_.query_dim = p_.q.dim;
    p_.key_dim = p_.k.dim;
    share("q", p_.q);
    share("k", p_.k);
    for (std::size_t n = 0; n < p_.v.size(); ++n) {
      share(value_name(n), p_.v[n]);
      if (p_.v[n].rows != p_.keys)
        fail(operation_,
             value_name(n) + ": expected " + counted(p_.keys, "key") + " as in k, got " + number(p_.v[n].rows));
    }
    p_.device = inputs_.q.device;
    same_device("k", inputs_.k.device);
    for (std::size_t n = 0; n < p_.v.size(); ++n) same_device(value_name(n), inputs_.v[n].device);
    if (options_.bias) same_device("bias", options_.bias.device);
    if (options_.mask.dense) same_device("mask", options_.mask.dense.device);
  }

  void same_device(const std::string& name, const Device& device) const {
    if (device != p_.device)
      fail(operation_,
           name + ": expected an array on " + to_string(p_.device) + " as q is, got one on " + to_string(device));
  }

  // Global settings are read here and nowhere later.
  void choices() {
    p_.stream = options_.stream;
    p_.path = options_.path;
    p_.isa = active_isa();
    if (options_.threads < 0)
      fail(operation_,
           "threads: expected 1 or more, or 0 for the default, got " + number(std::int64_t{options_.threads}));
    p_.threads = options_.threads == 0 ? default_threads() : options_.threads;
  }

  void positions() {
    p_.first_key = options_.first_key.value_or(0);
    p_.is_part = options_.first_key.has_value();
    const bool packed = !options_.mask.query_starts.empty();
    const auto& given = options_.first_query;
    if (!given.empty() && packed)
      fail(operation_, "first_query: expected none with packed sequences, whose positions follow from their starts");
    if (p_.is_part && packed)
      fail(operation_, "first_key: expected none with packed sequences, whose positions follow from their starts");
    p_.bottom_right = options_.mask.causal == Causal::bottom_right && !packed;
    if (p_.bottom_right && p_.is_part)
      fail(operation_,
           "first_key: expected none with causal bottom_right, as a part does not know where the last key stands; "
           "give first_query and causal top_left");
  }

  static std::string one_or(std::int64_t n) { return n == 1 ? "1" : "1 or " + number(n); }
  static std::string value_name(std::size_t n) { return n == 0 ? "v" : "v[" + std::to_string(n) + "]"; }

  void share(const std::string& name, Operand& operand) const {
    if (operand.batches != 1 && operand.batches != p_.batch)
      fail(operation_, name + ": expected batch 1 or " + number(p_.batch) + ", got " + number(operand.batches));
    if (operand.heads == 0 ? p_.heads != 0 : p_.heads % operand.heads != 0)
      fail(operation_, name + ": expected a divisor of the queries' " + counted(p_.heads, "head") + ", got " +
                           number(operand.heads));
    operand.group = operand.heads == 0 ? 1 : p_.heads / operand.heads;
  }

  void mechanism() {
    p_.mechanism = options_.score.mechanism ? options_.score.mechanism : &rapt::mechanism("scaled_dot");
    p_.keep_object = options_.score.object;
    p_.object = p_.keep_object ? p_.keep_object.get() : default_object(*p_.mechanism);
    if (!p_.object)
      fail(operation_, "score: expected the mechanism '" + std::string(p_.mechanism->name()) +
                           "' with its hooks, as rapt::custom makes it, got it without");
  }

  std::string score_name() const { return "score " + std::string(p_.mechanism->name()); }

  void settings() {
    const auto specs = p_.mechanism->settings();
    for (const SettingSpec& spec : specs) p_.settings.push_back(spec.value);
    for (const NamedNumber& given : options_.score.settings) {
      const auto spec =
          std::find_if(specs.begin(), specs.end(), [&](const SettingSpec& s) { return s.name == given.name; });
      if (spec == specs.end())
        fail(operation_, score_name() + ": expected " + known_names() + ", got setting '" + given.name + "'");
      if (!(given.value >= spec->low && given.value <= spec->high) ||
          (spec->integer && given.value != std::floor(given.value)))
        fail(operation_, score_name() + ": " + given.name + ": expected " +
                             (spec->integer ? "an integer" : "a number") + " from " + number(spec->low) + " to " +
                             number(spec->high) + ", got " + number(given.value));
      p_.settings[static_cast<std::size_t>(spec - specs.begin())] = given.value;
    }
    p_.uses_content = p_.mechanism->definition().uses_content(p_.object, p_.settings);
    const auto& grid = options_.score.grid;
    // Without keys no place is read, but its coordinates are computed.
    const bool none = p_.keys == 0 && (grid[0] < 1 || grid[1] < 1);
    if (p_.mechanism->grid()) p_.grid = none ? std::array<std::int64_t, 2>{1, 1} : grid;
    else if (grid[0] != 0 || grid[1] != 0)
      fail(operation_, score_name() + ": grid: expected none, as this mechanism has no grid, got " + number(grid[0]) +
                           "," + number(grid[1]));
  }

  std::string known_names() const {
    std::vector<std::string_view> names;
    for (const ParameterSpec& spec : p_.mechanism->parameters()) names.emplace_back(spec.name);
    for (const SettingSpec& spec : p_.mechanism->settings()) names.emplace_back(spec.name);
    return names.empty() ? "no parameters" : either(names);
  }

  void parameters() {
    const auto specs = p_.mechanism->parameters();
    for (std::size_t n = 0; n < options_.score.parameters.size(); ++n) {
      const std::string& name = options_.score.parameters[n].name;
      if (std::none_of(specs.begin(), specs.end(), [&](const ParameterSpec& s) { return s.name == name; }))
        fail(operation_, score_name() + ": expected " + known_names() + ", got parameter '" + name + "'");
      for (std::size_t m = 0; m < n; ++m)
        if (options_.score.parameters[m].name == name)
          fail(operation_, score_name() + ": parameter '" + name + "': expected once, got twice");
    }
    int slot = 0, table = 0;
    for (const ParameterSpec& spec : specs) {
      ParameterValue value;
      value.spec = &spec;
      value.first_slot = slot;
      slot += spec.slots();
      if (spec.role == Role::table) value.table = table++;
      const auto given = std::find_if(options_.score.parameters.begin(), options_.score.parameters.end(),
                                      [&](const NamedView& v) { return v.name == spec.name; });
      if (given != options_.score.parameters.end()) read(score_name(), spec, given->value, value);
      else if (spec.required)
        fail(operation_,
             score_name() + ": parameter '" + std::string(spec.name) + "': expected " + wanted(spec) + ", got none");
      p_.parameters.push_back(std::move(value));
    }
  }

  // The size that a dimension must have, or −1 for any.
  std::int64_t expected(int size) const {
    ParameterSizes sizes{.query_dim = p_.query_dim, .key_dim = p_.key_dim, .value_dim = p_.v[0].dim};
    if (inner_ >= 0) sizes.inner = inner_;
    sizes.grid_rows = p_.grid[0];
    sizes.grid_cols = p_.grid[1];
    return resolve(size, sizes).value_or(-1);
  }

  // "[4, 8]"; of one that all heads may share "[4, 8] or [8]".
  std::string wanted(const ParameterSpec& spec) const {
    std::string sizes;
    for (const int size : spec.sizes) {
      if (size == 0) continue;
      const std::int64_t n = expected(size);
      sizes += (sizes.empty() ? "" : ", ") + (n >= 0 ? number(n) : std::string(size == kOdd ? "an odd number" : "any"));
    }
    std::string shared = sizes.empty() ? "a single number" : "[" + sizes + "]";
    if (spec.heads == Heads::shared) return shared;
    std::string each = "[" + number(p_.heads) + (sizes.empty() ? "" : ", ") + sizes + "]";
    return spec.heads == Heads::required ? each : each + " or " + shared;
  }

  void read(const std::string& owner, const ParameterSpec& spec, const ConstView& view, ParameterValue& value) {
    const std::string name = owner + ": parameter '" + std::string(spec.name) + "'";
    if (!view.data) fail(operation_, name + ": expected " + wanted(spec) + ", got no data");
    const int rank = spec.rank();
    bool fits = true;
    std::int64_t* const sizes[2] = {&value.rows, &value.cols};
    for (int n = 0; n < rank; ++n) {
      const std::int64_t got = view.shape[static_cast<std::size_t>(4 - rank + n)];
      const int size = spec.sizes[static_cast<std::size_t>(n)];
      const std::int64_t want = expected(size);
      fits = fits && got >= 1 && (want < 0 || got == want) && (size != kOdd || got % 2 == 1);
      *sizes[n] = got;
      if (size == kInner && inner_ < 0) inner_ = got;
    }
    const std::int64_t heads = view.shape[static_cast<std::size_t>(3 - rank)];
    const bool per_head = spec.heads != Heads::shared && heads == p_.heads;
    fits = fits && (per_head || (heads == 1 && spec.heads != Heads::required));
    for (int n = 0; n < 3 - rank; ++n) fits = fits && view.shape[static_cast<std::size_t>(n)] == 1;
    if (!fits) fail(operation_, name + ": expected " + wanted(spec) + ", got shape " + to_string(view.shape));
    same_device(name, view.device);
    if (spec.role == Role::relative_output && p_.v.size() > 1)
      fail(operation_,
           name + ": expected one value set, whose rows it is added to, got " + std::to_string(p_.v.size()));
    value.given = true;
    value.per_head = heads > 1;
    value.view = view;
  }

  // Rows that meet in a score must have one length.
  void scored_rows() {
    std::int64_t q = p_.query_dim, k = p_.key_dim;
    if (const ParameterValue* map = p_.find(Role::query_map)) q = map->cols;
    if (const ParameterValue* map = p_.find(Role::key_map)) k = map->cols;
    if (p_.uses_content && q != k)
      fail(operation_, "q: expected rows of " + counted(k, "number") + " to score as the keys have, got " + number(q));
    if (const ParameterValue* w = p_.find(Role::pair_weight); w && w->rows != q)
      fail(operation_, score_name() + ": parameter '" + std::string(w->spec->name) + "': expected " +
                           counted(q, "number") + ", one for each that is scored, got " + number(w->rows));
    for (const ParameterValue& value : p_.parameters)
      if (value.given && value.spec->role == Role::relative_vector && value.cols != p_.query_dim)
        fail(operation_, score_name() + ": parameter '" + std::string(value.spec->name) + "': expected vectors of " +
                             counted(p_.query_dim, "number") + ", as the queries have, got " + number(value.cols));
    p_.inner = q;
  }

  // score/c must be a normal number wherever it counts: a c that rounds to 0 would cap nothing, a huge one everything.
  void softcap() {
    p_.softcap = options_.softcap;
    if (!(p_.softcap >= 0) || !std::isfinite(p_.softcap))
      fail(operation_, "softcap: expected a positive number, or 0 for none, got " + number(p_.softcap));
    const double least = p_.is_double ? 1e-300 : 1e-30, most = 1 / least;
    if (p_.softcap != 0 && (p_.softcap < least || p_.softcap > most))
      fail(operation_, "softcap: expected " + number(least) + " to " + number(most) +
                           (p_.is_double ? "" : " outside f64") + ", or 0 for none, got " + number(p_.softcap));
  }

  void scores() {
    p_.scale =
        options_.scale
            ? *options_.scale
            : (p_.mechanism->scaled() && p_.key_dim > 0 ? 1.0 / std::sqrt(static_cast<double>(p_.key_dim)) : 1.0);
    if (options_.scale && !p_.mechanism->definition().uses_scale)
      fail(operation_, "scale: expected none, as this formula does not read it, got " + number(*options_.scale));
    const RegistryEntry* entry = p_.mechanism->definition().entry;
    if (p_.is_part && !outer_ && entry && entry->reads_keys)
      fail(operation_, score_name() +
                           ": expected none that names keys with first_key, as a part does not know how many there "
                           "are; give their number as a parameter");
    constexpr double kMostSingle = std::numeric_limits<float>::max();
    if (!std::isfinite(p_.scale)) fail(operation_, "scale: expected a finite number, got " + number(p_.scale));
    if (!p_.is_double && std::abs(p_.scale) > kMostSingle)
      fail(operation_,
           "scale: expected at most " + number(kMostSingle) + " outside f64, either sign, got " + number(p_.scale));
    softcap();
    p_.rotary = options_.rotary;
    const Rotary& rotary = p_.rotary;
    if (rotary.dims < 0 || rotary.dims % 2 != 0 || rotary.dims > std::min(p_.query_dim, p_.key_dim))
      fail(operation_, "rotary: dims: expected an even number up to " + number(std::min(p_.query_dim, p_.key_dim)) +
                           ", the length of a row, got " + number(rotary.dims));
    if (rotary.dims > 0 && !(rotary.base > 0 && std::isfinite(rotary.base)))
      fail(operation_, "rotary: base: expected a positive number, got " + number(rotary.base));
    if (options_.bias) {
      p_.bias = make_operand(operation_, "bias", options_.bias);
      share_pairs("bias", p_.bias);
    }
  }

  void normalizer() {
    p_.normalizer = &definition_of(options_.normalizer);
    const auto specs = p_.normalizer->info.parameters;
    const std::string owner = "normalizer " + std::string(p_.normalizer->info.name);
    const auto& given = options_.normalizer_parameters;
    for (std::size_t n = 0; n < given.size(); ++n) {
      const auto same = [&](const auto& other) { return other.name == given[n].name; };
      if (std::ranges::none_of(specs, same))
        fail(operation_, owner + ": expected " + (specs.empty() ? "no parameters" : std::string(specs[0].name)) +
                             ", got parameter '" + given[n].name + "'");
      if (std::any_of(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(n), same))
        fail(operation_, owner + ": parameter '" + given[n].name + "': expected once, got twice");
    }
    int slot = 0;
    for (const ParameterSpec& spec : specs) {
      ParameterValue value;
      value.spec = &spec;
      value.first_slot = slot++;
      for (const NamedView& parameter : given)
        if (parameter.name == spec.name) read(owner, spec, parameter.value, value);
      p_.normalizer_parameters.push_back(std::move(value));
    }
  }

  void share_pairs(const std::string& name, Operand& operand) const {
    const bool fits = (operand.batches == 1 || operand.batches == p_.batch) &&
                      (operand.heads == 1 || operand.heads == p_.heads) &&
                      (operand.rows == 1 || operand.rows == p_.queries) && operand.dim == p_.keys;
    if (!fits)
      fail(operation_, name + ": expected shape [" + one_or(p_.batch) + ", " + one_or(p_.heads) + ", " +
                           one_or(p_.queries) + ", " + number(p_.keys) + "], got " +
                           to_string({operand.batches, operand.heads, operand.rows, operand.dim}));
    operand.group = operand.heads == 1 ? p_.heads : 1;
    if (operand.rows == 1) operand.row_stride = 0;
  }

  void masks() {
    p_.mask = options_.mask;
    p_.mask.dense = {};
    p_.mask.key_lengths.clear();
    if (p_.bottom_right) p_.mask.causal = Causal::top_left;
    if (options_.mask.dense) {
      const BoolView& dense = options_.mask.dense;
      p_.dense_mask =
          make_operand(operation_, "mask", {dense.data, Dtype::f32, dense.shape, dense.strides, dense.device});
      share_pairs("mask", p_.dense_mask);
    }
    const auto& qs = p_.mask.query_starts;
    const auto& ks = p_.mask.key_starts;
    if (qs.size() != ks.size())
      fail(operation_, "key_starts: expected " + std::to_string(qs.size()) + " starts, as query_starts has, got " +
                           std::to_string(ks.size()));
    starts("query_starts", qs, p_.queries);
    starts("key_starts", ks, p_.keys);
  }

  void starts(const std::string& name, const std::vector<std::int64_t>& list, std::int64_t total) const {
    if (list.empty()) return;
    const bool fits =
        list.size() >= 2 && list.front() == 0 && list.back() == total && std::is_sorted(list.begin(), list.end());
    if (fits) return;
    std::string got;
    for (std::size_t n = 0; n < list.size() && n < 8; ++n) got += (n == 0 ? "" : ",") + number(list[n]);
    fail(operation_, name + ": expected starts that never fall, from 0 to " + number(total) +
                         ", the end of the last sequence, got " + got + (list.size() > 8 ? ",…" : ""));
  }

  const char* operation_;
  const Inputs& inputs_;
  const AttendOptions& options_;
  const OuterCall* outer_;
  Problem p_;
  std::int64_t inner_ = -1;
};

// Positions are numbers in the score: outside f64 they must be exact in f32.
void check_position(const char* operation, const Problem& p, const char* name, std::int64_t first, std::int64_t count) {
  const std::int64_t most = std::int64_t{1} << (p.is_double ? 52 : 24);
  if (first < -most || first > most - count)
    fail(operation, std::string(name) + ": expected positions within ±" + number(most) +
                        (p.is_double ? "" : " outside f64") + ", got " + number(count) + " from " + number(first));
}

// Keys fill the grid unless they are part of a longer sequence; queries may stand anywhere on it.
void check_grid(const char* operation, const Problem& p) {
  if (p.keys == 0) return;
  const std::int64_t most = std::int64_t{1} << 24;
  const auto& grid = p.grid;
  const bool sized = grid[0] >= 1 && grid[1] >= 1 && grid[0] <= most && grid[1] <= most;
  const std::int64_t places = sized ? grid[0] * grid[1] : 0;
  const bool keys_fit = p.is_part ? p.first_key >= 0 && p.first_key <= places - p.keys : places == p.keys;
  const std::int64_t low = p.lowest_shift() + p.first_key, high = p.highest_shift() + p.first_key;
  const bool may_be_before = p.mask.causal != Causal::none && p.mask.query_starts.empty();  // and then see nothing
  if (sized && keys_fit && (low >= 0 || may_be_before) && high <= places - p.queries) return;
  fail(operation, "score " + std::string(p.mechanism->name()) +
                      ": grid: expected rows,cols with rows·cols equal to the " + counted(p.keys, "key") +
                      " and a position for every query, got " + number(grid[0]) + "," + number(grid[1]) + " for " +
                      counted(p.queries, "query") + " from position " + number(low));
}

// Each packed sequence has a diagonal of its own, but the mechanism counts positions through all of them.
void find_visible_offsets(Problem& p) {
  p.offsets_seen = false;
  const auto find = p.mechanism->definition().visible_offsets;
  if (!find || !p.mask.query_starts.empty() || p.is_empty() || p.keys == 0) return;
  p.first_offset = 1 - p.queries - p.highest_shift();
  p.last_offset = p.keys - 1 - p.lowest_shift();
  const TableShape shape{0, p.outer.queries, p.outer.keys, p.grid, p.settings};
  p.offsets_seen = find(p.object, shape, p.first_offset, p.last_offset);
}

}  // namespace

void set_positions(const char* operation, Problem& p, std::span<const std::int64_t> key_lengths,
                   std::span<const std::int64_t> first_query) {
  const auto check_count = [&](const char* name, std::size_t count) {
    if (count > 1 && static_cast<std::int64_t>(count) != p.batch)
      fail(operation, std::string(name) + ": expected one number" +
                          (p.batch == 1 ? "" : ", or one for each of the " + counted(p.batch, "batch")) + ", got " +
                          std::to_string(count));
  };
  check_count("key_lengths", key_lengths.size());
  check_count("first_query", first_query.size());
  for (const std::int64_t length : key_lengths)
    if (length < 0 || length > p.keys)
      fail(operation, "key_lengths: expected 0 to " + number(p.keys) + ", got " + number(length));
  if (p.bottom_right && !first_query.empty())
    fail(operation, "first_query: expected none with causal bottom_right, which says where the queries stand, got " +
                        number(first_query[0]));
  check_position(operation, p, "k", p.first_key, p.keys);
  p.mask.key_lengths.assign(key_lengths.begin(), key_lengths.end());
  p.first_query.clear();
  if (p.bottom_right) {
    for (const std::int64_t length : key_lengths) p.first_query.push_back(p.first_key + length - p.queries);
    if (key_lengths.empty()) p.first_query.push_back(p.first_key + p.keys - p.queries);
  } else {
    p.first_query.assign(first_query.begin(), first_query.end());
    if (first_query.empty()) p.first_query.push_back(0);
  }
  for (const std::int64_t first : p.first_query) check_position(operation, p, "first_query", first, p.queries);
  if (p.mechanism->grid()) check_grid(operation, p);
  find_visible_offsets(p);
  for (ParameterValue& value : p.parameters) find_relative_rows(operation, p, value);
  require_exact_choices(operation, p);
}

std::int64_t Problem::lowest_shift() const {
  return *std::min_element(first_query.begin(), first_query.end()) - first_key;
}

std::int64_t Problem::highest_shift() const {
  return *std::max_element(first_query.begin(), first_query.end()) - first_key;
}

const ParameterValue* Problem::find(Role role) const {
  for (const ParameterValue& value : parameters)
    if (value.spec->role == role && value.given) return &value;
  return nullptr;
}

bool is_operand(const ConstView& view) {
  bool empty = false, fits = view.shape[3] <= 1 || view.strides[3] == 1;
  for (std::size_t n = 0; n < 4; ++n) {
    fits = fits && view.shape[n] >= 0 && view.strides[n] >= 0;
    empty = empty || view.shape[n] == 0;
  }
  return fits && (view.data != nullptr || (empty && view.shape != Shape{}));
}

Operand make_operand(const char* operation, const char* argument, const ConstView& view) {
  if (!is_operand(view)) {
    const std::string name = argument;
    for (const std::int64_t size : view.shape)
      if (size < 0) fail(operation, name + ": expected sizes from 0, got shape " + to_string(view.shape));
    for (std::size_t n = 0; n < 4; ++n)
      if (view.strides[n] < 0) fail(operation, name + ": expected strides from 0, got " + to_string(view.strides));
    if (view.shape[3] > 1 && view.strides[3] != 1)
      fail(operation, name + ": expected a last stride of 1, rows being contiguous, got " + number(view.strides[3]));
    fail(operation, name + ": expected an array [B, H, S, D], got no data");
  }
  Operand operand;
  operand.data = const_cast<void*>(view.data);
  operand.dtype = view.dtype;
  operand.batches = view.shape[0];
  operand.heads = view.shape[1];
  operand.rows = view.shape[2];
  operand.dim = view.shape[3];
  operand.batch_stride = view.strides[0];
  operand.head_stride = view.strides[1];
  operand.row_stride = view.strides[2];
  return operand;
}

Problem make_problem(const char* operation, const Inputs& inputs, const AttendOptions& options,
                     const OuterCall* outer) {
  return Builder(operation, inputs, options, outer).build();
}

void Saved::Rows::resize(std::int64_t rows, bool as_double, const Device& where) {
  if (where != device) device_memory.reset();
  has_wide_out = false;
  of_more_keys = false;
  means.clear();
  count = rows;
  is_double = as_double;
  device = where;
  const auto size = where.kind == Device::Kind::cpu ? static_cast<std::size_t>(rows) : 0;
  max_f64.resize(as_double ? size : 0);
  sum_f64.resize(as_double ? size : 0);
  max_f32.resize(as_double ? 0 : size);
  sum_f32.resize(as_double ? 0 : size);
}

Saved::Saved() : rows_(std::make_unique<Rows>()) {}
Saved::~Saved() = default;
Saved::Saved(Saved&&) noexcept = default;
Saved& Saved::operator=(Saved&&) noexcept = default;

}  // namespace rapt::inline v1
