// Texts of formulas: a score, and after two line ends a pair and a condition. What is accepted is evaluated, both passes:
// nothing is written outside its array, threads change no bit, and f64 agrees with the reference where f32 shows that
// rounding does not decide.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/attend.h"
#include "rapt/error.h"
#include "rapt/formula.h"

namespace {

constexpr std::int64_t kHeads = 2, kDim = 3, kMostNumbers = 1 << 16;

struct Sizes {
  std::int64_t queries = 1, keys = 1;
};

// An array with numbers after it that nothing may write.
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

void evaluate(const std::string& text, const rapt::Score& score) {
  const Sizes s{1 + static_cast<std::int64_t>(text.size() % 9), 5 * (1 + static_cast<std::int64_t>(text.size() % 15))};
  for (const rapt::ParameterSpec& spec : score.mechanism->parameters()) {
    std::int64_t count = 1;
    for (const std::int64_t n : shape_of(spec, s)) count *= n;
    if (count > kMostNumbers) return;
  }
  const Arrays<double> ours = run<double>(score, s, rapt::Path::automatic, 1),
                       again = run<double>(score, s, rapt::Path::automatic, 3);
  const Arrays<float> coarse = run<float>(score, s, rapt::Path::automatic, 1);
  for (std::size_t n = 0; n < ours.size(); ++n)
    if (std::memcmp(ours[n].numbers.data(), again[n].numbers.data(), ours[n].count() * sizeof(double)) != 0)
      fail("three threads change bits");
  const Arrays<double> reference = run<double>(score, s, rapt::Path::reference, 1);
  if (may_step(text) || !is_tame(reference) || !near(coarse, reference, 1e-3)) return;
  if (!near(ours, reference, 1e-7)) fail("f64 differs from the reference, though f32 does not");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t first = text.find('\n'), second = first == std::string::npos ? first : text.find('\n', first + 1);
  rapt::FormulaOptions options;
  if (first != std::string::npos) options.pair = text.substr(first + 1, second - first - 1);
  if (second != std::string::npos) options.visible = text.substr(second + 1);
  try {
    evaluate(text, rapt::formula(text.substr(0, first), options));
  } catch (const rapt::Error&) {
  }
  return 0;
}
