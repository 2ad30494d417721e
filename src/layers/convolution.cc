#include "layers/convolution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "attend/counted.h"
#include "backends/cpu/parallel.h"
#include "rapt/error.h"
#include "rapt/threads.h"

namespace rapt::inline v1::layers {
namespace {

// Far above any use, and small enough that products of sizes stay exact.
constexpr std::int64_t kLargestStep = std::int64_t{1} << 20;

void check_step(const char* name, const PerAxis& values, std::int64_t lowest) {
  for (const std::int64_t value : values)
    if (value < lowest || value > kLargestStep)
      throw Error(std::string("conv: ") + name + ": expected an integer from " + std::to_string(lowest) + " to " +
                  std::to_string(kLargestStep) + ", got " + std::to_string(value));
}

void check_type(const char* name, const Array& array, ElementType type) {
  if (array.type() != type)
    throw Error(std::string("conv: ") + name + ": expected f32 or f64, the same for all arrays, got " +
                name_of(array.type()));
}

template <class T>
struct Direct {
  const ConvolutionSizes& sizes;
  std::span<const T> image, kernel, bias;

  // The taps that fall on the image, added to one pixel's sums.
  void add_taps(std::int64_t b, std::int64_t i, std::int64_t j, std::vector<double>& sums) const {
    for (std::int64_t a = 0; a < sizes.kernel[0]; ++a) {
      const std::int64_t row = i * sizes.stride[0] + a * sizes.dilation[0] - sizes.padding[0];
      if (row < 0 || row >= sizes.image[0]) continue;
      for (std::int64_t c = 0; c < sizes.kernel[1]; ++c) {
        const std::int64_t col = j * sizes.stride[1] + c * sizes.dilation[1] - sizes.padding[1];
        if (col < 0 || col >= sizes.image[1]) continue;
        const T* x = image.data() + ((b * sizes.image[0] + row) * sizes.image[1] + col) * sizes.in;
        const T* w = kernel.data() + (a * sizes.kernel[1] + c) * sizes.in * sizes.out;
        for (std::int64_t n = 0; n < sizes.in; ++n, w += sizes.out)
          for (std::int64_t o = 0; o < sizes.out; ++o)
            sums[static_cast<std::size_t>(o)] += static_cast<double>(x[n]) * static_cast<double>(w[o]);
      }
    }
  }

