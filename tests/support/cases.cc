#include "support/cases.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "oracle/positions.h"
#include "support/storage.h"

namespace support {
namespace {

using oracle::Array;
using oracle::Sizes;

bool has_role(const rapt::MechanismInfo& info, rapt::Role role, bool optional_parameters) {
  for (const rapt::ParameterSpec& p : info.parameters())
    if (p.role == role && (p.required || optional_parameters)) return true;
  return false;
}

// A table whose rows are distances: as many as reach from every query to every key, and which of them is distance 0.
struct Reach {
  Int rows = 0;
  Int origin = -1;  // −1: rows − Sk

  Reach() = default;
  Reach(const oracle::Problem& p, Settings settings) {
    Int lowest = oracle::first_query(p, 0), highest = lowest;
    for (Int b = 1; b < p.batch(); ++b) {
      lowest = std::min(lowest, oracle::first_query(p, b));
      highest = std::max(highest, oracle::first_query(p, b));
    }
    const Int before = std::max<Int>(highest + p.queries() - 1, 0);
    const Int after = p.keys() - 1 - std::min<Int>(lowest, 0);
    rows = before + after + 1;
    if (settings == Settings::defaults && lowest >= 0) return;
    // Rows that are not read on both sides.
    origin = before + 2;
    rows += 3;
  }
};

// Sizes that the specification leaves open are chosen odd, or even where a table is halved.
Int resolve(int size, const CaseSpec& spec, Int query_dim, Int inner, const std::array<Int, 2>& grid, rapt::Role role,
            const Reach& reach) {
  switch (size) {
    case 0: return 1;
    case rapt::kAny:
      if (role == rapt::Role::relative_vector) return 7;
      return role == rapt::Role::relative_value ? 8 : 5;
    case rapt::kOdd: return role == rapt::Role::relative_output ? 5 : 7;
    case rapt::kValueDim: return spec.value_dims[0];
    case rapt::kQueryDim: return query_dim;
    case rapt::kKeyDim: return spec.key_dim;
    case rapt::kInner: return inner;
    case rapt::kPositions: return reach.rows;
    case rapt::kGridRows: return 2 * grid[0] - 1;
    case rapt::kGridCols: return 2 * grid[1] - 1;
    default: return size;
  }
}

Array random_parameter(const rapt::ParameterSpec& p, const Sizes& shape, Random& random, rapt::Dtype dtype) {
  switch (p.role) {
    case rapt::Role::value: {
      // Positive and away from 0: temperatures, slopes and widths all take such numbers.
      Array x(shape);
      for (double& e : x.data) e = round_to(dtype, random.uniform(0.3, 1.2));
      return x;
    }
    case rapt::Role::query_map:
    case rapt::Role::key_map: return random_array(shape, random, dtype, 1 / std::sqrt(double(shape[2])));
    case rapt::Role::pair_weight: return random_array(shape, random, dtype, 1);
    default: return random_array(shape, random, dtype, 0.5);
  }
}

void add_parameters(Case& c, Random& random) {
  const CaseSpec& spec = c.spec;
  const rapt::MechanismInfo& info = *c.mechanism;
  // Without a matrix on either side the scored rows are the inputs themselves.
  const bool both_mapped = has_role(info, rapt::Role::query_map, spec.optional_parameters) &&
                           has_role(info, rapt::Role::key_map, spec.optional_parameters);
  const Int inner = both_mapped ? 5 : spec.key_dim;
  const Reach reach(c.problem, spec.settings);
  for (const rapt::ParameterSpec& p : info.parameters()) {
    if (!p.required && !spec.optional_parameters) continue;
    // Rows of such a table are added to the values, of which there must be one set.
    if (p.role == rapt::Role::relative_output && spec.value_dims.size() > 1) continue;
    const bool per_head = p.heads == rapt::Heads::required || (p.heads == rapt::Heads::optional && spec.per_head);
    const Int query_dim = c.problem.q.shape[3];
    const Int first = resolve(p.sizes[0], spec, query_dim, inner, c.problem.grid, p.role, reach);
    const Int second = resolve(p.sizes[1], spec, query_dim, inner, c.problem.grid, p.role, reach);
    const Sizes shape = p.rank() == 2 ? Sizes{1, per_head ? spec.heads : 1, first, second}
                                      : Sizes{1, per_head ? spec.heads : 1, 1, first};
    c.problem.parameters[std::string(p.name)] = random_parameter(p, shape, random, spec.dtype);
  }
  for (const rapt::SettingSpec& s : info.settings()) {
    const std::string name(s.name);
    if (name == "origin") {
      if (reach.origin >= 0) c.problem.settings[name] = double(reach.origin);
      continue;
    }
    if (spec.settings == Settings::defaults) continue;
    // A range without a useful end (a distance up to 1e9) is limited to what the tests' sizes reach.
    const double value = s.high > 1000 ? 20 : (spec.settings == Settings::high ? s.high : s.low);
    if (value >= s.low && value <= s.high) c.problem.settings[name] = value;
  }
}

Array dense_mask(const CaseSpec& spec, bool shared, Random& random) {
  Array mask(shared ? Sizes{1, 1, 1, spec.keys} : Sizes{spec.batch, spec.heads, spec.queries, spec.keys});
  for (double& e : mask.data) e = random.uniform(0, 1) < 0.6;
  if (!shared) {
    // Some rows that see nothing.
    for (Int i = 0; i < spec.queries; i += 5)
      for (Int j = 0; j < spec.keys; ++j) mask.at(0, spec.heads - 1, i, j) = 0;
  }
  return mask;
}

// Sequences of unequal length: 1, then about a third, then the rest; one of them empty.
std::vector<Int> starts(Int total) {
  const Int third = std::min(total, 1 + total / 3);
  return {0, std::min<Int>(1, total), std::min<Int>(1, total), third, total};
}

oracle::Mask default_mask(const CaseSpec& spec, Random& random) {
  oracle::Mask m;
  const auto lengths = [&] {
    for (Int b = 0; b < spec.batch; ++b) m.key_lengths.push_back(b == 1 ? 0 : 1 + random.below(spec.keys));
  };
  switch (spec.mask) {
    case MaskKind::none: break;
    case MaskKind::top_left: m.causal = oracle::Causal::top_left; break;
    case MaskKind::bottom_right: m.causal = oracle::Causal::bottom_right; break;
    case MaskKind::window: m.window = oracle::Window{3, 2}; break;
    case MaskKind::window_left: m.window = oracle::Window{4, -1}; break;
    case MaskKind::window_bottom_right:
      m.causal = oracle::Causal::bottom_right;
      m.window = oracle::Window{4, 0};
      break;
    case MaskKind::key_lengths: lengths(); break;
    case MaskKind::packed_top_left:
    case MaskKind::packed_bottom_right:
      m.causal = spec.mask == MaskKind::packed_top_left ? oracle::Causal::top_left : oracle::Causal::bottom_right;
      [[fallthrough]];
    case MaskKind::packed:
      m.query_starts = starts(spec.queries);
      m.key_starts = starts(spec.keys);
      break;
    case MaskKind::dense: m.dense = dense_mask(spec, false, random); break;
    case MaskKind::dense_shared: m.dense = dense_mask(spec, true, random); break;
    case MaskKind::everything:
      m.causal = oracle::Causal::bottom_right;
      m.window = oracle::Window{6, 1};
      lengths();
      m.dense = dense_mask(spec, false, random);
      break;
  }
  return m;
}

oracle::Normalizer oracle_normalizer(NormalizerKind kind) {
  switch (kind) {
    case NormalizerKind::softmax:
    case NormalizerKind::softmax_sink: return oracle::Normalizer::softmax;
    case NormalizerKind::argmax: return oracle::Normalizer::argmax;
    case NormalizerKind::sparsemax: return oracle::Normalizer::sparsemax;
    case NormalizerKind::entmax15: return oracle::Normalizer::entmax15;
    case NormalizerKind::sigmoid:
    case NormalizerKind::sigmoid_b:
    case NormalizerKind::sigmoid_one_b: return oracle::Normalizer::sigmoid;
  }
  return oracle::Normalizer::softmax;
}

void add_normalizer(Case& c, Random& random) {
  const CaseSpec& spec = c.spec;
  c.problem.normalizer = oracle_normalizer(spec.normalizer);
  const auto numbers = [&](Int heads, double around) {
    Array x({1, heads, 1, 1});
    for (double& e : x.data) e = round_to(spec.dtype, around + 0.7 * random.normal());
    return x;
  };
  // A sink about as large as all the scores of a row together.
  if (spec.normalizer == NormalizerKind::softmax_sink)
    c.problem.normalizer_parameters["sink"] = numbers(spec.heads, std::log(double(spec.keys)));
  if (spec.normalizer == NormalizerKind::sigmoid_b) c.problem.normalizer_parameters["b"] = numbers(spec.heads, -1);
  if (spec.normalizer == NormalizerKind::sigmoid_one_b) c.problem.normalizer_parameters["b"] = numbers(1, -1);
}

void add_positions(Case& c) {
  const CaseSpec& s = c.spec;
  std::vector<Int>& first = c.problem.first_query;
  switch (s.positions) {
    case PositionKind::none: break;
    case PositionKind::one: first = {5}; break;
    case PositionKind::per_batch:
      for (Int b = 0; b < s.batch; ++b) first.push_back(b % 2 == 0 ? s.keys / 3 + b : -(s.queries / 2));
      break;
    case PositionKind::last: first = {s.keys - s.queries}; break;
  }
  // A grid has a place for every query.
  if (c.mechanism->grid())
    for (Int& position : first) position = std::clamp<Int>(position, 0, s.keys - s.queries);
  if (s.rotary == RotaryKind::none) return;
  const Int dim = std::min(s.query_dim, s.key_dim);
  c.problem.rotary.interleaved = s.rotary == RotaryKind::interleaved;
  // All numbers of a row, or some.
  c.problem.rotary.dims = s.rotary == RotaryKind::halves ? dim / 2 * 2 : std::min(dim / 2 * 2, dim / 4 * 2 + 2);
  c.problem.rotary.base = s.rotary == RotaryKind::halves ? 10000 : 50;
}

// On a grid bottom_right leaves no query before the first place.
void fit_to_grid(const Case& c, oracle::Mask& mask) {
  if (!c.mechanism->grid() || mask.causal != oracle::Causal::bottom_right || !mask.query_starts.empty()) return;
  for (Int& length : mask.key_lengths) length = std::max(length, c.spec.queries);
}

Sizes bias_shape(const CaseSpec& spec) {
  switch (spec.bias) {
    case BiasKind::none: return {};
    case BiasKind::full: return {spec.batch, spec.heads, spec.queries, spec.keys};
    case BiasKind::per_head: return {1, spec.heads, spec.queries, spec.keys};
    case BiasKind::per_batch: return {spec.batch, 1, spec.queries, spec.keys};
    case BiasKind::per_key: return {1, 1, 1, spec.keys};
    case BiasKind::per_head_key: return {1, spec.heads, 1, spec.keys};
  }
  return {};
}

Case draw_case(const CaseSpec& given, const std::function<oracle::Mask(const CaseSpec&)>& make_mask) {
  Case c;
  c.spec = given;
  c.mechanism = &rapt::mechanism(given.mechanism);
  CaseSpec& s = c.spec;
  if (s.key_heads == 0) s.key_heads = s.heads;
  if (s.query_dim == 0 || !has_role(*c.mechanism, rapt::Role::query_map, s.optional_parameters))
    s.query_dim = s.key_dim;
  if (c.mechanism->grid()) {
    // The keys are the grid, and queries stand on it; more columns than rows tells the two apart.
    const Int side = std::max<Int>(s.keys < 4 ? 1 : 2, static_cast<Int>(std::sqrt(double(s.keys))) - 1);
    c.problem.grid = {side, s.keys / side};
    s.keys = c.problem.grid[0] * c.problem.grid[1];
    s.queries = std::min(s.queries, s.keys);
  }
  Random random(s.seed);
  oracle::Problem& p = c.problem;
  p.mechanism = s.mechanism;
  p.q = random_array({s.batch, s.heads, s.queries, s.query_dim}, random, s.dtype);
  // Products of long rows grow with their root: keys are scaled down so that no mechanism becomes one-hot.
  const double key_size = c.mechanism->scaled() ? 1 : 1 / std::sqrt(double(s.key_dim));
  p.k = random_array({s.batch, s.key_heads, s.keys, s.key_dim}, random, s.dtype, key_size);
  for (Int dim : s.value_dims) p.v.push_back(random_array({s.batch, s.key_heads, s.keys, dim}, random, s.dtype));
  for (Int dim : s.value_dims) c.grad_out.push_back(random_array({s.batch, s.heads, s.queries, dim}, random, s.dtype));
  p.mask = make_mask(s);
  fit_to_grid(c, p.mask);
  add_positions(c);
  add_parameters(c, random);
  add_normalizer(c, random);
  p.scale = s.scale;
  p.softcap = s.softcap;
  if (s.bias != BiasKind::none) p.bias = random_array(bias_shape(s), random, s.dtype);
  if (s.grad_lse) c.grad_lse = random_array({s.batch, s.heads, s.queries, 1}, random, s.dtype);
  return c;
}

// Where a weight of sparsemax begins, its gradient jumps: a score that float cannot tell from the threshold has no one
// right gradient.
bool near_threshold(const Case& c) {
  if (c.problem.normalizer != oracle::Normalizer::sparsemax) return false;
  const double margin = c.spec.dtype == rapt::Dtype::f64 ? 1e-12 : 1e-5;
  const oracle::Forward f = oracle::forward(c.problem);
  const Int keys = c.problem.keys();
  for (std::size_t n = 0; n < f.scores.data.size(); ++n) {
    const double score = f.scores.data[n];
    if (score > -HUGE_VAL && std::abs(score - f.lse.data[n / std::size_t(keys)]) < margin * (1 + std::abs(score)))
      return true;
  }
  return false;
}

}  // namespace

std::vector<MaskKind> all_masks() {
  std::vector<MaskKind> result;
  for (int n = 0; n <= static_cast<int>(MaskKind::everything); ++n) result.push_back(static_cast<MaskKind>(n));
  return result;
}

std::vector<BiasKind> all_biases() {
  std::vector<BiasKind> result;
  for (int n = 0; n <= static_cast<int>(BiasKind::per_head_key); ++n) result.push_back(static_cast<BiasKind>(n));
  return result;
}

const char* label(MaskKind mask) {
  constexpr const char* kLabels[] = {"none",
                                     "top_left",
                                     "bottom_right",
                                     "window",
                                     "window_left",
                                     "window_bottom_right",
                                     "key_lengths",
                                     "packed",
                                     "packed_top_left",
                                     "packed_bottom_right",
                                     "dense",
                                     "dense_shared",
                                     "everything"};
  return kLabels[static_cast<int>(mask)];
}

std::vector<NormalizerKind> all_normalizers() {
  std::vector<NormalizerKind> result;
  for (int n = 0; n <= static_cast<int>(NormalizerKind::sigmoid_one_b); ++n)
    result.push_back(static_cast<NormalizerKind>(n));
  return result;
}

std::vector<PositionKind> all_positions() {
  return {PositionKind::none, PositionKind::one, PositionKind::per_batch, PositionKind::last};
}

bool combine(MaskKind mask, PositionKind positions) {
  if (positions == PositionKind::none) return true;
  switch (mask) {
    case MaskKind::bottom_right:
    case MaskKind::window_bottom_right:
    case MaskKind::packed:
    case MaskKind::packed_top_left:
    case MaskKind::packed_bottom_right:
    case MaskKind::everything: return false;
    default: return true;
  }
}

const char* label(NormalizerKind normalizer) {
  constexpr const char* kLabels[] = {"softmax",  "softmax_sink", "argmax",    "sparsemax",
                                     "entmax15", "sigmoid",      "sigmoid_b", "sigmoid_one_b"};
  return kLabels[static_cast<int>(normalizer)];
}

const char* label(PositionKind positions) {
  constexpr const char* kLabels[] = {"none", "one", "per_batch", "last"};
  return kLabels[static_cast<int>(positions)];
}

const char* label(RotaryKind rotary) {
  constexpr const char* kLabels[] = {"none", "halves", "interleaved"};
  return kLabels[static_cast<int>(rotary)];
}

const char* label(BiasKind bias) {
  constexpr const char* kLabels[] = {"none", "full", "per_head", "per_batch", "per_key", "per_head_key"};
  return kLabels[static_cast<int>(bias)];
}

std::string describe(const CaseSpec& s) {
  const auto number = [](Int n) { return std::to_string(n); };
  std::string text = s.mechanism + "_" + label(s.dtype) + "_b" + number(s.batch) + "h" + number(s.heads) + "hk" +
                     number(s.key_heads ? s.key_heads : s.heads) + "_s" + number(s.queries) + "x" + number(s.keys) +
                     "_d" + number(s.query_dim ? s.query_dim : s.key_dim) + "x" + number(s.key_dim) + "_v";
  for (std::size_t n = 0; n < s.value_dims.size(); ++n) text += (n ? "and" : "") + number(s.value_dims[n]);
  text += std::string("_mask_") + label(s.mask) + "_bias_" + label(s.bias);
  if (s.softcap > 0) text += "_softcap";
  if (s.scale) text += "_scale";
  if (s.normalizer != NormalizerKind::softmax) text += std::string("_") + label(s.normalizer);
  if (s.positions != PositionKind::none) text += std::string("_positions_") + label(s.positions);
  if (s.rotary != RotaryKind::none) text += std::string("_rotary_") + label(s.rotary);
  if (s.grad_lse) text += "_grad_lse";
  if (!s.per_head) text += "_shared";
  if (!s.optional_parameters) text += "_plain";
  if (s.settings == Settings::defaults) text += "_defaults";
  if (s.settings == Settings::low) text += "_low";
  if (s.layout != Layout::bhsd) text += std::string("_") + label(s.layout);
  return text;
}

std::uint64_t Random::bits() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::uniform(double low, double high) {
  return low + (high - low) * std::ldexp(static_cast<double>(bits() >> 11), -53);
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(uniform(1e-12, 1)));
  return radius * std::cos(uniform(0, 2 * M_PI));
}

