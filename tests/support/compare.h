#pragma once

#include <gtest/gtest.h>

#include <string>

#include "support/call.h"

// How far a result may be from the oracle.
namespace support {

double largest(const oracle::Array& x);  // of the absolute values; infinities and NaN do not count
double largest_difference(const oracle::Array& a, const oracle::Array& b);

// f64: 1e-11 of the largest number. f32: twice the error of the naive float evaluation and a few roundings of `size`,
// the magnitude of what is summed. bf16 and f16: that, and one rounding of each element to the storage type. Pair products
// and tensor cores are held to the naive evaluation whose weights are of the storage type too.
struct Bound {
  rapt::Dtype dtype = rapt::Dtype::f64;
  double size = 1;
  const oracle::Array* rounding = nullptr;  // the evaluation that rounds as pair products do, where they may be used
  // A few numbers that sum over all pairs: one lucky naive evaluation says little, so `size` counts in steps of bf16 too.
  bool sums_all = false;
};

// Infinities must be equal and NaN must meet NaN; the rest obeys the bound. `naive` may be null for f64.
testing::AssertionResult close(const oracle::Array& got, const oracle::Array& want, const oracle::Array* naive,
                               const Bound& bound);

// The oracle's answers for a case, computed once and compared with many runs.
class Expected {
 public:
  explicit Expected(const Case& c, bool with_backward = false);

  // What follows was computed by kernels that round nothing on the way.
  void hold_to_f32() { in_f32_ = true; }

  // Outputs, lse and, where they were asked for, weights and statistics.
  testing::AssertionResult matches(const ForwardResult& got) const;
  testing::AssertionResult matches(const BackwardResult& got) const;

  const oracle::Forward& forward() const { return exact_; }
  const oracle::Gradients& gradients() const { return exact_gradients_; }

 private:
  testing::AssertionResult matches(const oracle::Statistics& got) const;
  // What processors multiply as pairs of bf16, and devices on their tensor cores, is compared with an evaluation that
  // rounds as they do.
  bool may_round_weights() const;
  bool rounds_weights() const;

  Case case_;
  bool in_f32_ = false;
  oracle::Forward exact_, naive_;
  oracle::Forward rounding_;
  oracle::Gradients exact_gradients_, naive_gradients_, rounding_gradients_, gradient_sizes_;
};

// Every element equal to within `tolerance` of the largest, or of `size`: for results that come from two paths.
testing::AssertionResult agree(const oracle::Array& a, const oracle::Array& b, double tolerance, double size = 1e-30);
// Gradients are sums that may cancel: the size is a hundredth of the largest gradient of all.
testing::AssertionResult agree(const oracle::Gradients& a, const oracle::Gradients& b, double tolerance);

// A bound for two orders of the same arithmetic.
double rounding_of(rapt::Dtype dtype);

}  // namespace support
