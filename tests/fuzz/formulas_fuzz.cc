// Texts of formulas: a score, and after two line ends a pair and a condition. What is accepted is evaluated, both passes:
// nothing is written outside its array, threads change no bit, f64 agrees with the reference where f32 shows that rounding
// does not decide, and f32 agrees with it as closely as the roundings of the text, followed one by one, allow.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "formulas/derive.h"
#include "formulas/parser.h"
#include "rapt/attend.h"
#include "rapt/error.h"
#include "rapt/formula.h"
#include "tests/fuzz/formula_error.h"

namespace {

namespace formulas = rapt::formulas;

constexpr std::int64_t kHeads = 2, kDim = 3, kMostNumbers = 1 << 16;

struct Sizes {
  std::int64_t queries = 1, keys = 1;
};

// An array followed by numbers that must not be written.
template <class T>
struct Guarded {
  static constexpr std::size_t kGuard = 8;
  std::vector<T> numbers;
  std::vector<std::int64_t> shape;

  explicit Guarded(const std::vector<std::int64_t>& of) : shape(of) {
    std::size_t count = 1;
    for (const std::int64_t n : of) count *= static_cast<std::size_t>(n);
    numbers.assign(count + kGuard, T(-77));
  }
  rapt::View view() { return rapt::view(numbers.data(), shape); }
  bool is_whole() const {
    return std::all_of(numbers.end() - kGuard, numbers.end(), [](T x) { return x == T(-77); });
  }
  std::size_t count() const { return numbers.size() - kGuard; }
};

template <class T>
using Arrays = std::vector<Guarded<T>>;

// Numbers of about 1, the same in every type.
template <class T>
Guarded<T> filled(const std::vector<std::int64_t>& shape, int seed) {
  Guarded<T> array(shape);
  for (std::size_t n = 0; n < array.count(); ++n)
    array.numbers[n] = static_cast<T>(static_cast<float>(std::sin(static_cast<double>(n) * 1.7 + seed)));
  return array;
}

std::vector<std::int64_t> shape_of(const rapt::ParameterSpec& spec, const Sizes& s) {
  std::vector<std::int64_t> shape;
  for (const int size : spec.sizes) {
    if (size == 0) continue;
    shape.push_back(size > 0 ? size : (spec.role == rapt::Role::pair_weight ? kDim : s.queries + s.keys + 3));
  }
  if (shape.empty()) shape.push_back(spec.name.size() % 2 == 0 ? 1 : kHeads);
  return shape;
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "formula: %s\n", what);
  std::abort();
}

// Outputs, then the gradients of q, k, v and all parameters.
template <class T>
Arrays<T> run(const rapt::Score& score, const Sizes& s, rapt::Path path, int threads) {
  const std::vector<std::int64_t> rows{1, kHeads, s.queries, kDim}, columns{1, kHeads, s.keys, kDim};
  Guarded<T> q = filled<T>(rows, 1), k = filled<T>(columns, 2), v = filled<T>(columns, 3), grad = filled<T>(rows, 4);
  Arrays<T> parameters, results;
  for (const auto& shape : {rows, rows, columns, columns}) results.emplace_back(shape);
  rapt::AttendOptions options;
  options.score = score;
  options.path = path;
  options.threads = threads;
  if (score.mechanism->grid()) options.score.grid = {5, s.keys / 5};
  int seed = 5;
  for (const rapt::ParameterSpec& spec : score.mechanism->parameters()) {
    parameters.push_back(filled<T>(shape_of(spec, s), seed++));
    results.emplace_back(parameters.back().shape);
  }
  rapt::Gradients gradients;
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    const std::string name(score.mechanism->parameters()[n].name);
    options.score.parameters.push_back({name, parameters[n].view()});
    gradients.parameters.push_back({name, results[4 + n].view()});
  }
  gradients.q = results[1].view();
  gradients.k = results[2].view();
  gradients.v = {results[3].view()};
  rapt::Saved saved;
  rapt::Outputs outputs;
  outputs.out = {results[0].view()};
  outputs.saved = &saved;
  const rapt::Inputs inputs{q.view(), k.view(), {v.view()}};
  rapt::attend(inputs, outputs, options);
  rapt::attend_backward(inputs, {results[0].view()}, {grad.view()}, &saved, gradients, options);
  for (const Guarded<T>& array : results)
    if (!array.is_whole()) fail("something is written past the end of an array");
  return results;
}

