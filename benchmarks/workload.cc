#include "benchmarks/workload.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/engine.h"
#include "backends/host/host_parameters.h"
#include "mechanisms/call_ranges.h"
#include "mechanisms/objects.h"
#include "mechanisms/sizes.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "rapt/tiles.h"

namespace rapt::bench {
namespace {

// The values of parameters that are single numbers.
constexpr double kLeastValue = 0.05, kMostValue = 0.5;

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u) {}

  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  // The sum of four uniform numbers from one draw: close to normal, and fast enough for large arrays.
  double normal() {
    const std::uint64_t x = bits();
    const std::uint64_t sum = (x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48);
    return (static_cast<double>(sum) / 65535.0 - 2.0) * std::sqrt(3.0);
  }

 private:
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

template <class F>
void fill(Array& array, F next) {
  const auto n = static_cast<std::size_t>(array.count());
  for (std::size_t at = 0; at < n; ++at) {
    const double x = next();
    switch (array.type()) {
      case ElementType::f64: array.as<double>()[at] = x; break;
      case ElementType::bf16: array.as<BFloat16>()[at] = to_bfloat16(static_cast<float>(x)); break;
      case ElementType::f16: array.as<Float16>()[at] = to_float16(static_cast<float>(x)); break;
      default: array.as<float>()[at] = static_cast<float>(x);
    }
  }
}

Array random_array(ElementType type, const std::vector<std::int64_t>& shape, Random& random, double size = 1) {
  Array array(type, shape);
  fill(array, [&] { return random.normal() * size; });
  return array;
}

// Sizes that a formula leaves open: as many entries as it reads for any pair of the shape.
std::array<std::int64_t, 2> places_read(const Spec& spec, std::size_t parameter) {
  const MechanismDefinition& d = spec.info().definition();
  const ParameterSpec& p = spec.info().parameters()[parameter];
  const std::int64_t queries = spec.query_count(), keys = spec.sizes.keys;
  std::array<std::int64_t, 2> most{};
  if (p.role == Role::relative_value && d.index) {
    const TableShape shape{0, queries, keys, {}, {}};
    for (std::int64_t offset = 1 - queries; offset < keys; ++offset)
      most[0] = std::max(most[0], d.index(spec.formula->object.get(), parameter, offset, shape) + 1);
  } else if (p.role == Role::table && d.entry && d.entry->table_reads) {
    CallRanges call;
    call.query = {0, queries - 1};
    call.key = {0, keys - 1};
    call.grid = grid_of(keys);
    call.batch = {0, spec.sizes.batch - 1};
    call.head = {0, spec.sizes.heads - 1};
    call.queries = queries;
    call.keys = keys;
    call.value = [](int) { return NumberRange{kLeastValue, kMostValue, false}; };
    call.table = [](int) { return std::optional<NumberRange>(); };
    call.table_size = [](int) { return std::array<std::int64_t, 2>{}; };
    int table = 0;
    for (std::size_t n = 0; n < parameter; ++n) table += spec.info().parameters()[n].role == Role::table ? 1 : 0;
    const std::array<NumberRange, 2> reads = d.entry->table_reads(spec.formula->object.get(), call, table);
    // If nothing bounds an index, the usual size has to do.
    for (std::size_t n = 0; n < 2; ++n)
      if (reads[n].high < 1e15) most[n] = static_cast<std::int64_t>(reads[n].high) + 1;
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 26;
  const std::int64_t rows = std::max<std::int64_t>(most[0], 1), cols = std::max<std::int64_t>(most[1], 1);
  if (rows > kMost || cols > kMost || rows * cols > kMost)
    throw Error("bench: parameter '" + std::string(p.name) + "': expected a table of at most " + std::to_string(kMost) +
                " numbers, got indices up to " + std::to_string(rows - 1) +
                (p.rank() == 2 ? " and " + std::to_string(cols - 1) : "") + " over the shape");
  return most;
}

// Sizes that the specification leaves open are those of the papers.
std::int64_t size_of_parameter(int size, const Spec& spec, Role role) {
  const std::int64_t dim = spec.sizes.dim;
  ParameterSizes sizes{.query_dim = dim, .key_dim = dim, .value_dim = dim, .inner = dim};
  sizes.positions = spec.query_count() + spec.sizes.keys - 1;
  const std::array<std::int64_t, 2> grid = grid_of(spec.sizes.keys);
  sizes.grid_rows = grid[0];
  sizes.grid_cols = grid[1];
  sizes.any = role == Role::relative_value ? 32 : 64;
  if (role == Role::table) sizes.any = spec.query_count() + spec.sizes.keys;  // whatever place a formula reads
  sizes.odd = 129;
  return resolve(size, sizes).value_or(1);
}

}  // namespace

const char* name_of(Direction direction) { return direction == Direction::forward ? "forward" : "backward"; }

std::array<std::int64_t, 2> grid_of(std::int64_t positions) {
  auto cols = static_cast<std::int64_t>(std::sqrt(static_cast<double>(positions)));
  while (cols > 1 && positions % cols != 0) --cols;
  return {positions / std::max<std::int64_t>(cols, 1), std::max<std::int64_t>(cols, 1)};
}

const MechanismInfo& Spec::info() const { return formula ? *formula->mechanism : rapt::mechanism(mechanism); }

std::optional<Window> Spec::formula_window() const {
  if (!formula || !info().definition().visible_offsets) return std::nullopt;
  std::int64_t first = 1 - query_count(), last = sizes.keys - 1;
  const TableShape shape{0, query_count(), sizes.keys, {}, {}};
  if (!info().definition().visible_offsets(formula->object.get(), shape, first, last)) return std::nullopt;
  // A window's ends are not negative.
  if (first > 0 || last < 0) return std::nullopt;
  return Window{-first, last};
}

double Spec::visible_pairs() const {
  if (const std::optional<Window> own = formula_window(); own && !window) {
    Spec same = *this;
    same.formula.reset();
    same.window = own;
    return same.visible_pairs();
  }
  const std::int64_t keys = sizes.keys;
  const std::int64_t shift = causal == Causal::bottom_right ? keys - query_count() : 0;
  double rows = 0;
  for (std::int64_t i = 0; i < query_count(); ++i) {
    std::int64_t begin = 0, end = keys;
    if (causal != Causal::none) end = std::min(end, i + shift + 1);
    if (window && window->left >= 0) begin = std::max(begin, i + shift - window->left);
    if (window && window->right >= 0) end = std::min(end, i + shift + window->right + 1);
    rows += static_cast<double>(std::max<std::int64_t>(end - begin, 0));
  }
  return rows * static_cast<double>(sizes.batch * sizes.heads);
}

Workload::Workload(const Spec& what, int thread_count) : spec(what), threads(thread_count) {
  Random random(3 * spec.seed - 2);
  const auto [batch, heads, keys, dim] = spec.sizes;
  const ElementType type = element_type(spec.dtype);
  const std::int64_t queries = spec.query_count();
  q = random_array(type, {batch, heads, queries, dim}, random);
  k = random_array(type, {batch, spec.key_head_count(), keys, dim}, random);
  for (int n = 0; n < spec.value_sets; ++n) {
    v.push_back(random_array(type, {batch, spec.key_head_count(), keys, dim}, random));
    out.emplace_back(type, std::vector{batch, heads, queries, dim});
  }
  if (spec.bias) bias = random_array(number_type(), {1, heads, queries, keys}, random);
  if (spec.extra == Extra::weights) weights = Array(number_type(), {1, 1, queries, keys});
  if (spec.extra == Extra::statistics) {
    entropy = Array(number_type(), {batch, heads, queries});
    position = Array(number_type(), {batch, heads, queries});
    argmax.resize(static_cast<std::size_t>(batch * heads * queries));
  }
  add_parameters();
}

ElementType Workload::number_type() const { return spec.dtype == Dtype::f64 ? ElementType::f64 : ElementType::f32; }

void Workload::add_parameters() {
  Random random(3 * spec.seed - 1);
  for (const ParameterSpec& p : spec.info().parameters()) {
    if (p.role == Role::relative_output && !p.required) continue;
    if ((p.role == Role::query_map || p.role == Role::key_map) && !p.required && !spec.maps) continue;
    std::vector<std::int64_t> shape;
    if (p.heads != Heads::shared) shape.push_back(spec.sizes.heads);
    std::array<std::int64_t, 2> read{};
    if (spec.formula) read = places_read(spec, static_cast<std::size_t>(&p - spec.info().parameters().data()));
    for (std::size_t n = 0; n < 2; ++n)
      if (p.sizes[n] != 0)
        shape.push_back(std::max(size_of_parameter(p.sizes[n], spec, p.role), p.sizes[n] == kAny ? read[n] : 0));
    if (shape.empty()) shape.push_back(1);
    Parameter parameter{std::string(p.name), {}, {}};
    if (p.role == Role::value) {
      // Small and positive: temperatures, slopes and widths under which many keys keep some weight.
      parameter.value = Array(number_type(), shape);
      std::int64_t at = 0;
      const bool matrix = p.sizes[0] == 2 && p.sizes[1] == 2;
      fill(parameter.value, [&] {
        const std::int64_t place = at++ % 4;
        const double x = kLeastValue + (kMostValue - kLeastValue) * random.uniform();
        return matrix && spec.axis_aligned && (place == 1 || place == 2) ? 0.0 : x;
      });
    } else {
      const bool map = p.role == Role::query_map || p.role == Role::key_map;
      const double size = map ? 1 / std::sqrt(static_cast<double>(spec.sizes.dim)) : 0.3;
      parameter.value = random_array(number_type(), shape, random, size);
    }
    parameters.push_back(std::move(parameter));
  }
}

Workload Workload::in_double() const {
  Workload twin = Workload(
      [&] {
        Spec tiny = spec;
        tiny.sizes = {1, 1, 1, 1};
        tiny.queries = 1;
        tiny.key_heads = 0;
        return tiny;
      }(),
      threads);
  twin.spec = spec;
  twin.spec.dtype = Dtype::f64;
  const auto copy = [](const Array& array) { return array ? array.to(ElementType::f64) : Array(); };
  twin.q = copy(q);
  twin.k = copy(k);
  twin.bias = copy(bias);
  twin.weights = copy(weights);
  twin.entropy = copy(entropy);
  twin.position = copy(position);
  twin.argmax = argmax;
  for (std::size_t n = 0; n < v.size(); ++n) {
    twin.v[n] = copy(v[n]);
    twin.out[n] = copy(out[n]);
  }
  twin.grad_out.clear();
  for (const Array& array : grad_out) twin.grad_out.push_back(copy(array));
  twin.parameters.clear();
  for (const Parameter& p : parameters) twin.parameters.push_back({p.name, copy(p.value), {}});
  return twin;
}

Inputs Workload::inputs() const {
  Inputs views{q.view(), k.view(), {}};
  for (const Array& array : v) views.v.push_back(array.view());
  return views;
}

AttendOptions Workload::options(Path path) const {
  AttendOptions options;
  if (spec.formula) options.score = *spec.formula;
  else options.score.mechanism = &rapt::mechanism(spec.mechanism);
  for (const Parameter& p : parameters) options.score.parameters.push_back({p.name, p.value.view()});
  if (options.score.mechanism->grid()) options.score.grid = grid_of(spec.sizes.keys);
  options.softcap = spec.softcap;
  if (bias) options.bias = bias.view();
  options.mask.causal = spec.causal;
  options.mask.window = spec.window;
  if (spec.key_length > 0) options.mask.key_lengths = {std::min(spec.key_length, spec.sizes.keys)};
  for (std::int64_t n = 0; spec.packed > 0 && n < spec.sizes.keys + spec.packed; n += spec.packed)
    options.mask.query_starts.push_back(std::min(n, spec.sizes.keys));
  options.mask.key_starts = options.mask.query_starts;
  options.normalizer = spec.normalizer;
  options.threads = threads;
  options.path = path;
  return options;
}

Outputs Workload::outputs() {
  Outputs wanted;
  for (Array& array : out) wanted.out.push_back(array.view());
  if (lse) wanted.lse = lse.view();
  if (weights) wanted.weights.push_back({0, 0, 0, spec.query_count(), weights.view()});
  if (entropy) {
    wanted.statistics.entropy = entropy.view();
    wanted.statistics.position = position.view();
    wanted.statistics.argmax = argmax.data();
  }
  return wanted;
}

void Workload::forward(Path path) { attend(inputs(), outputs(), options(path)); }

void Workload::make_gradients() {
  if (grad_out.empty()) {
    Random random(3 * spec.seed);
    for (const Array& array : out) grad_out.push_back(random_array(array.type(), array.shape(), random));
  }
  if (!dq) {
    dq = Array(q.type(), q.shape());
    dk = Array(k.type(), k.shape());
    for (const Array& array : v) dv.emplace_back(array.type(), array.shape());
    if (bias) dbias = Array(bias.type(), bias.shape());
    for (Parameter& p : parameters) p.grad = Array(p.value.type(), p.value.shape());
  }
}

void Workload::prepare_backward(Path path) {
  make_gradients();
  Outputs wanted = outputs();
  // The factorised passes keep no row sums; asking for them would choose the other path.
  has_saved_ = path != Path::reference && !(path == Path::automatic && factorizes());
  if (has_saved_) wanted.saved = &saved_;
  attend(inputs(), wanted, options(path));
}

Gradients Workload::gradients() {
  Gradients wanted;
  wanted.q = dq.view();
  wanted.k = dk.view();
  for (Array& array : dv) wanted.v.push_back(array.view());
  if (bias) wanted.bias = dbias.view();
  for (Parameter& p : parameters) wanted.parameters.push_back({p.name, p.grad.view()});
  return wanted;
}

void Workload::backward(Path path) {
  std::vector<ConstView> results, grads;
  for (const Array& array : out) results.push_back(array.view());
  for (const Array& array : grad_out) grads.push_back(array.view());
  attend_backward(inputs(), results, grads, has_saved_ ? &saved_ : nullptr, gradients(), options(path));
}

bool Workload::uses_content() const { return make_problem("bench", inputs(), options(spec.path)).uses_content; }

bool Workload::factorizes() const {
  Problem problem = make_problem("bench", inputs(), options(spec.path));
  read_host_parameters(problem);
  return can_factorize(problem);
}

std::size_t Workload::bytes() const {
  std::size_t total = 0;
  for (const Array* array : {&q, &k, &bias, &lse, &weights, &entropy, &position, &dq, &dk, &dbias})
    total += array->bytes();
  for (const auto* list : {&v, &out, &grad_out, &dv})
    for (const Array& array : *list) total += array.bytes();
  for (const Parameter& p : parameters) total += p.value.bytes() + p.grad.bytes();
  return total + argmax.size() * sizeof(argmax[0]);
}

double Workload::flops(Direction direction) const {
  const double content = uses_content() ? 1 : 0;
  // Under argmax values are copied, not multiplied.
  const double values = spec.normalizer == Normalizer::argmax ? 0 : spec.value_sets;
  const double products = direction == Direction::forward ? content + values : 3 * content + 2 * values;
  return 2 * products * spec.visible_pairs() * static_cast<double>(spec.sizes.dim);
}

std::vector<Workload::Named> Workload::results(Direction direction) const {
  std::vector<Named> list;
  const auto add = [&](const std::string& name, const Array& array) {
    if (array) list.push_back({name, &array});
  };
  if (direction == Direction::forward) {
    for (const Array& array : out) add("out", array);
    add("weights", weights);
    add("entropy", entropy);
    add("position", position);
    return list;
  }
  add("dq", dq);
  add("dk", dk);
  for (const Array& array : dv) add("dv", array);
  add("dbias", dbias);
  for (const Parameter& p : parameters) add("d_" + p.name, p.grad);
  return list;
}

}  // namespace rapt::bench
