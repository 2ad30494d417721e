#include "tensor/losses.h"

#include <cmath>
#include <string>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

// Keeps the length of a vector above zero.
constexpr double kLeastSquare = 1e-6;

template <class T>
Matrix<T> rows_of(const char* operation, const Tensor<T>& x, std::size_t targets, std::int64_t width) {
  const Matrix<T> rows = as_matrix(x);
  if ((width > 0 && rows.cols != width) || static_cast<std::int64_t>(targets) != rows.rows * rows.cols)
    throw Error(std::string(operation) + ": expected one target for each number" +
                (width > 0 ? ", in rows of " + std::to_string(width) : std::string()) + ", got " +
                counted(targets, "target") + " for " + to_string(x));
  return rows;
}

}  // namespace

template <class T>
LossSums absolute_error(Tape<T>& tape, const Tensor<T>& x, std::span<const float> targets, double near, T weight) {
  const Matrix<T> rows = rows_of("absolute_error", x, targets.size(), 0);
  LossSums sums;
  std::size_t place = 0;
  for (std::int64_t r = 0; r < rows.rows; ++r)
    for (std::int64_t n = 0; n < rows.cols; ++n) {
      const float target = targets[place++];
      if (std::isnan(target)) continue;
      const T difference = rows.row(r)[n] - static_cast<T>(target);
      sums.loss += std::abs(static_cast<double>(difference));
      ++sums.tokens;
      sums.correct += std::abs(static_cast<double>(difference)) <= near ? 1 : 0;
      if (tape.recording() && rows.grad)
        rows.grad_row(r)[n] += difference > 0 ? weight : difference < 0 ? -weight : T(0);
    }
  return sums;
}

template <class T>
LossSums cosine_error(Tape<T>& tape, const Tensor<T>& x, std::span<const float> targets, double near, T weight) {
  const Matrix<T> rows = rows_of("cosine_error", x, targets.size(), 3);
  LossSums sums;
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const float* t = targets.data() + 3 * r;
    if (t[0] == 0 && t[1] == 0 && t[2] == 0) continue;
    const T* v = rows.row(r);
    const T length = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + T(kLeastSquare));
    const T cosine = (v[0] * static_cast<T>(t[0]) + v[1] * static_cast<T>(t[1]) + v[2] * static_cast<T>(t[2])) / length;
    sums.loss += 1 - static_cast<double>(cosine);
    ++sums.tokens;
    sums.correct += static_cast<double>(cosine) >= near ? 1 : 0;
    if (tape.recording() && rows.grad)
      for (int n = 0; n < 3; ++n)
        rows.grad_row(r)[n] -= weight * (static_cast<T>(t[n]) - cosine * v[n] / length) / length;
  }
  return sums;
}

template <class T>
LossSums binary_cross_entropy(Tape<T>& tape, const Tensor<T>& x, std::span<const std::uint8_t> targets,
                              const BinaryWeights& weights, T weight) {
  const Matrix<T> rows = rows_of("binary_cross_entropy", x, targets.size(), 1);
  LossSums sums;
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const bool one = targets[static_cast<std::size_t>(r)] != 0;
    const T logit = rows.row(r)[0];
    const T own = static_cast<T>(one ? weights.one : weights.zero);
    // log(1 + e^∓x), written so that nothing overflows.
    const T wrong = one ? -logit : logit;
    sums.loss += static_cast<double>(own * (std::max(wrong, T(0)) + std::log1p(std::exp(-std::abs(wrong)))));
    ++sums.tokens;
    sums.correct += (logit > 0) == one ? 1 : 0;
    if (tape.recording() && rows.grad) {
      const T sigmoid = logit >= 0 ? 1 / (1 + std::exp(-logit)) : std::exp(logit) / (1 + std::exp(logit));
      rows.grad_row(r)[0] += weight * own * (sigmoid - (one ? T(1) : T(0)));
    }
  }
  return sums;
}

#define RAPT_INSTANTIATE(T)                                                                         \
  template LossSums absolute_error(Tape<T>&, const Tensor<T>&, std::span<const float>, double, T);  \
  template LossSums cosine_error(Tape<T>&, const Tensor<T>&, std::span<const float>, double, T);    \
  template LossSums binary_cross_entropy(Tape<T>&, const Tensor<T>&, std::span<const std::uint8_t>, \
                                         const BinaryWeights&, T);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1
