#include "attend/exact_errors.h"

#include <algorithm>
#include <cmath>

#include "support/sanitized.h"
#include "support/storage.h"

namespace exact {
namespace {

using oracle::Array;

Array constant(const Array& like, double value) {
  Array x(like.shape);
  std::fill(x.data.begin(), x.data.end(), value);
  return x;
}

}  // namespace

oracle::Precision naive_precision(rapt::Dtype dtype, bool pairs) {
  if (dtype == rapt::Dtype::f64) return oracle::Precision::exact;
  return pairs ? oracle::Precision::bf16_weights : oracle::Precision::single;
}

void Errors::add(const std::string& name, rapt::Dtype dtype, const Array& got, const Array& want, const Array& naive,
                 const Array& sizes) {
  const double most = support::largest(want);
  // Where everything cancels, the rest may be of second order.
  double step = 4 * 0x1p-24 * std::max(most, 0x1p-20 * support::largest(sizes));
  // In f64 the naive formula is as exact as the oracle.
  if (dtype == rapt::Dtype::f64) step = 1e-11 * std::max(most, support::largest(sizes));
  else if (dtype != rapt::Dtype::f32) step += support::half_step(dtype, most);
  // Kernels flush subnormal numbers to 0, in intermediate results too.
  if (dtype != rapt::Dtype::f64) step += 0x1p-126;
  double far = 0;
  for (std::size_t n = 0; n < want.data.size(); ++n) {
    const double d = std::abs(got.data[n] - want.data[n]);
    far = std::isfinite(d) ? std::max(far, d) : HUGE_VAL;
  }
  const double size = std::max(most, support::largest(sizes));
  const double unit = weight_ == SeedWeight::relative && size > 0 ? size : 1;
  Sums& s = sums_[name];
  s.ours += far / unit;
  s.naive += support::largest_difference(naive, want) / unit;
  s.floor += step / unit;
}

void Errors::expect_within(const std::string& also) const {
  // A single seed says too little; the calls were made.
  if (support::kSanitized) return;
  for (const auto& [name, s] : sums_)
    EXPECT_LE(s.ours, 2 * s.naive + s.floor)
        << name << ": " << s.ours / (2 * s.naive + s.floor) << " of what is allowed; naive " << s.naive << ", rounding "
        << s.floor << also;
}

void add_outputs(Errors& errors, const support::Case& c, bool pairs) {
  const oracle::Forward want = oracle::forward(c.problem);
  const oracle::Forward naive = oracle::forward(c.problem, naive_precision(c.spec.dtype, pairs));
  const support::ForwardResult got = support::Call(c).forward();
  for (std::size_t n = 0; n < want.out.size(); ++n)
    errors.add("out", c.spec.dtype, got.out[n], want.out[n], naive.out[n],
               constant(want.out[n], support::largest(c.problem.v[n])));
}

void add_gradients(Errors& errors, const support::Case& c, bool pairs, bool saved) {
  const rapt::Dtype dtype = c.spec.dtype;
  const oracle::Precision precision = naive_precision(dtype, pairs);
  const oracle::Gradients exact = oracle::backward(c.problem, c.grad_out);
  const oracle::Gradients naive = oracle::backward(c.problem, c.grad_out, precision);
  const oracle::Gradients sizes = oracle::gradient_sizes(c.problem, c.grad_out);
  support::Call call(c);
  support::BackwardWants wants;
  wants.saved = saved;
  const oracle::Gradients got = call.backward(wants).gradients;
  errors.add("gradient of queries", dtype, got.q, exact.q, naive.q, sizes.q);
  errors.add("gradient of keys", dtype, got.k, exact.k, naive.k, sizes.k);
  for (std::size_t n = 0; n < got.v.size(); ++n)
    errors.add("gradient of values", dtype, got.v[n], exact.v[n], naive.v[n], sizes.v[n]);
  if (!got.bias.empty()) errors.add("gradient of bias", dtype, got.bias, exact.bias, naive.bias, sizes.bias);
  for (const auto& [name, value] : got.parameters)
    errors.add("gradient of " + name, dtype, value, exact.parameters.at(name), naive.parameters.at(name),
               sizes.parameters.at(name));
}

}  // namespace exact
