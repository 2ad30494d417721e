#include "tensor/convolution.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "rapt/error.h"
#include "tensor/matmul.h"
#include "tensor/simd/table.h"

namespace rapt::inline v1 {
namespace {

constexpr std::int64_t kPieceNumbers = 1 << 15;  // gathered at a time: they stay in the L2 cache

template <class T>
struct Convolution {
  Tensor<T> x, y;
  std::int64_t kernel_rows = 0, kernel_cols = 0;
  ConvolutionSteps steps;

  std::int64_t images() const { return x.size(0); }
  std::int64_t in() const { return x.size(3); }
  std::int64_t out() const { return y.size(3); }
  std::int64_t row_width() const { return kernel_cols * in(); }
  std::int64_t patch() const { return kernel_rows * row_width(); }
  // Output rows of one piece.
  std::int64_t piece_rows() const {
    return std::clamp<std::int64_t>(kPieceNumbers / (y.size(2) * patch()), 1, y.size(1));
  }

  // f(image, first output row, rows) for all pieces, in order.
  template <class F>
  void for_pieces(const F& f) const {
    const std::int64_t most = piece_rows();
    for (std::int64_t n = 0; n < images(); ++n)
      for (std::int64_t first = 0; first < y.size(1); first += most) f(n, first, std::min(most, y.size(1) - first));
  }

  // Calls f(offset in the patches, offset in x, count) for every run that is contiguous in both, and zero(offset,
  // count) for what is outside the image.
  template <class F, class Zero>
  void for_runs(std::int64_t n, std::int64_t first, std::int64_t rows, const F& f, const Zero& zero) const {
    const std::int64_t image_rows = x.size(1), image_cols = x.size(2), width = in();
    std::int64_t place = 0;
    for (std::int64_t r = first; r < first + rows; ++r)
      for (std::int64_t c = 0; c < y.size(2); ++c) {
        const std::int64_t col = c * steps.stride - steps.padding;
        const std::int64_t before = std::clamp<std::int64_t>(-col, 0, kernel_cols);
        const std::int64_t after = std::clamp<std::int64_t>(image_cols - col, before, kernel_cols);
        for (std::int64_t a = 0; a < kernel_rows; ++a, place += row_width()) {
          const std::int64_t row = r * steps.stride - steps.padding + a;
          if (row < 0 || row >= image_rows || before == after) {
            zero(place, row_width());
            continue;
          }
          if (before > 0) zero(place, before * width);
          if (after < kernel_cols) zero(place + after * width, (kernel_cols - after) * width);
          f(place + before * width, ((n * image_rows + row) * image_cols + col + before) * width,
            (after - before) * width);
        }
      }
  }

  void gather(std::int64_t n, std::int64_t first, std::int64_t rows, T* patches) const {
    for_runs(
        n, first, rows,
        [&](std::int64_t to, std::int64_t from, std::int64_t count) {
          std::memcpy(patches + to, x.data + from, static_cast<std::size_t>(count) * sizeof(T));
        },
        [&](std::int64_t to, std::int64_t count) { std::fill_n(patches + to, count, T(0)); });
  }

  void scatter(std::int64_t n, std::int64_t first, std::int64_t rows, const T* patches) const {
    const TensorKernels<T>& kernels = tensor_kernels<T>();
    for_runs(
        n, first, rows,
        [&](std::int64_t from, std::int64_t to, std::int64_t count) {
          kernels.add(patches + from, x.grad + to, count);
        },
        [](std::int64_t, std::int64_t) {});
  }

  std::int64_t place(std::int64_t n, std::int64_t row) const { return (n * y.size(1) + row) * y.size(2) * out(); }
  Factor<T> rows_of(const T* data, std::int64_t rows, std::int64_t width) const {
    return {data, rows * y.size(2), width, width, 1};
  }
};

template <class T>
void check(const Tensor<T>& x, const Tensor<T>& kernel, const Tensor<T>& bias, const ConvolutionSteps& steps) {
  const bool shapes = x.rank == 4 && kernel.rank == 4 && x.is_contiguous() && kernel.is_contiguous() &&
                      x.size(3) == kernel.size(2) && (!bias || bias.count() == kernel.size(3));
  const bool fits = shapes && steps.stride >= 1 && steps.padding >= 0 && steps.output(x.size(1), kernel.size(0)) > 0 &&
                    steps.output(x.size(2), kernel.size(1)) > 0;
  if (!fits)
    throw Error(
        "convolution: expected [N, R, C, in] and [K1, K2, in, out] where the kernel fits into the padded image, got "
        "images " +
        to_string(x) + ", a kernel " + to_string(kernel) + ", a stride of " + std::to_string(steps.stride) +
        " and a padding of " + std::to_string(steps.padding));
}

}  // namespace

template <class T>
Tensor<T> convolution(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, const Tensor<T>& bias,
                      const ConvolutionSteps& steps) {
  check(x, kernel, bias, steps);
  Convolution<T> job;
  job.x = x;
  job.kernel_rows = kernel.size(0);
  job.kernel_cols = kernel.size(1);
  job.steps = steps;
  job.y = tape.make(
      {x.size(0), steps.output(x.size(1), kernel.size(0)), steps.output(x.size(2), kernel.size(1)), kernel.size(3)});
  const std::int64_t out = job.out();
  const Factor<T> matrix{kernel.data, job.patch(), out, out, 1};
  T* patches = tape.scratch(job.piece_rows() * job.y.size(2) * job.patch());
  const Packed<T> packed(matrix, tape.scratch(Packed<T>::size(matrix)));
  job.for_pieces([&](std::int64_t n, std::int64_t first, std::int64_t rows) {
    job.gather(n, first, rows, patches);
    T* target = job.y.data + job.place(n, first);
    for (std::int64_t r = 0; bias && r < rows * job.y.size(2); ++r)
      std::memcpy(target + r * out, bias.data, static_cast<std::size_t>(out) * sizeof(T));
    packed.multiply(job.rows_of(patches, rows, job.patch()), target, out, static_cast<bool>(bias));
  });
  tape.record([=, &tape] {
    const Factor<T> back = matrix.transposed();
    std::optional<Packed<T>> packed_back;
    if (x.grad) packed_back.emplace(back, tape.scratch(Packed<T>::size(back)));
    job.for_pieces([&](std::int64_t n, std::int64_t first, std::int64_t rows) {
      const T* gradient = job.y.grad + job.place(n, first);
      const Factor<T> dy = job.rows_of(gradient, rows, out);
      if (kernel.grad) {
        job.gather(n, first, rows, patches);
        multiply(job.rows_of(patches, rows, job.patch()).transposed(), dy, kernel.grad, out, true);
      }
      for (std::int64_t r = 0; bias && bias.grad && r < dy.rows; ++r)
        tensor_kernels<T>().add(gradient + r * out, bias.grad, out);
      if (!packed_back) return;
      packed_back->multiply(dy, patches, job.patch(), false);
      job.scatter(n, first, rows, patches);
    });
  });
  return job.y;
}

template Tensor<float> convolution(Tape<float>&, const Tensor<float>&, const Tensor<float>&, const Tensor<float>&,
                                   const ConvolutionSteps&);
template Tensor<double> convolution(Tape<double>&, const Tensor<double>&, const Tensor<double>&, const Tensor<double>&,
                                    const ConvolutionSteps&);

}  // namespace rapt::inline v1