  Array run() const {
    Array result(element_type_of<T>(), sizes.output_shape());
    T* all = result.template as<T>().data();
    const PerAxis output = sizes.output();
    parallel_for(sizes.batch * output[0], default_threads(), [&](std::int64_t row, int) {
      std::vector<double> sums(static_cast<std::size_t>(sizes.out));
      T* out = all + row * output[1] * sizes.out;
      for (std::int64_t j = 0; j < output[1]; ++j) {
        std::fill(sums.begin(), sums.end(), 0.0);
        std::copy(bias.begin(), bias.end(), sums.begin());
        add_taps(row / output[0], row % output[0], j, sums);
        for (const double sum : sums) *out++ = static_cast<T>(sum);
      }
    });
    return result;
  }
};

template <class T>
Array convolve_as(const Array& image, const Array& kernel, const Array& bias, const ConvolutionSizes& sizes) {
  return Direct<T>{sizes, image.as<T>(), kernel.as<T>(), bias ? bias.as<T>() : std::span<const T>()}.run();
}

template <class T>
double largest_as(const Array& array, const char* argument) {
  double largest = 0;
  for (const T value : array.as<T>()) {
    if (!std::isfinite(value))
      throw Error(std::string("conv: ") + argument + ": expected finite numbers, got " + std::to_string(value));
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  return largest;
}

}  // namespace

PerAxis ConvolutionSizes::output() const {
  const PerAxis whole = padded(), taps = span();
  return {(whole[0] - taps[0]) / stride[0] + 1, (whole[1] - taps[1]) / stride[1] + 1};
}

std::vector<std::int64_t> ConvolutionSizes::output_shape() const {
  const PerAxis size = output();
  if (batched) return {batch, size[0], size[1], out};
  return {size[0], size[1], out};
}

ConvolutionSizes convolution_sizes(const Array& image, const Array& kernel, const ConvolutionOptions& options) {
  if (kernel.rank() != 4 || kernel.count() == 0)
    throw Error("conv: kernel: expected [K1, K2, Din, Dout], sizes of 1 or more, got shape " +
                to_string(kernel.shape()));
  if ((image.rank() != 3 && image.rank() != 4) || image.count() == 0)
    throw Error("conv: image: expected [R, C, D] or [B, R, C, D], channels last, sizes of 1 or more, got shape " +
                to_string(image.shape()));
  ConvolutionSizes sizes;
  sizes.batched = image.rank() == 4;
  sizes.batch = sizes.batched ? image.shape()[0] : 1;
  const std::int64_t* last = image.shape().data() + image.rank() - 3;
  sizes.image = {last[0], last[1]};
  sizes.kernel = {kernel.shape()[0], kernel.shape()[1]};
  sizes.in = kernel.shape()[2];
  sizes.out = kernel.shape()[3];
  if (last[2] != sizes.in)
    throw Error("conv: image: expected " + counted(sizes.in, "channel") + " in the last dimension, got shape " +
                to_string(image.shape()) + " for a kernel " + to_string(kernel.shape()));
  check_step("dilation", options.dilation, 1);
  check_step("stride", options.stride, 1);
  sizes.dilation = options.dilation;
  sizes.stride = options.stride;
  for (std::size_t n = 0; n < 2; ++n) sizes.padding[n] = sizes.kernel[n] / 2 * sizes.dilation[n];
  if (options.padding) {
    check_step("padding", *options.padding, 0);
    sizes.padding = *options.padding;
  }
  const PerAxis whole = sizes.padded(), taps = sizes.span();
  if (taps[0] > whole[0] || taps[1] > whole[1])
    throw Error("conv: image: expected at least the " + counted(taps[0], "row") + " and " + counted(taps[1], "column") +
                " that the kernel spans, got " + std::to_string(whole[0]) + " and " + std::to_string(whole[1]) +
                ", padding included");
  return sizes;
}

Array convolve(const Array& image, const Array& kernel, const Array& bias, const ConvolutionOptions& options) {
  const ConvolutionSizes sizes = convolution_sizes(image, kernel, options);
  const ElementType type = image.type() == ElementType::f64 ? ElementType::f64 : ElementType::f32;
  check_type("image", image, type);
  check_type("kernel", kernel, type);
  if (bias) check_type("bias", bias, type);
  if (bias && bias.shape() != std::vector<std::int64_t>{sizes.out})
    throw Error("conv: bias: expected [" + std::to_string(sizes.out) +
                "], one number for each output channel, got shape " + to_string(bias.shape()));
  return type == ElementType::f64 ? convolve_as<double>(image, kernel, bias, sizes)
                                  : convolve_as<float>(image, kernel, bias, sizes);
}

double largest_finite(const Array& array, const char* argument) {
  return array.type() == ElementType::f64 ? largest_as<double>(array, argument) : largest_as<float>(array, argument);
}

double rounding_of(const Array& image, const Array& kernel, const Array& bias, const ConvolutionOptions& options) {
  const auto sizes_of_numbers = [](const Array& array) {
    Array result = array.to(ElementType::f64);
    for (double& value : result.as<double>()) value = std::abs(value);
    return result;
  };
  const Array sums =
      convolve(sizes_of_numbers(image), sizes_of_numbers(kernel), bias ? sizes_of_numbers(bias) : Array(), options);
  const std::int64_t taps = kernel.count() / kernel.shape()[3];
  const double unit = kernel.type() == ElementType::f64 ? std::numeric_limits<double>::epsilon()
                                                        : static_cast<double>(std::numeric_limits<float>::epsilon());
  return unit * std::sqrt(static_cast<double>(taps + 1)) * largest_finite(sums, "the sizes of the products");
}

}  // namespace rapt::inline v1::layers