template <class A, class B>
bool near(const Arrays<A>& a, const Arrays<B>& b, double tolerance) {
  for (std::size_t n = 0; n < a.size(); ++n) {
    double largest = 1;
    for (std::size_t m = 0; m < b[n].count(); ++m)
      largest = std::max(largest, std::fabs(static_cast<double>(b[n].numbers[m])));
    for (std::size_t m = 0; m < a[n].count(); ++m) {
      const auto x = static_cast<double>(a[n].numbers[m]), y = static_cast<double>(b[n].numbers[m]);
      if (!(std::fabs(x - y) <= tolerance * largest)) return false;
    }
  }
  return true;
}

bool is_tame(const Arrays<double>& results) {
  for (const Guarded<double>& array : results)
    for (std::size_t n = 0; n < array.count(); ++n)
      if (!(std::fabs(array.numbers[n]) < 1e6)) return false;
  return true;
}

// A step (a comparison, a floor, a place in a table) may fall to either side of what is rounded; where all is added,
// subtracted and multiplied whole numbers, it may not.
bool may_step(const std::string& text) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  bool steps = false, rounds = false;
  for (const char* part : {"floor", "sign", "<", ">", "=", "["}) steps = steps || has(part);
  for (const char* part :
       {"exp", "log", "sqrt", "tanh", "sig", "sin", "cos", "pi", "raw", "scale", "/", "^", "**", ".", "e", "q", "w"})
    rounds = rounds || has(part);
  return steps && rounds;
}

// The texts of one input.
struct Texts {
  std::string score;
  rapt::FormulaOptions options;
};

// How far f32 may be from exact arithmetic: scores, and what their slopes give; not `sure` where a rounding may decide.
struct Rounding {
  double score = 0, slope = 0, slope_error = 0;
  bool sure = true;
};

// Follows the roundings of every pair, by an evaluation that shares only the parser with what is tested.
class Roundings {
 public:
  Roundings(const Texts& texts, const rapt::Score& score, const Sizes& s)
      : s_(s), specs_(score.mechanism->parameters()) {
    std::vector<formulas::NamedParameter> names, none;
    const bool is_default = texts.score.find_first_not_of(" \t\r\n") == std::string::npos;
    score_ = formulas::parse(formulas::Part::score, is_default ? "raw*scale" : texts.score, graph_, names);
    if (!texts.options.visible.empty())
      visible_ = formulas::parse(formulas::Part::visible, texts.options.visible, graph_, names);
    if (!texts.options.pair.empty())
      pair_ = formulas::parse(formulas::Part::pair, texts.options.pair, pair_graph_, none);
    derivatives_ = formulas::derive(graph_, score_);
    if (pair_ != formulas::kNone) pair_derivatives_ = formulas::derive(pair_graph_, pair_);
    for (std::size_t n = 0; n < specs_.size(); ++n)
      parameters_.push_back(filled<double>(shape_of(specs_[n], s), 5 + static_cast<int>(n)));
  }

  // Of all pairs; not sure where that would take long.
  Rounding all() {
    Rounding most;
    const std::int64_t pairs = kHeads * s_.queries * s_.keys;
    most.sure = pairs * (graph_.size() + kDim * pair_graph_.size()) < 400000;
    for (std::int64_t at = 0; most.sure && at < pairs; ++at)
      add_pair(at / (s_.queries * s_.keys), at / s_.keys % s_.queries, at % s_.keys, most);
    return most;
  }

 private:
  using Bounded = formula_error::Bounded;

  double parameter(std::size_t n, std::int64_t head, double row, double col) const {
    const Guarded<double>& p = parameters_[n];
    const int rank = specs_[n].rank();
    const std::int64_t cols = rank == 2 ? p.shape[1] : 1, rows = rank == 0 ? 1 : p.shape[0];
    if (rank == 0) return p.numbers[static_cast<std::size_t>(p.shape[0] == kHeads ? head : 0)];
    if (!(row >= 0 && col >= 0 && row < static_cast<double>(rows) && col < static_cast<double>(cols))) return NAN;
    return p.numbers[static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(col)];
  }

