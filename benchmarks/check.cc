#include "benchmarks/check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "benchmarks/device_workload.h"
#include "benchmarks/naive_row.h"
#include "normalizers/definition.h"
#include "rapt/error.h"
#include "rapt/registry.h"

namespace rapt::bench {
namespace {

// Half the distance from 1 to the next number, in the storage type or, if that is the compute type, in sums.
double rounding(ElementType type) {
  switch (type) {
    case ElementType::f64: return 0x1p-53;
    case ElementType::f16: return 0x1p-11;
    case ElementType::bf16: return 0x1p-8;
    default: return 0x1p-24;
  }
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", x);
  return text;
}

[[noreturn]] void refuse(const Spec& spec, Direction direction, const std::string& what) {
  throw WrongResult{spec.name + " " + name_of(direction) + ": " + what};
}

// A formula may be undefined somewhere; the library need not define it.
void require_numbers(const Spec& spec, std::span<const double> exact, const std::string& where) {
  if (!spec.formula || std::ranges::none_of(exact, [](double x) { return std::isnan(x); })) return;
  throw Error("bench: expected a formula that has a value for every pair of the shape, got NaN in " + where +
              " in f64 too: an index outside its table, or arithmetic without a result");
}

double largest(std::span<const double> values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::abs(x));
  return most;
}

// NaN counts as infinitely far.
double distance(std::span<const double> a, std::span<const double> b) {
  double most = 0;
  for (std::size_t n = 0; n < a.size(); ++n) {
    const double d = std::abs(a[n] - b[n]);
    if (!(d <= most)) most = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return most;
}

std::vector<Array> in_double(const Workload& workload, Direction direction) {
  std::vector<Array> list;
  for (const Workload::Named& result : workload.results(direction)) list.push_back(result.array->to(ElementType::f64));
  return list;
}

std::vector<Array> results_of(Workload& workload, Direction direction, Path path) {
  if (direction == Direction::forward) {
    workload.forward(path);
  } else {
    workload.prepare_backward(path);
    workload.backward(path);
  }
  return in_double(workload, direction);
}

std::vector<Array> results_on(const Device& device, const Spec& spec, Direction direction, int threads) {
  DeviceWorkload workload(spec, device, threads);
  workload.prepare(direction);
  workload.run(direction);
  workload.download(direction);
  return in_double(workload.host(), direction);
}

Spec smaller(const Spec& spec) {
  // 209 = 11 · 19 is a grid, fills no block of any size and spans several tiles.
  constexpr std::int64_t kLength = 209;
  Spec small = spec;
  small.sizes.batch = std::min<std::int64_t>(spec.sizes.batch, 2);
  // Groups keep their size.
  const std::int64_t group = spec.sizes.heads / spec.key_head_count(),
                     kept = std::min<std::int64_t>(spec.key_head_count(), 2);
  small.sizes.heads = group * kept;
  if (spec.key_heads > 0) small.key_heads = kept;
  small.sizes.keys = std::min(spec.sizes.keys, kLength);
  small.queries = std::min(spec.query_count(), small.sizes.keys);
  if (small.window && small.window->left > 0) small.window->left = std::min<std::int64_t>(small.window->left, 64);
  return small;
}

struct Place {
  std::int64_t batch, head, row;
};

std::vector<Place> places_of(const Spec& spec) {
  const std::int64_t batch = spec.sizes.batch - 1, head = spec.sizes.heads - 1, rows = spec.query_count();
  return {{0, 0, 0}, {0, head, rows / 2}, {batch, 0, rows - 1}, {batch, head, rows / 3}};
}

std::span<const double> row_of(const Array& array, const Workload& workload, const Place& at) {
  const std::int64_t dim = array.shape().back();
  const std::int64_t row = (at.batch * workload.spec.sizes.heads + at.head) * workload.spec.query_count() + at.row;
  return array.as<double>().subspan(static_cast<std::size_t>(row * dim), static_cast<std::size_t>(dim));
}

// For elements of about 1. Means of thousands of terms round more than once, and 16-bit storage once more.
double tolerance(const Spec& spec) {
  switch (spec.dtype) {
    case Dtype::f64: return 1e-9;
    case Dtype::f16: return 2e-3;
    case Dtype::bf16: return 2e-2;
    case Dtype::f32: return 5e-5;
  }
  return 0;
}

void check_outputs(const Workload& workload, const Workload& twin, const Place& at) {
  const NaiveRow naive(twin, at.batch, at.head);
  if (workload.spec.normalizer == Normalizer::argmax && naive.lead(at.row) < 1e-3) return;
  for (int set = 0; set < workload.spec.value_sets; ++set) {
    const Array out = workload.out[static_cast<std::size_t>(set)].to(ElementType::f64);
    const std::vector<double> want = naive.output(at.row, set);
    require_numbers(workload.spec, want, "row " + std::to_string(at.row));
    const double far = distance(row_of(out, workload, at), want);
    // Values are about 1: a mean of them may be small without being more exact.
    const double bound = tolerance(workload.spec) * std::max(1.0, largest(want));
    if (!(far <= bound))
      refuse(workload.spec, Direction::forward,
             "row " + std::to_string(at.row) + " differs from f64 by " + number(far) + "; at most " + number(bound) +
                 " is rounding");
  }
}

void check_query_gradient(const Workload& workload, const Workload& twin, const Array& dq, const Place& at) {
  const NaiveRow naive(twin, at.batch, at.head);
  const std::span<const double> got = row_of(dq, workload, at);
  const double size = std::max(largest(got), 1e-3);
  const auto dims = static_cast<std::int64_t>(got.size());
  for (const std::int64_t d : {std::int64_t{0}, dims / 2, dims - 1}) {
    const double far = std::abs(got[static_cast<std::size_t>(d)] - naive.query_slope(at.row, d));
    const double bound = 10 * tolerance(workload.spec) * std::max(1.0, size) + 1e-6;
    if (!(far <= bound))
      refuse(workload.spec, Direction::backward,
             "dq[" + std::to_string(at.row) + "," + std::to_string(d) + "] differs from f64 by " + number(far) +
                 "; at most " + number(bound) + " is rounding");
  }
}

// The gradients of a head's values sum to those of its outputs, each times the sum of its row of weights.
void check_value_sum(const Workload& workload, const Workload& twin) {
  const NaiveRow naive(twin, 0, 0);
  const Spec& spec = workload.spec;
  const Array dv = workload.dv[0].to(ElementType::f64);
  const Array grad_out = workload.grad_out[0].to(ElementType::f64);
  double got = 0, want = 0, size = 0;
  for (const double x : dv.as<double>().first(static_cast<std::size_t>(spec.sizes.keys * spec.sizes.dim)))
    got += x, size += std::abs(x);
  for (std::int64_t i = 0; i < spec.query_count(); ++i) {
    double weights = 0;
    for (const double w : naive.weights(i)) weights += w;
    for (const double x : row_of(grad_out, workload, {0, 0, i})) want += weights * x, size += std::abs(weights * x);
  }
  if (!(std::abs(got - want) <= tolerance(spec) * size + 1e-9))
    refuse(spec, Direction::backward, "dv of a head sums to " + number(got) + ", not to " + number(want));
}

// Where each row of weights sums to 1, the gradients of all values sum to those of all outputs.
void check_value_gradient(const Workload& workload, const Workload& twin) {
  if (definition_of(workload.spec.normalizer).threshold == Threshold::none) return check_value_sum(workload, twin);
  for (std::size_t set = 0; set < workload.dv.size(); ++set) {
    const Array dv = workload.dv[set].to(ElementType::f64);
    const Array grad_out = workload.grad_out[set].to(ElementType::f64);
    double got = 0, want = 0, size = 0;
    for (const double x : dv.as<double>()) got += x, size += std::abs(x);
    for (const double x : grad_out.as<double>()) want += x, size += std::abs(x);
    if (!(std::abs(got - want) <= tolerance(workload.spec) * size + 1e-9))
      refuse(workload.spec, Direction::backward, "dv sums to " + number(got) + ", not to " + number(want));
  }
}

// The distance of one result from f64, over one or more draws of the inputs.
struct Errors {
  std::string name;
  double far = 0, naive = 0;  // sums of the largest ones
  double floor = 0;           // of a few roundings of the largest number

  double bound() const { return 2 * naive + floor; }
};

void add_draw(const Spec& spec, Direction direction, int threads, const Device& device, std::vector<Errors>& errors) {
  Workload workload(spec, threads);
  const std::vector<Array> got = device.kind == Device::Kind::cpu
                                     ? results_of(workload, direction, spec.path)
                                     : results_on(device, workload.spec, direction, threads);
  const std::vector<Array> naive = results_of(workload, direction, Path::reference);
  Workload twin = workload.in_double();
  const std::vector<Array> exact = results_of(twin, direction, Path::reference);
  const std::vector<Workload::Named> names = workload.results(direction);
  double all = 0;
  for (std::size_t n = 0; n < exact.size(); ++n) require_numbers(spec, exact[n].as<double>(), names[n].name);
  for (const Array& result : exact) all = std::max(all, largest(result.as<double>()));
  errors.resize(got.size());
  for (std::size_t n = 0; n < got.size(); ++n) {
    const std::span<const double> want = exact[n].as<double>();
    errors[n].name = names[n].name;
    errors[n].far += distance(got[n].as<double>(), want);
    errors[n].naive += distance(naive[n].as<double>(), want);
    // Where everything cancels, as with one key, the rest may be of second order.
    errors[n].floor += 64 * rounding(names[n].array->type()) * std::max(largest(want), 0x1p-20 * all);
  }
}

}  // namespace

void check_small(const Spec& spec, Direction direction, int threads, const Device& device) {
  constexpr std::uint64_t kDraws = 10;
  Spec drawn = smaller(spec);
  std::vector<Errors> errors;
  add_draw(drawn, direction, threads, device, errors);
  const auto bad = [&] {
    return std::find_if(errors.begin(), errors.end(), [](const Errors& e) { return !(e.far <= e.bound()); });
  };
  // The naive path may be exact by luck once, but not ten times; a wrong result is wrong in every draw.
  for (std::uint64_t n = 1; n < kDraws && bad() != errors.end(); ++n) {
    ++drawn.seed;
    add_draw(drawn, direction, threads, device, errors);
  }
  if (const auto e = bad(); e != errors.end())
    refuse(spec, direction,
           e->name + " differs from f64 by " + number(e->far / kDraws) + " on average; at most " +
               number(e->bound() / kDraws) + " is allowed");
}

void check_rows(const Workload& workload, Direction direction) {
  const Workload twin = workload.in_double();
  if (direction == Direction::forward) {
    for (const Place& at : places_of(workload.spec)) check_outputs(workload, twin, at);
    return;
  }
  const Array dq = workload.dq.to(ElementType::f64);
  for (const Place& at : places_of(workload.spec)) check_query_gradient(workload, twin, dq, at);
  check_value_gradient(workload, twin);
}

}  // namespace rapt::bench
