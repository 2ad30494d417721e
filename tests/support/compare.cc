#include "support/compare.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/x86/bf16.h"
#include "support/device.h"
#include "support/storage.h"

namespace support {
namespace {

using oracle::Array;
using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

constexpr double kFloatStep = 1.1920929e-7;
constexpr double kPairStep = 1.0 / 512;  // half a step of bf16

// What rounding errors of one gradient are measured against. Errors of many terms partly cancel: they grow with the
// root of their number. Where all is 0 (cosine in one dimension) a part of what arrives at the values counts.
double rounding_size(const oracle::Forward& forward, bool sparse, const Array& sizes, const Array& value_sizes) {
  double pairs = 0;
  for (std::size_t n = 0; n < forward.scores.data.size(); ++n)
    pairs += forward.scores.data[n] > -HUGE_VAL && (!sparse || forward.weights.data[n] > 0);
  const double own = 4 * largest(sizes) / std::sqrt(std::max(1.0, pairs / double(sizes.size())));
  return std::max(own, 0.01 * largest(value_sizes));
}

// Whether most weights of a row may be 0.
bool is_sparse(oracle::Normalizer normalizer) {
  return normalizer == oracle::Normalizer::sparsemax || normalizer == oracle::Normalizer::entmax15;
}

// The largest sum of a row of weights: 1, but for sigmoid.
double largest_sum(const Array& weights) {
  const std::size_t keys = std::size_t(weights.shape[3]);
  double result = 1;
  for (std::size_t row = 0; keys > 0 && row < weights.data.size(); row += keys) {
    double sum = 0;
    for (std::size_t j = 0; j < keys; ++j) sum += weights.data[row + j];
    if (std::isfinite(sum)) result = std::max(result, sum);
  }
  return result;
}

AssertionResult named(const std::string& name, const AssertionResult& result) {
  if (result) return result;
  return AssertionFailure() << name << ": " << result.message();
}

Array rounded(const Array& x, rapt::Dtype dtype) {
  Array y = x;
  for (double& e : y.data) e = round_to(dtype, e);
  return y;
}

}  // namespace

double largest(const Array& x) {
  double result = 0;
  for (double e : x.data)
    if (std::isfinite(e)) result = std::max(result, std::abs(e));
  return result;
}

double largest_difference(const Array& a, const Array& b) {
  double result = 0;
  for (std::size_t n = 0; n < a.data.size(); ++n) {
    const double difference = std::abs(a.data[n] - b.data[n]);
    if (std::isfinite(difference)) result = std::max(result, difference);
  }
  return result;
}

double rounding_of(rapt::Dtype dtype) {
  switch (dtype) {
    case rapt::Dtype::f64: return 1e-12;
    case rapt::Dtype::f32: return 2e-5;
    case rapt::Dtype::bf16: return rapt::active_bf16(rapt::active_isa()) ? 2e-2 : 1e-2;
    case rapt::Dtype::f16: return 2e-3;
  }
  return 0;
}

AssertionResult close(const Array& got, const Array& want, const Array* naive, const Bound& bound) {
  if (got.shape != want.shape || got.data.size() != want.data.size()) return AssertionFailure() << "sizes differ";
  const double size = std::max(largest(want), bound.size);
  double allowed = 1e-11 * size;
  if (bound.dtype != rapt::Dtype::f64) allowed = 2 * largest_difference(*naive, want) + 4 * kFloatStep * size;
  if (bound.rounding) allowed = std::max(allowed, 2 * largest_difference(*bound.rounding, want));
  if (bound.rounding && bound.sums_all) allowed += kPairStep * size;
  for (std::size_t n = 0; n < want.data.size(); ++n) {
    const double x = got.data[n];
    const double y = want.data[n];
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x == y) continue;
    double limit = allowed;
    if (bound.dtype == rapt::Dtype::bf16 || bound.dtype == rapt::Dtype::f16)
      limit += half_step(bound.dtype, std::abs(y) + allowed);
    if (!(std::abs(x - y) <= limit))
      return AssertionFailure() << "element " << n << " is " << x << ", not " << y << ": off by " << std::abs(x - y)
                                << ", allowed " << limit << " (" << label(bound.dtype) << ")";
  }
  return AssertionSuccess();
}

