#include <cmath>

#include "attend/grid_form.h"
#include "backends/cpu/engine.h"
#include "backends/cpu/factorized.h"

namespace rapt::inline v1 {
namespace factorized {
namespace {

// Beyond it the exponents could overflow in double.
constexpr double kLargestCoefficient = 1e100;

bool separates(const Form& form) {
  for (const double c : form.coefficient)
    if (!(std::abs(c) < kLargestCoefficient)) return false;
  return form.coefficient[Form::kRowCol] == 0;
}

}  // namespace

Form form_of(const Problem& problem, std::int64_t h) {
  double slots[kMaxSlots] = {};
  for (const ParameterValue& p : problem.parameters) {
    if (!p.given || p.spec->role != Role::value) continue;
    for (std::int64_t n = 0; n < p.size(); ++n)
      slots[p.first_slot + n] = problem.is_double ? p.head<double>(h)[n] : static_cast<double>(p.head<float>(h)[n]);
  }
  Form form;
  problem.mechanism->definition().form(problem.object, slots, form.coefficient, form.derivative);
  for (int term = 0; term < Form::kTerms; ++term) {
    form.coefficient[term] *= problem.scale;
    for (double& d : form.derivative[term]) d *= problem.scale;
  }
  return form;
}

Axis::Axis(std::int64_t length, double linear, double square) : size(length) {
  const double n = static_cast<double>(length);
  const double peak = square != 0 ? -linear / (2 * square) : 0;
  // Counted from a peak that is near, no large terms cancel. From one far away they would.
  const bool near = square != 0 && std::abs(peak) <= 4 * n;
  const auto score = [&](std::int64_t offset) {
    const double d = static_cast<double>(offset);
    return near ? square * (d - peak) * (d - peak) : d * (linear + square * d);
  };
  if (square < 0) about = std::clamp(peak, 1 - n, n - 1);

  for (std::int64_t i = 0; i < size; ++i) {
    std::int64_t top = 0;
    for (std::int64_t j = 1; j < size; ++j)
      if (score(j - i) > score(top - i)) top = j;
    best.push_back(top);
    sum.push_back(0);
    for (std::int64_t j = 0; j < size; ++j) {
      weights.push_back(std::exp(score(j - i) - score(top - i)));
      sum.back() += weights.back();
    }
    for (std::int64_t j = 0; j < size; ++j) weights[static_cast<std::size_t>(i * size + j)] /= sum.back();
  }
}

template <class T>
std::vector<T> rounded_weights(const Axis& axis) {
  std::vector<T> w(axis.weights.size());
  std::transform(axis.weights.begin(), axis.weights.end(), w.begin(), without_denormals<T>);
  return w;
}

template <class T>
AxisMoments<T>::AxisMoments(const Axis& axis) : size(axis.size), plain(rounded_weights<T>(axis)) {
  for (std::int64_t i = 0; i < size; ++i) {
    const double* w = axis.weights.data() + i * size;
    const auto offset = [&](std::int64_t j) { return static_cast<double>(j - i) - axis.about; };
    double expected = 0, expected_square = 0;
    for (std::int64_t j = 0; j < size; ++j) {
      expected += w[j] * offset(j);
      expected_square += w[j] * offset(j) * offset(j);
    }
    for (std::int64_t j = 0; j < size; ++j) {
      first.push_back(without_denormals<T>(w[j] * (offset(j) - expected)));
      second.push_back(without_denormals<T>(w[j] * (offset(j) * offset(j) - expected_square)));
      shifted.push_back(without_denormals<T>(w[j] * offset(j)));
    }
    mean.push_back(static_cast<T>(expected));
  }
}

template <class T>
Layout<T>::Layout(const Problem& problem, const Kernels<T>& table, std::int64_t dim)
    : kernels(&table), rows(problem.grid[0]), cols(problem.grid[1]) {
  width = (dim + table.pad - 1) / table.pad * table.pad;
  stride = cols * width;
  // Rows a power of two apart would fall into the same places of the cache.
  if (stride * static_cast<std::int64_t>(sizeof(T)) % 1024 == 0) stride += std::max<std::int64_t>(table.pad, 16);
}

template <class T>
void Layout<T>::multiply_columns(const std::vector<T>& a, Direction direction, const T* in, T* out) const {
  const bool plain = direction == Direction::to_queries;
  kernels->product({.m = cols,
                    .n = width,
                    .k = cols,
                    .a = a.data(),
                    .a_row = plain ? cols : 1,
                    .a_col = plain ? 1 : cols,
                    .b = in,
                    .b_row = width,
                    .c = out,
                    .c_row = width,
                    .accumulate = false});
}

template <class T>
void Layout<T>::multiply_rows(const std::vector<T>& a, Direction direction, const T* in, T* out,
                              bool accumulate) const {
  const bool plain = direction == Direction::to_queries;
  kernels->product({.m = rows,
                    .n = cols * width,
                    .k = rows,
                    .a = a.data(),
                    .a_row = plain ? rows : 1,
                    .a_col = plain ? 1 : rows,
                    .b = in,
                    .b_row = stride,
                    .c = out,
                    .c_row = stride,
                    .accumulate = accumulate});
}

std::int64_t slice_width(const Problem& problem) {
  constexpr std::int64_t kL2Cache = 1 << 19;
  const std::int64_t bytes = problem.keys * (problem.is_double ? 8 : 4);
  return std::clamp<std::int64_t>(kL2Cache / bytes / 16 * 16, 16, 64);
}

template std::vector<float> rounded_weights<float>(const Axis&);
template std::vector<double> rounded_weights<double>(const Axis&);
template struct AxisMoments<float>;
template struct AxisMoments<double>;
template struct Layout<float>;
template struct Layout<double>;

}  // namespace factorized

bool can_factorize(const Problem& problem) {
  if (!may_factorize(problem)) return false;
  for (std::int64_t h = 0; h < problem.heads; ++h)
    if (!factorized::separates(factorized::form_of(problem, h))) return false;
  return true;
}

}  // namespace rapt::inline v1
