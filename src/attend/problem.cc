#include "attend/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "attend/storage.h"
#include "mechanisms/objects.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "rapt/threads.h"

namespace rapt {
namespace {

[[noreturn]] void fail(const std::string& operation, const std::string& what) { throw Error(operation + ": " + what); }

std::string number(std::int64_t n) { return std::to_string(n); }

// What one call is checked with: the operation's name goes into every message.
class Builder {
 public:
  Builder(const char* operation, const Inputs& inputs, const AttendOptions& options)
      : operation_(operation), inputs_(inputs), options_(options) {}

  Problem build() {
    operands();
    mechanism();
    settings();
    parameters();
    scored_rows();
    scores();
    masks();
    return std::move(p_);
  }

 private:
  void operands() {
    p_.q = make_operand(operation_, "q", inputs_.q);
    p_.k = make_operand(operation_, "k", inputs_.k);
    if (inputs_.v.empty()) fail(operation_, "v: got no value set, takes at least one");
    for (std::size_t n = 0; n < inputs_.v.size(); ++n)
      p_.v.push_back(make_operand(operation_, value_name(n).c_str(), inputs_.v[n]));
    p_.batch = std::max(p_.q.batches, p_.k.batches);
    std::int64_t most_heads = std::max(p_.q.heads, p_.k.heads);
    p_.is_double = p_.q.dtype == Dtype::f64 || p_.k.dtype == Dtype::f64;
    for (const Operand& v : p_.v) {
      p_.batch = std::max(p_.batch, v.batches);
      most_heads = std::max(most_heads, v.heads);
      p_.is_double = p_.is_double || v.dtype == Dtype::f64;
    }
    p_.heads = p_.q.heads == 1 ? most_heads : p_.q.heads;
    p_.queries = p_.q.rows;
    p_.keys = p_.k.rows;
    p_.query_dim = p_.q.dim;
    p_.key_dim = p_.k.dim;
    share("q", p_.q);
    share("k", p_.k);
    for (std::size_t n = 0; n < p_.v.size(); ++n) {
      share(value_name(n), p_.v[n]);
      if (p_.v[n].rows != p_.keys)
        fail(operation_,
             value_name(n) + ": got " + number(p_.v[n].rows) + " rows, takes " + number(p_.keys) + ", as k has");
    }
    if (!p_.is_double && p_.keys > (std::int64_t{1} << 24))
      fail(operation_, "k: got " + number(p_.keys) + " keys, takes at most 16777216 outside f64");
  }

  static std::string value_name(std::size_t n) { return n == 0 ? "v" : "v[" + std::to_string(n) + "]"; }

  void share(const std::string& name, Operand& operand) const {
    if (operand.batches != 1 && operand.batches != p_.batch)
      fail(operation_, name + ": got batch " + number(operand.batches) + ", takes 1 or " + number(p_.batch));
    if (p_.heads % operand.heads != 0)
      fail(operation_,
           name + ": got " + number(operand.heads) + " heads, takes a divisor of the queries' " + number(p_.heads));
    operand.group = p_.heads / operand.heads;
  }

  void mechanism() {
    p_.mechanism = options_.score.mechanism ? options_.score.mechanism : &rapt::mechanism("scaled_dot");
    p_.keep_object = options_.score.object;
    p_.object = p_.keep_object ? p_.keep_object.get() : default_object(*p_.mechanism);
    if (!p_.object)
      fail(operation_, "score: the mechanism '" + std::string(p_.mechanism->name()) +
                           "' came without its hooks; make it with rapt::custom");
  }

  std::string score_name() const { return "score " + std::string(p_.mechanism->name()); }