  Bounded leaf(const formulas::Node& node, std::int64_t h, std::int64_t i, std::int64_t j, const Bounded& raw,
               double row, double col) const {
    const auto exact = [](auto x) { return Bounded{static_cast<double>(x), 0}; };
    const std::int64_t cols = s_.keys / 5;
    using formulas::Op;
    switch (node.op) {
      case Op::raw: return raw;
      case Op::scale: {
        const double scale = pair_ == formulas::kNone ? 1 / std::sqrt(static_cast<double>(kDim)) : 1;
        return {scale, pair_ == formulas::kNone ? 0x1p-24 : 0};
      }
      case Op::grad: return exact(1);
      case Op::query: return exact(i);
      case Op::key: return exact(j);
      case Op::offset: return exact(j - i);
      case Op::head: return exact(h);
      case Op::batch: return exact(0);
      case Op::queries: return exact(s_.queries);
      case Op::keys: return exact(s_.keys);
      case Op::query_row: return exact(i / cols);
      case Op::query_col: return exact(i % cols);
      case Op::key_row: return exact(j / cols);
      case Op::key_col: return exact(j % cols);
      case Op::table: return exact(parameter(static_cast<std::size_t>(node.index), h, row, col));
      default: return exact(NAN);
    }
  }

  void add_pair(std::int64_t h, std::int64_t i, std::int64_t j, Rounding& most) {
    const std::array roots_seen{visible_};
    if (visible_ != formulas::kNone) {
      const auto seen = formula_error::evaluate(graph_, roots_seen, [&](const auto& node, double row, double col) {
        return leaf(node, h, i, j, {}, row, col);
      });
      most.sure = most.sure && seen.sure;
      if (!seen.sure || seen.values[static_cast<std::size_t>(visible_)].value == 0) return;
    }
    double pair_slope = 1, pair_slope_error = 0;
    const Bounded raw = raw_of(h, i, j, most.sure, pair_slope, pair_slope_error);
    std::vector<formulas::NodeId> roots{score_};
    for (const formulas::Derivative& d : derivatives_) roots.push_back(d.gradient);
    const auto e = formula_error::evaluate(
        graph_, roots, [&](const auto& node, double row, double col) { return leaf(node, h, i, j, raw, row, col); });
    most.sure = most.sure && e.sure;
    if (!most.sure) return;
    most.score = std::max(most.score, e.values[static_cast<std::size_t>(score_)].error);
    for (const formulas::Derivative& d : derivatives_) {
      const Bounded slope = e.values[static_cast<std::size_t>(d.gradient)];
      const double size = std::fabs(slope.value);
      most.slope = std::max({most.slope, size, size * pair_slope});
      most.slope_error = std::max(most.slope_error, slope.error * std::max(1.0, pair_slope) + size * pair_slope_error);
    }
  }

  Bounded raw_of(std::int64_t h, std::int64_t i, std::int64_t j, bool& sure, double& slope, double& slope_error) {
    Bounded raw;
    double size = 0;
    for (std::int64_t d = 0; d < kDim; ++d) {
      const double q = q_.numbers[static_cast<std::size_t>((h * s_.queries + i) * kDim + d)],
                   k = k_.numbers[static_cast<std::size_t>((h * s_.keys + j) * kDim + d)];
      if (pair_ == formulas::kNone) {
        raw.value += q * k;
        size += std::fabs(q * k);
        continue;
      }
      const double w = specs_.empty() || specs_.back().role != rapt::Role::pair_weight
                           ? 1
                           : parameters_.back().numbers[static_cast<std::size_t>(d)];
      std::vector<formulas::NodeId> roots{pair_};
      for (const formulas::Derivative& x : pair_derivatives_) roots.push_back(x.gradient);
      const auto e = formula_error::evaluate(pair_graph_, roots, [&](const formulas::Node& node, double, double) {
        using formulas::Op;
        if (node.op == Op::pair_q || node.op == Op::pair_k) return Bounded{node.op == Op::pair_q ? q : k, 0};
        return Bounded{node.op == Op::pair_w ? w : (node.op == Op::grad ? 1 : NAN), 0};
      });
      sure = sure && e.sure;
      if (!sure) return raw;
      const Bounded one = e.values[static_cast<std::size_t>(pair_)];
      raw.value += one.value;
      raw.error += one.error;
      size += std::fabs(one.value);
      for (const formulas::Derivative& x : pair_derivatives_) {
        const Bounded part = e.values[static_cast<std::size_t>(x.gradient)];
        slope = std::max(slope, std::fabs(part.value));
        slope_error = std::max(slope_error, part.error);
      }
    }
    raw.error += formula_error::kEps * (size + 1);
    return raw;
  }

