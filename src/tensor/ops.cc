#include "tensor/ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/pack_cache.h"

namespace rapt::inline v1 {
namespace {

template <class T>
void require(bool fits, const char* operation, const Tensor<T>& a, const Tensor<T>& b, const char* takes) {
  if (!fits)
    throw Error(std::string(operation) + ": expected " + takes + ", got " + to_string(a) + " and " + to_string(b));
}

// The shape of x with another last size.
template <class T>
Tensor<T> make_with_width(Tape<T>& tape, const Tensor<T>& x, std::int64_t width) {
  std::array<std::int64_t, 4> sizes = x.shape;
  sizes[static_cast<std::size_t>(x.rank - 1)] = width;
  return tape.make(std::span<const std::int64_t>(sizes.data(), static_cast<std::size_t>(x.rank)));
}

template <class T>
void add_column_sums(const Matrix<T>& y, T* sums) {
  for (std::int64_t r = 0; r < y.rows; ++r) tensor_kernels<T>().add(y.grad_row(r), sums, y.cols);
}

// y = f(x·W + b) with W as a factor. f, where there is one, is such that its slope follows from y if the tape records.
template <class T>
Tensor<T> affine(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias, bool transposed,
                 std::optional<Activation> kind = {}) {
  const Matrix<T> w = as_matrix(weight);
  const std::int64_t in = transposed ? w.cols : w.rows;
  const std::int64_t out = transposed ? w.rows : w.cols;
  require(x.rank > 0 && x.size(-1) == in, "linear", x, weight, "rows as wide as the matrix's input");
  if (bias) require(bias.count() == out, "linear", bias, weight, "one bias for each output");
  const Tensor<T> y = make_with_width(tape, x, out);
  const Matrix<T> xm = as_matrix(x);
  const Matrix<T> ym = as_matrix(y);
  const Factor<T> right = transposed ? factor(w).transposed() : factor(w);
  multiply(tape, factor(xm), right, {ym.data, ym.stride, false, bias.data, kind});
  tape.record([=] {
    // From here on the gradient is that of the sum; nothing else reads it.
    if (kind) tensor_kernels<T>().multiply_by_slope(*kind, ym.data, ym.grad, ym.rows * ym.cols);
    if (xm.grad) multiply(grad_factor(ym), transposed ? factor(w) : factor(w).transposed(), xm.grad, xm.stride, true);
    if (w.grad) {
      if (transposed) multiply(grad_factor(ym).transposed(), factor(xm), w.grad, w.stride, true);
      else multiply(factor(xm).transposed(), grad_factor(ym), w.grad, w.stride, true);
    }
    if (bias && bias.grad) add_column_sums(ym, bias.grad);
  });
  return y;
}

// Calls f(offset in a, offset in b) for each row of a; b is repeated where its size is 1.
template <class T, class F>
void for_rows(const Tensor<T>& a, const Tensor<T>& b, F&& f) {
  std::array<std::int64_t, 3> sizes{1, 1, 1};
  std::array<std::int64_t, 3> step_a{};
  std::array<std::int64_t, 3> step_b{};
  for (int d = 0; d < a.rank - 1; ++d) {
    const auto to = static_cast<std::size_t>(3 - (a.rank - 1) + d);
    const auto from = static_cast<std::size_t>(d);
    sizes[to] = a.shape[from];
    step_a[to] = a.strides[from];
    step_b[to] = b.shape[from] == 1 ? 0 : b.strides[from];
  }
  for (std::int64_t i = 0; i < sizes[0]; ++i)
    for (std::int64_t j = 0; j < sizes[1]; ++j)
      for (std::int64_t k = 0; k < sizes[2]; ++k)
        f(i * step_a[0] + j * step_a[1] + k * step_a[2], i * step_b[0] + j * step_b[1] + k * step_b[2]);
}

template <class T>
bool repeats_into(const Tensor<T>& a, const Tensor<T>& b, int dims) {
  if (a.rank != b.rank) return false;
  for (int d = 0; d < dims; ++d)
    if (b.size(d) != a.size(d) && b.size(d) != 1) return false;
  return true;
}

}  // namespace

template <class T>
Tensor<T> linear(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  return affine(tape, x, weight, bias, false);
}

template <class T>
Tensor<T> linear_transposed(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  return affine(tape, x, weight, bias, true);
}

template <class T>
Tensor<T> linear_activated(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias,
                           Activation kind) {
  // gelu's slope follows from the sum alone.
  if (kind == Activation::gelu && tape.recording()) return activate(tape, kind, linear(tape, x, weight, bias));
  return affine(tape, x, weight, bias, false, kind);
}

template <class T>
Tensor<T> linear_of_heads(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  constexpr std::int64_t kRows = 128;  // of y at a time: they stay in the L2 cache while the heads are added
  require(x.rank == 3 && x.is_contiguous() && weight.rank == 2 && weight.size(0) == x.size(0) * x.size(2) &&
              bias.count() == weight.size(1),
          "linear_of_heads", x, weight, "[heads, rows, in], [heads·in, out] and one bias for each output");
  const std::int64_t heads = x.size(0), rows = x.size(1), in = x.size(2), out = weight.size(1);
  const Tensor<T> y = tape.make({rows, out});
  const auto head = [=](std::int64_t h) { return Factor<T>{weight.data + h * in * out, in, out, out, 1}; };
  const auto block = [=](const T* data, std::int64_t first, std::int64_t width) {
    return Factor<T>{data + first * width, std::min(kRows, rows - first), width, width, 1};
  };
  std::vector<Packed<T>> packed;
  for (std::int64_t h = 0; h < heads; ++h) packed.emplace_back(head(h), tape.scratch(Packed<T>::size(head(h))));
  for (std::int64_t first = 0; first < rows; first += kRows) {
    T* to = y.data + first * out;
    for (std::int64_t r = 0; r < std::min(kRows, rows - first); ++r)
      std::memcpy(to + r * out, bias.data, static_cast<std::size_t>(out) * sizeof(T));
    for (std::int64_t h = 0; h < heads; ++h)
      packed[static_cast<std::size_t>(h)].multiply(block(x.data + h * rows * in, first, in), to, out, true);
  }
  tape.record([=] {
    const Factor<T> dy{y.grad, rows, out, out, 1};
    for (std::int64_t h = 0; h < heads; ++h) {
      if (x.grad) multiply(dy, head(h).transposed(), x.grad + h * rows * in, in, true);
      const Factor<T> values{x.data + h * rows * in, rows, in, in, 1};
      if (weight.grad) multiply(values.transposed(), dy, weight.grad + h * in * out, out, true);
    }
    if (bias.grad) add_column_sums(as_matrix(y), bias.grad);
  });
  return y;
}

template <class T>
Tensor<T> add(Tape<T>& tape, const Tensor<T>& a, const Tensor<T>& b) {
  require(repeats_into(a, b, a.rank - 1) && a.size(-1) == b.size(-1), "add", a, b,
          "equal sizes, or sizes of 1 in the second");
  const Tensor<T> y = tape.make_like(a);
  const std::int64_t width = a.size(-1);
  std::int64_t row = 0;
  for_rows(a, b, [&](std::int64_t of_a, std::int64_t of_b) {
    T* to = y.data + row++ * width;
    for (std::int64_t n = 0; n < width; ++n) to[n] = a.data[of_a + n] + b.data[of_b + n];
  });
  tape.record([=] {
    const TensorKernels<T>& kernels = tensor_kernels<T>();
    std::int64_t from = 0;
    for_rows(a, b, [&](std::int64_t of_a, std::int64_t of_b) {
      const T* grad = y.grad + from++ * width;
      if (a.grad) kernels.add(grad, a.grad + of_a, width);
      if (b.grad) kernels.add(grad, b.grad + of_b, width);
    });
  });
  return y;
}

template <class T>
Tensor<T> scale(Tape<T>& tape, const Tensor<T>& x, T by) {
  const Tensor<T> y = tape.make_like(x);
  const Matrix<T> xm = as_matrix(x);
  for (std::int64_t r = 0; r < xm.rows; ++r)
    for (std::int64_t n = 0; n < xm.cols; ++n) y.data[r * xm.cols + n] = by * xm.row(r)[n];
  tape.record([=] {
    if (!xm.grad) return;
    for (std::int64_t r = 0; r < xm.rows; ++r)
      tensor_kernels<T>().add_scaled(by, y.grad + r * xm.cols, xm.grad_row(r), xm.cols);
  });
  return y;
}

template <class T>
Tensor<T> activate(Tape<T>& tape, Activation kind, const Tensor<T>& x) {
  const Tensor<T> y = tape.make_like(x);
  const Matrix<T> xm = as_matrix(x);
  for (std::int64_t r = 0; r < xm.rows; ++r)
    tensor_kernels<T>().activate(kind, xm.row(r), y.data + r * xm.cols, xm.cols);
  tape.record([=] {
    if (!xm.grad) return;
    for (std::int64_t r = 0; r < xm.rows; ++r) {
      const std::int64_t at = r * xm.cols;
      tensor_kernels<T>().activate_backward(kind, xm.row(r), y.data + at, y.grad + at, xm.grad_row(r), xm.cols);
    }
  });
  return y;
}

template <class T>
Tensor<T> concatenate(Tape<T>& tape, std::span<const Tensor<T>> parts) {
  if (parts.empty()) throw Error("concatenate: expected at least one tensor, got none");
  std::int64_t width = 0;
  for (const Tensor<T>& part : parts) {
    require(repeats_into(parts[0], part, parts[0].rank - 1), "concatenate", parts[0], part,
            "equal leading sizes, or sizes of 1");
    width += part.size(-1);
  }
  const Tensor<T> y = make_with_width(tape, parts[0], width);
  const std::span<const Tensor<T>> kept = tape.keep(parts);
  std::int64_t first = 0;
  for (const Tensor<T>& part : kept) {
    const Tensor<T> place = y.slice(-1, first, first + part.size(-1));
    for_rows(place, part, [&](std::int64_t to, std::int64_t from) {
      std::memcpy(place.data + to, part.data + from, static_cast<std::size_t>(part.size(-1)) * sizeof(T));
    });
    first += part.size(-1);
  }
  tape.record([=] {
    std::int64_t begin = 0;
    for (const Tensor<T>& part : kept) {
      const Tensor<T> place = y.slice(-1, begin, begin + part.size(-1));
      if (part.grad)
        for_rows(place, part, [&](std::int64_t from, std::int64_t to) {
          tensor_kernels<T>().add(place.grad + from, part.grad + to, part.size(-1));
        });
      begin += part.size(-1);
    }
  });
  return y;
}

template <class T>
Tensor<T> embed(Tape<T>& tape, const Tensor<T>& table, std::span<const int> ids, std::int64_t batch) {
  const Matrix<T> rows = as_matrix(table);
  const auto count = static_cast<std::int64_t>(ids.size());
  if (batch < 1 || count % batch != 0)
    throw Error("embed: expected a number of ids that is a multiple of the batch, " + std::to_string(batch) + ", got " +
                std::to_string(count));
  const Tensor<T> y = tape.make({count / batch, batch, rows.cols});
  for (std::int64_t n = 0; n < count; ++n) {
    const int id = ids[static_cast<std::size_t>(n)];
    if (id < 0 || id >= rows.rows)
      throw Error("embed: expected ids from 0 to " + std::to_string(rows.rows - 1) + ", got " + std::to_string(id));
    std::memcpy(y.data + n * rows.cols, rows.row(id), static_cast<std::size_t>(rows.cols) * sizeof(T));
  }
  if (rows.grad && tape.recording()) {
    const std::span<const int> kept = tape.keep(ids);
    tape.record([=] {
      for (std::size_t n = 0; n < kept.size(); ++n)
        tensor_kernels<T>().add(y.grad + static_cast<std::int64_t>(n) * rows.cols, rows.grad_row(kept[n]), rows.cols);
    });
  }
  return y;
}

template <class T>
Tensor<T> layer_norm(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& gain, const Tensor<T>& bias, T epsilon) {
  require(gain.count() == x.size(-1) && bias.count() == x.size(-1), "layer_norm", x, gain,
          "a gain as wide as the rows");
  const Tensor<T> y = tape.make_like(x);
  const Matrix<T> xm = as_matrix(x);
  T* mean = tape.scratch(xm.rows);
  T* inverse = tape.scratch(xm.rows);
  for (std::int64_t r = 0; r < xm.rows; ++r)
    tensor_kernels<T>().layer_norm(xm.row(r), gain.data, bias.data, y.data + r * xm.cols, xm.cols, epsilon, mean + r,
                                   inverse + r);
  tape.record([=] {
    for (std::int64_t r = 0; r < xm.rows; ++r)
      tensor_kernels<T>().layer_norm_backward(xm.row(r), gain.data, y.grad + r * xm.cols, mean[r], inverse[r], xm.cols,
                                              xm.grad ? xm.grad_row(r) : nullptr, gain.grad, bias.grad);
  });
  return y;
}

template <class T>
Tensor<T> dropout(Tape<T>& tape, const Tensor<T>& x, T rate, std::uint64_t key) {
  if (!(rate >= 0 && rate < 1)) throw Error("dropout: expected a rate from 0 to below 1, got " + std::to_string(rate));
  if (rate == T(0)) return x;
  const Tensor<T> y = tape.make_like(x);
  const Tensor<T> flat = x.reshape({x.count()});
  tensor_kernels<T>().dropout(key, rate, flat.data, y.data, flat.count(), false);
  tape.record([=] {
    if (flat.grad) tensor_kernels<T>().dropout(key, rate, y.grad, flat.grad, flat.count(), true);
  });
  return y;
}

template <class T>
Tensor<T> rotate(Tape<T>& tape, const Tensor<T>& x, std::int64_t heads, std::int64_t first_step) {
  if (x.rank != 3 || heads < 1 || x.size(2) % (2 * heads) != 0)
    throw Error("rotate: expected [steps, batch, width] with an even head_dim, got " + to_string(x) + " and " +
                counted(heads, "head"));
  const std::int64_t dim = x.size(2) / heads;
  const std::int64_t half = dim / 2;
  const std::int64_t steps = x.size(0);
  T* cosine = tape.scratch(steps * half);
  T* sine = tape.scratch(steps * half);
  for (std::int64_t s = 0; s < steps; ++s)
    for (std::int64_t n = 0; n < half; ++n) {
      const double frequency = std::pow(10000.0, -2.0 * static_cast<double>(n) / static_cast<double>(dim));
      const double angle = static_cast<double>(first_step + s) * frequency;
      cosine[s * half + n] = static_cast<T>(std::cos(angle));
      sine[s * half + n] = static_cast<T>(std::sin(angle));
    }
  const Tensor<T> y = tape.make_like(x);
  const Matrix<T> xm = as_matrix(x);
  const std::int64_t batch = x.size(1);
  // The backward pass rotates by the opposite angle.
  const auto rotate_rows = [=](const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride, T sign,
                               bool sum) {
    for (std::int64_t r = 0; r < steps * batch; ++r) {
      const T* c = cosine + r / batch * half;
      const T* s = sine + r / batch * half;
      for (std::int64_t h = 0; h < heads; ++h) {
        const T* in = from + r * from_stride + h * dim;
        T* out = to + r * to_stride + h * dim;
        for (std::int64_t n = 0; n < half; ++n) {
          const T a = in[2 * n] * c[n] - sign * in[2 * n + 1] * s[n];
          const T b = sign * in[2 * n] * s[n] + in[2 * n + 1] * c[n];
          out[2 * n] = sum ? out[2 * n] + a : a;
          out[2 * n + 1] = sum ? out[2 * n + 1] + b : b;
        }
      }
    }
  };
  rotate_rows(xm.data, xm.stride, y.data, xm.cols, T(1), false);
  tape.record([=] {
    if (xm.grad) rotate_rows(y.grad, xm.cols, xm.grad, xm.stride, T(-1), true);
  });
  return y;
}

template <class T>
LossSums cross_entropy(Tape<T>& tape, const Tensor<T>& logits, std::span<const int> targets, int ignored, T smoothing,
                       T weight) {
  const Matrix<T> rows = as_matrix(logits);
  if (static_cast<std::int64_t>(targets.size()) != rows.rows)
    throw Error("cross_entropy: expected one target for each row, got " + std::to_string(targets.size()) +
                " targets for logits " + to_string(logits));
  LossSums sums;
  for (std::int64_t r = 0; r < rows.rows; ++r) {
    const int target = targets[static_cast<std::size_t>(r)];
    if (target == ignored) continue;
    if (target < 0 || target >= rows.cols)
      throw Error("cross_entropy: expected targets from 0 to " + std::to_string(rows.cols - 1) + ", got " +
                  std::to_string(target));
    std::int64_t best = 0;
    // The gradient is computed while the row is in the cache; backward() has nothing left to do.
    sums.loss += tensor_kernels<T>().cross_entropy(rows.row(r), rows.cols, target, smoothing, weight,
                                                   tape.recording() ? rows.grad_row(r) : nullptr, &best);
    ++sums.tokens;
    sums.correct += best == target ? 1 : 0;
  }
  return sums;
}

#define RAPT_INSTANTIATE(T)                                                                                        \
  template Tensor<T> linear(Tape<T>&, const Tensor<T>&, const Tensor<T>&, const Tensor<T>&);                       \
  template Tensor<T> linear_transposed(Tape<T>&, const Tensor<T>&, const Tensor<T>&, const Tensor<T>&);            \
  template Tensor<T> linear_activated(Tape<T>&, const Tensor<T>&, const Tensor<T>&, const Tensor<T>&, Activation); \
  template Tensor<T> linear_of_heads(Tape<T>&, const Tensor<T>&, const Tensor<T>&, const Tensor<T>&);              \
  template Tensor<T> add(Tape<T>&, const Tensor<T>&, const Tensor<T>&);                                            \
  template Tensor<T> scale(Tape<T>&, const Tensor<T>&, T);                                                         \
  template Tensor<T> activate(Tape<T>&, Activation, const Tensor<T>&);                                             \
  template Tensor<T> concatenate(Tape<T>&, std::span<const Tensor<T>>);                                            \
  template Tensor<T> embed(Tape<T>&, const Tensor<T>&, std::span<const int>, std::int64_t);                        \
  template Tensor<T> layer_norm(Tape<T>&, const Tensor<T>&, const Tensor<T>&, const Tensor<T>&, T);                \
  template Tensor<T> dropout(Tape<T>&, const Tensor<T>&, T, std::uint64_t);                                        \
  template Tensor<T> rotate(Tape<T>&, const Tensor<T>&, std::int64_t, std::int64_t);                               \
  template LossSums cross_entropy(Tape<T>&, const Tensor<T>&, std::span<const int>, int, T, T);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::inline v1