  void settings() {
    const auto specs = p_.mechanism->settings();
    for (const SettingSpec& spec : specs) p_.settings.push_back(spec.value);
    for (const NamedNumber& given : options_.score.settings) {
      const auto spec =
          std::find_if(specs.begin(), specs.end(), [&](const SettingSpec& s) { return s.name == given.name; });
      if (spec == specs.end())
        fail(operation_, score_name() + ": unknown setting '" + given.name + "'" + known_names());
      if (!(given.value >= spec->low && given.value <= spec->high) ||
          (spec->integer && given.value != std::floor(given.value)))
        fail(operation_, score_name() + ": " + given.name + ": got " + std::to_string(given.value) + ", takes " +
                             (spec->integer ? "a whole number" : "a number") + " from " + std::to_string(spec->low) +
                             " to " + std::to_string(spec->high));
      p_.settings[static_cast<std::size_t>(spec - specs.begin())] = given.value;
    }
    p_.uses_content = p_.mechanism->definition().uses_content(p_.object, p_.settings);
    const auto& grid = options_.score.grid;
    if (p_.mechanism->grid()) {
      if (grid[0] < 1 || grid[1] < 1 || grid[1] > p_.keys || grid[0] > p_.keys || grid[0] * grid[1] != p_.keys ||
          p_.queries != p_.keys)
        fail(operation_, score_name() + ": grid: got " + number(grid[0]) + "," + number(grid[1]) + " for " +
                             number(p_.queries) + " queries and " + number(p_.keys) +
                             " keys, takes rows,cols with rows·cols equal to both");
      p_.grid = grid;
    } else if (grid[0] != 0 || grid[1] != 0) {
      fail(operation_, score_name() + ": grid: got " + number(grid[0]) + "," + number(grid[1]) +
                           ", takes none: this mechanism has no grid");
    }
  }

  std::string known_names() const {
    std::string names;
    for (const ParameterSpec& spec : p_.mechanism->parameters())
      names += std::string(names.empty() ? "" : ", ") + std::string(spec.name);
    for (const SettingSpec& spec : p_.mechanism->settings())
      names += std::string(names.empty() ? "" : ", ") + std::string(spec.name);
    return names.empty() ? "; it takes none" : "; it takes " + names;
  }

  void parameters() {
    const auto specs = p_.mechanism->parameters();
    for (std::size_t n = 0; n < options_.score.parameters.size(); ++n) {
      const std::string& name = options_.score.parameters[n].name;
      if (std::none_of(specs.begin(), specs.end(), [&](const ParameterSpec& s) { return s.name == name; }))
        fail(operation_, score_name() + ": unknown parameter '" + name + "'" + known_names());
      for (std::size_t m = 0; m < n; ++m)
        if (options_.score.parameters[m].name == name)
          fail(operation_, score_name() + ": parameter '" + name + "' is given twice");
    }
    int slot = 0;
    for (const ParameterSpec& spec : specs) {
      ParameterValue value;
      value.spec = &spec;
      value.first_slot = slot;
      slot += spec.slots();
      const auto given = std::find_if(options_.score.parameters.begin(), options_.score.parameters.end(),
                                      [&](const NamedView& v) { return v.name == spec.name; });
      if (given != options_.score.parameters.end()) read(spec, given->value, value);
      else if (spec.required)
        fail(operation_,
             score_name() + ": parameter '" + std::string(spec.name) + "' is missing; it takes " + wanted(spec));
      p_.parameters.push_back(std::move(value));
    }
  }

  // The size a dimension must have, or −1 where any will do.
  std::int64_t expected(int size) const {
    switch (size) {
      case kQueryDim: return p_.query_dim;
      case kKeyDim: return p_.key_dim;
      case kInner: return inner_;
      case kPositions: return p_.queries + p_.keys - 1;
      case kGridRows: return 2 * p_.grid[0] - 1;
      case kGridCols: return 2 * p_.grid[1] - 1;
      default: return size > 0 ? size : -1;
    }
  }

  std::string wanted(const ParameterSpec& spec) const {
    std::string text = spec.heads == Heads::shared
                           ? ""
                           : (spec.heads == Heads::required ? number(p_.heads) : number(p_.heads) + " or none");
    for (const int size : spec.sizes) {
      if (size == 0) continue;
      const std::int64_t n = expected(size);
      text += (text.empty() ? "" : ", ") + (n >= 0 ? number(n) : std::string(size == kOdd ? "an odd number" : "any"));
    }
    return text.empty() ? "a single number" : "[" + text + "]";
  }