Expected::Expected(const Case& c, bool with_backward) : case_(c) {
  const bool low = c.spec.dtype != rapt::Dtype::f64;
  exact_ = oracle::forward(c.problem);
  if (low) naive_ = oracle::forward(c.problem, oracle::Precision::single);
  const bool pairs = may_round_weights();
  const auto rounding =
      c.spec.dtype == rapt::Dtype::f16 ? oracle::Precision::f16_weights : oracle::Precision::bf16_weights;
  if (pairs) rounding_ = oracle::forward(c.problem, rounding);
  if (!with_backward) return;
  const Array* grad_lse = c.grad_lse.empty() ? nullptr : &c.grad_lse;
  gradient_sizes_ = oracle::gradient_sizes(c.problem, c.grad_out, grad_lse);
  exact_gradients_ = oracle::backward(c.problem, c.grad_out, oracle::Precision::exact, nullptr, grad_lse);
  if (!low) return;
  // A backward pass is handed the outputs as they were stored.
  const auto gradients = [&](const oracle::Forward& forward, oracle::Precision precision) {
    std::vector<Array> stored;
    for (const Array& out : forward.out) stored.push_back(rounded(out, c.spec.dtype));
    return oracle::backward(c.problem, c.grad_out, precision, &stored, grad_lse);
  };
  naive_gradients_ = gradients(naive_, oracle::Precision::single);
  if (pairs) rounding_gradients_ = gradients(rounding_, rounding);
}

bool Expected::may_round_weights() const {
  const rapt::Dtype dtype = case_.spec.dtype;
  // Only aligned arrays reach a device's tensor cores.
  if (!on_cpu()) return dtype != rapt::Dtype::f32 && dtype != rapt::Dtype::f64 && case_.spec.layout == Layout::aligned;
  return dtype == rapt::Dtype::bf16 && rapt::available_bf16().count > 0;
}

bool Expected::rounds_weights() const {
  return !in_f32_ && may_round_weights() && (!on_cpu() || rapt::active_bf16(rapt::active_isa()));
}

AssertionResult Expected::matches(const ForwardResult& got) const {
  const rapt::Dtype dtype = case_.spec.dtype, compute = compute_type(dtype);
  const bool low = dtype != rapt::Dtype::f64;
  if (!got.damage.empty()) return AssertionFailure() << got.damage;
  for (std::size_t n = 0; n < exact_.out.size(); ++n) {
    double value = largest(case_.problem.v[n]);
    if (const auto added = case_.problem.parameters.find("values"); added != case_.problem.parameters.end())
      value += largest(added->second);
    // Where weights are differences of scores, they have the scores' errors, however small they are.
    if (is_sparse(case_.problem.normalizer)) value *= std::max(1.0, largest(exact_.scores));
    Bound bound{dtype, value * largest_sum(exact_.weights)};
    if (rounds_weights()) bound.rounding = &rounding_.out[n];
    const auto result = close(got.out[n], exact_.out[n], low ? &naive_.out[n] : nullptr, bound);
    if (!result) return named("out " + std::to_string(n), result);
  }
  if (!got.lse.empty()) {
    const auto result = close(got.lse, exact_.lse, &naive_.lse, {compute, std::max(2.0, largest(exact_.scores))});
    if (!result) return named("lse", result);
  }
  if (!got.row_max.empty()) {
    auto result = close(got.row_max, exact_.row_max, &naive_.row_max, {compute, std::max(2.0, largest(exact_.scores))});
    if (!result) return named("row maximum", result);
    // An error of the scores is one of exponentials relative to themselves.
    result = close(got.row_sum, exact_.row_sum, &naive_.row_sum,
                   {compute, largest(exact_.row_sum) * (1 + largest(exact_.scores))});
    if (!result) return named("row sum", result);
  }
  if (!got.weights.empty()) {
    const auto result = close(got.weights, exact_.weights, &naive_.weights, {compute, 1});
    if (!result) return named("weights", result);
  }
  return matches(got.statistics);
}