Array random_array(const Sizes& shape, Random& random, rapt::Dtype dtype, double size) {
  Array x(shape);
  for (double& e : x.data) e = round_to(dtype, size * random.normal());
  return x;
}

Case make_case(const CaseSpec& spec) {
  // Masks have their own random numbers, independent of the rest of a case.
  Random random(spec.seed + 77);
  return make_case(spec, [&random](const CaseSpec& sized) { return default_mask(sized, random); });
}

Case make_case(const CaseSpec& spec, const std::function<oracle::Mask(const CaseSpec&)>& make_mask) {
  CaseSpec next = spec;
  for (int attempt = 0; attempt < 100; ++attempt, next.seed += 1000) {
    Case c = draw_case(next, make_mask);
    if (!near_threshold(c)) return c;
  }
  throw std::runtime_error("no case without a score at the threshold: " + describe(spec));
}

Case make_case(const oracle::Problem& problem, rapt::Dtype dtype) {
  Case c;
  c.problem = problem;
  c.mechanism = &rapt::mechanism(problem.mechanism);
  c.spec.mechanism = problem.mechanism;
  c.spec.dtype = dtype;
  Random random(7);
  for (const Array& v : problem.v)
    c.grad_out.push_back(
        random_array({problem.batch(), problem.heads(), problem.queries(), v.shape[3]}, random, dtype));
  return c;
}

rapt::Shape library_shape(const rapt::ParameterSpec& spec, const Array& value) {
  const bool with_heads = value.shape[1] > 1 || spec.heads == rapt::Heads::required;
  rapt::Shape shape{1, 1, 1, 1};
  int place = 3;
  if (spec.rank() >= 1) shape[static_cast<std::size_t>(place--)] = value.shape[3];
  if (spec.rank() == 2) shape[static_cast<std::size_t>(place--)] = value.shape[2];
  if (with_heads) shape[static_cast<std::size_t>(place)] = value.shape[1];
  return shape;
}

std::vector<std::string> registered_names() {
  std::vector<std::string> names;
  for (const rapt::MechanismInfo* info : rapt::all_mechanisms()) names.emplace_back(info->name());
  return names;
}

}  // namespace support