  void read(const ParameterSpec& spec, const ConstView& view, ParameterValue& value) {
    const std::string name = score_name() + ": parameter '" + std::string(spec.name) + "'";
    if (!view.data) fail(operation_, name + ": got no data, takes " + wanted(spec));
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
    fits = fits && (heads == 1 || (spec.heads != Heads::shared && heads == p_.heads));
    for (int n = 0; n < 3 - rank; ++n) fits = fits && view.shape[static_cast<std::size_t>(n)] == 1;
    if (!fits) fail(operation_, name + ": got shape " + to_string(view.shape) + ", takes " + wanted(spec));
    value.given = true;
    value.per_head = heads > 1;
    if (p_.is_double) take<double>(view, value);
    else take<float>(view, value);
  }

  template <class T>
  static void take(const ConstView& view, ParameterValue& value) {
    const std::int64_t count = element_count(view.shape);
    bool contiguous = view.dtype == dtype_of<T>();
    const Shape strides = contiguous_strides(view.shape);
    for (std::size_t n = 0; n < 4; ++n)
      contiguous = contiguous && (view.shape[n] == 1 || view.strides[n] == strides[n]);
    if (contiguous) {
      value.data = view.data;
      return;
    }
    auto storage = std::make_shared<std::vector<T>>(static_cast<std::size_t>(count));
    std::size_t n = 0;
    for (std::int64_t a = 0; a < view.shape[0]; ++a)
      for (std::int64_t b = 0; b < view.shape[1]; ++b)
        for (std::int64_t c = 0; c < view.shape[2]; ++c)
          for (std::int64_t d = 0; d < view.shape[3]; ++d) {
            const std::int64_t at =
                a * view.strides[0] + b * view.strides[1] + c * view.strides[2] + d * view.strides[3];
            load_row<T>({const_cast<void*>(view.data), view.dtype, 1}, at, 1, storage->data() + n++);
          }
    value.data = storage->data();
    value.storage = std::shared_ptr<void>(storage, storage->data());
  }

  // The rows that meet in a score must have one length.
  void scored_rows() {
    std::int64_t q = p_.query_dim, k = p_.key_dim;
    if (const ParameterValue* map = p_.find(Role::query_map)) q = map->cols;
    if (const ParameterValue* map = p_.find(Role::key_map)) k = map->cols;
    if (p_.uses_content && q != k)
      fail(operation_, "q: got rows of " + number(q) + " numbers to score, takes " + number(k) + ", as the keys have");
    if (const ParameterValue* w = p_.find(Role::pair_weight); w && w->rows != q)
      fail(operation_, score_name() + ": parameter '" + std::string(w->spec->name) + "': got " + number(w->rows) +
                           " numbers, takes " + number(q) + ", one for each that is scored");
    for (const ParameterValue& value : p_.parameters)
      if (value.given && value.spec->role == Role::relative_vector && value.cols != p_.query_dim)
        fail(operation_, score_name() + ": parameter '" + std::string(value.spec->name) + "': got vectors of " +
                             number(value.cols) + " numbers, takes " + number(p_.query_dim) + ", as the queries have");
    p_.inner = q;
  }

  void scores() {
    p_.scale = options_.scale ? *options_.scale
                              : (p_.mechanism->scaled() ? 1.0 / std::sqrt(static_cast<double>(p_.key_dim)) : 1.0);
    if (!std::isfinite(p_.scale))
      fail(operation_, "scale: got " + std::to_string(p_.scale) + ", takes a finite number");
    if (!(options_.softcap >= 0) || !std::isfinite(options_.softcap))
      fail(operation_, "softcap: got " + std::to_string(options_.softcap) + ", takes a positive number, or 0 for none");
    p_.softcap = options_.softcap;
    p_.normalizer = options_.normalizer;
    p_.path = options_.path;
    p_.divide_keys = options_.divide_keys;
    if (options_.threads < 0)
      fail(operation_, "threads: got " + number(options_.threads) + ", takes 1 or more, or 0 for the default");
    p_.threads = options_.threads == 0 ? default_threads() : options_.threads;
    if (options_.bias) {
      p_.bias = make_operand(operation_, "bias", options_.bias);
      share_pairs("bias", p_.bias);
    }
  }