  Sizes s_;
  std::span<const rapt::ParameterSpec> specs_;
  formulas::Graph graph_, pair_graph_;
  formulas::NodeId score_ = formulas::kNone, visible_ = formulas::kNone, pair_ = formulas::kNone;
  std::vector<formulas::Derivative> derivatives_, pair_derivatives_;
  Arrays<double> parameters_;
  Guarded<double> q_ = filled<double>({1, kHeads, s_.queries, kDim}, 1),
                  k_ = filled<double>({1, kHeads, s_.keys, kDim}, 2);
};

// A score that is off by e moves a weight by e^2e at most; sums of gradients have some hundred terms of size 1, each times a
// slope.
void check_f32(const Texts& texts, const rapt::Score& score, const Sizes& s, const Arrays<float>& coarse,
               const Arrays<double>& reference) {
  const Rounding rounding = Roundings(texts, score, s).all();
  if (!rounding.sure || rounding.score > 0.01) return;
  const auto part = [](const auto& arrays, std::size_t first, std::size_t last) {
    return std::remove_cvref_t<decltype(arrays)>(arrays.begin() + static_cast<std::ptrdiff_t>(first),
                                                 arrays.begin() + static_cast<std::ptrdiff_t>(last));
  };
  if (!near(part(coarse, 0, 1), part(reference, 0, 1), 4 * std::expm1(2 * rounding.score) + 2e-5))
    fail("f32 differs from f64 by more than its roundings");
  const double gradient = 300 * (rounding.score + 1e-6) * (1 + rounding.slope) + 120 * rounding.slope_error;
  if (gradient > 0.05) return;
  if (!near(part(coarse, 1, coarse.size()), part(reference, 1, reference.size()), gradient))
    fail("gradients in f32 differ from those in f64 by more than their roundings");
}

void evaluate(const std::string& text, const Texts& texts) {
  const rapt::Score score = rapt::formula(texts.score, texts.options);
  const Sizes s{1 + static_cast<std::int64_t>(text.size() % 9), 5 * (1 + static_cast<std::int64_t>(text.size() % 15))};
  for (const rapt::ParameterSpec& spec : score.mechanism->parameters()) {
    std::int64_t count = 1;
    for (const std::int64_t n : shape_of(spec, s)) count *= n;
    if (count > kMostNumbers) return;
  }
  const Arrays<double> ours = run<double>(score, s, rapt::Path::automatic, 1),
                       again = run<double>(score, s, rapt::Path::automatic, 3);
  for (std::size_t n = 0; n < ours.size(); ++n)
    if (std::memcmp(ours[n].numbers.data(), again[n].numbers.data(), ours[n].count() * sizeof(double)) != 0)
      fail("three threads change bits");
  const Arrays<float> coarse = run<float>(score, s, rapt::Path::automatic, 1);
  const Arrays<double> reference = run<double>(score, s, rapt::Path::reference, 1);
  if (!is_tame(reference)) return;
  check_f32(texts, score, s, coarse, reference);
  if (may_step(text) || !near(coarse, reference, 1e-3)) return;
  if (!near(ours, reference, 1e-7)) fail("f64 differs from the reference, though f32 does not");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t first = text.find('\n'), second = first == std::string::npos ? first : text.find('\n', first + 1);
  Texts texts{.score = text.substr(0, first), .options = {}};
  if (first != std::string::npos) texts.options.pair = text.substr(first + 1, second - first - 1);
  if (second != std::string::npos) texts.options.visible = text.substr(second + 1);
  try {
    evaluate(text, texts);
  } catch (const rapt::Error&) {
  }
  return 0;
}