AssertionResult Expected::matches(const oracle::Statistics& got) const {
  if (got.entropy.empty() && got.top_weights.empty()) return AssertionSuccess();
  const rapt::Dtype compute = compute_type(case_.spec.dtype);
  const int top = got.top_weights.empty() ? 0 : static_cast<int>(got.top_weights.shape[3]);
  const std::array<Int, 2> grid =
      !got.position.empty() && got.position.shape[3] == 2 ? case_.problem.grid : std::array<Int, 2>{};
  const oracle::Normalizer normalizer = case_.problem.normalizer;
  const oracle::Statistics want = oracle::statistics(exact_, normalizer, top, grid);
  const oracle::Statistics naive =
      compute == rapt::Dtype::f64 ? want : oracle::statistics(naive_, normalizer, top, grid, oracle::Precision::single);
  const Int keys = exact_.weights.shape[3];
  const double length = double(keys);
  if (!got.entropy.empty()) {
    AssertionResult result = close(got.entropy, want.entropy, &naive.entropy, {compute, largest(exact_.scores)});
    if (!result) return named("entropy", result);
    result = close(got.position, want.position, &naive.position, {compute, length});
    if (!result) return named("position", result);
    result = close(got.covariance, want.covariance, &naive.covariance, {compute, length * length});
    if (!result) return named("covariance", result);
  }
  // Two scores that the precision cannot tell apart may come in either order.
  const double tie = compute == rapt::Dtype::f64 ? 1e-13 : 1e-6;
  const auto same_place = [&](std::size_t row, Int a, Int b) {
    if (a == b) return true;
    if (a < 0 || b < 0 || a >= keys || b >= keys) return false;
    const double* score = exact_.scores.data.data() + static_cast<Int>(row) * keys;
    return std::abs(score[a] - score[b]) <= tie * (1 + std::abs(score[a]));
  };
  for (std::size_t row = 0; row < got.argmax.size(); ++row)
    if (!same_place(row, got.argmax[row], want.argmax[row]))
      return AssertionFailure() << "argmax of row " << row << " is " << got.argmax[row] << ", not " << want.argmax[row];
  if (top == 0) return AssertionSuccess();
  for (std::size_t n = 0; n < got.top_indices.size(); ++n)
    if (!same_place(n / std::size_t(top), got.top_indices[n], want.top_indices[n]))
      return AssertionFailure() << "top index " << n << " is " << got.top_indices[n] << ", not " << want.top_indices[n];
  return named("top weights", close(got.top_weights, want.top_weights, &naive.top_weights, {compute, 1}));
}

AssertionResult Expected::matches(const BackwardResult& got) const {
  if (!got.damage.empty()) return AssertionFailure() << got.damage;
  const bool low = case_.spec.dtype != rapt::Dtype::f64;
  const auto check = [&](const std::string& name, const Array& x, const Array& want, const Array* naive,
                         const Array& sizes, const Array* rounding, bool sums_all = false) {
    if (x.empty()) return AssertionSuccess();
    const Bound bound{case_.spec.dtype,
                      rounding_size(exact_, is_sparse(case_.problem.normalizer), sizes, gradient_sizes_.v[0]),
                      rounds_weights() ? rounding : nullptr, sums_all};
    return named("gradient of " + name, close(x, want, naive, bound));
  };
  const oracle::Gradients &g = got.gradients, &exact = exact_gradients_, &naive = naive_gradients_,
                          &sizes = gradient_sizes_, &rounding = rounding_gradients_;
  AssertionResult result = check("q", g.q, exact.q, &naive.q, sizes.q, &rounding.q);
  if (result) result = check("k", g.k, exact.k, &naive.k, sizes.k, &rounding.k);
  for (std::size_t n = 0; n < g.v.size() && result; ++n)
    result = check("v" + std::to_string(n), g.v[n], exact.v[n], low ? &naive.v[n] : nullptr, sizes.v[n],
                   rounds_weights() ? &rounding.v[n] : nullptr);
  if (result) result = check("bias", g.bias, exact.bias, &naive.bias, sizes.bias, &rounding.bias, true);
  for (const auto& [name, value] : g.parameters)
    if (result)
      result = check(name, value, exact.parameters.at(name), low ? &naive.parameters.at(name) : nullptr,
                     sizes.parameters.at(name), rounds_weights() ? &rounding.parameters.at(name) : nullptr, true);
  return result;
}

AssertionResult agree(const Array& a, const Array& b, double tolerance, double size) {
  if (a.shape != b.shape) return AssertionFailure() << "sizes differ";
  const double allowed = tolerance * std::max(size, std::max(largest(a), largest(b)));
  for (std::size_t n = 0; n < a.data.size(); ++n) {
    const double x = a.data[n];
    const double y = b.data[n];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::abs(x - y) <= allowed))
      return AssertionFailure() << "element " << n << ": " << x << " and " << y << " differ by " << std::abs(x - y)
                                << ", allowed " << allowed;
  }
  return AssertionSuccess();
}

AssertionResult agree(const oracle::Gradients& a, const oracle::Gradients& b, double tolerance) {
  double size = std::max(largest(a.q), largest(a.k));
  for (const Array& v : a.v) size = std::max(size, largest(v));
  for (const auto& entry : a.parameters) size = std::max(size, largest(entry.second));
  size = std::max(1e-30, 0.01 * size);
  AssertionResult result = named("q", agree(a.q, b.q, tolerance, size));
  if (result) result = named("k", agree(a.k, b.k, tolerance, size));
  for (std::size_t n = 0; n < a.v.size() && result; ++n) result = named("v", agree(a.v[n], b.v[n], tolerance, size));
  if (result) result = named("bias", agree(a.bias, b.bias, tolerance, size));
  for (const auto& [name, value] : a.parameters)
    if (result) result = named(name, agree(value, b.parameters.at(name), tolerance, size));
  return result;
}

}  // namespace support