  void share_pairs(const std::string& name, Operand& operand) const {
    const bool fits = (operand.batches == 1 || operand.batches == p_.batch) &&
                      (operand.heads == 1 || operand.heads == p_.heads) &&
                      (operand.rows == 1 || operand.rows == p_.queries) && operand.dim == p_.keys;
    if (!fits)
      fail(operation_, name + ": got shape " + to_string({operand.batches, operand.heads, operand.rows, operand.dim}) +
                           ", takes [1 or " + number(p_.batch) + ", 1 or " + number(p_.heads) + ", 1 or " +
                           number(p_.queries) + ", " + number(p_.keys) + "]");
    operand.group = operand.heads == 1 ? p_.heads : 1;
    if (operand.rows == 1) operand.row_stride = 0;
  }

  void masks() {
    p_.mask = options_.mask;
    p_.mask.dense = {};
    if (options_.mask.dense) {
      const BoolView& dense = options_.mask.dense;
      p_.dense_mask = make_operand(operation_, "mask", {dense.data, Dtype::f32, dense.shape, dense.strides});
      share_pairs("mask", p_.dense_mask);
    }
    const auto& lengths = p_.mask.key_lengths;
    if (!lengths.empty() && lengths.size() != 1 && static_cast<std::int64_t>(lengths.size()) != p_.batch)
      fail(operation_, "key_lengths: got " + std::to_string(lengths.size()) + " lengths, takes one for each of the " +
                           number(p_.batch) + " batches");
    for (const std::int64_t length : lengths)
      if (length < 0 || length > p_.keys)
        fail(operation_, "key_lengths: got " + number(length) + ", takes 0 to " + number(p_.keys));
    const auto& qs = p_.mask.query_starts;
    const auto& ks = p_.mask.key_starts;
    if (qs.size() != ks.size())
      fail(operation_, "key_starts: got " + std::to_string(ks.size()) +
                           " starts, takes as many as query_starts has: " + std::to_string(qs.size()));
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
    fail(operation_, name + ": got " + got + (list.size() > 8 ? ",…" : "") +
                         ", takes starts that never fall, from 0 to " + number(total) +
                         ", the end of the last sequence");
  }

  const char* operation_;
  const Inputs& inputs_;
  const AttendOptions& options_;
  Problem p_;
  std::int64_t inner_ = -1;
};

}  // namespace

const ParameterValue* Problem::find(Role role) const {
  for (const ParameterValue& value : parameters)
    if (value.spec->role == role && value.given) return &value;
  return nullptr;
}

Operand make_operand(const char* operation, const char* argument, const ConstView& view) {
  const std::string name = argument;
  if (!view.data) fail(operation, name + ": got no data, takes an array [B, H, S, D]");
  for (const std::int64_t size : view.shape)
    if (size < 1) fail(operation, name + ": got shape " + to_string(view.shape) + ", takes sizes from 1");
  for (std::size_t n = 0; n < 4; ++n)
    if (view.strides[n] < 0)
      fail(operation, name + ": got strides " + to_string(view.strides) + ", takes none below 0");
  if (view.shape[3] > 1 && view.strides[3] != 1)
    fail(operation, name + ": got a last stride of " + number(view.strides[3]) + ", takes 1: rows must be contiguous");
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

Problem make_problem(const char* operation, const Inputs& inputs, const AttendOptions& options) {
  return Builder(operation, inputs, options).build();
}

void Saved::Rows::resize(std::int64_t rows, bool as_double) {
  count = rows;
  is_double = as_double;
  const auto size = static_cast<std::size_t>(rows);
  max_f64.resize(as_double ? size : 0);
  sum_f64.resize(as_double ? size : 0);
  max_f32.resize(as_double ? 0 : size);
  sum_f32.resize(as_double ? 0 : size);
}

Saved::Saved() : rows_(std::make_unique<Rows>()) {}
Saved::~Saved() = default;
Saved::Saved(Saved&&) noexcept = default;
Saved& Saved::operator=(Saved&&) noexcept = default;

}  // namespace rapt
