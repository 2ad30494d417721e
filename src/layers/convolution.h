#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tensor/array.h"

namespace rapt::inline v1::layers {

// Rows, then columns.
using PerAxis = std::array<std::int64_t, 2>;

struct ConvolutionOptions {
  PerAxis dilation{1, 1};
  PerAxis stride{1, 1};
  std::optional<PerAxis> padding{};  // zeros on each side; absent: ⌊K/2⌋·dilation, which keeps the size for odd K
};

// All sizes of one convolution. Images are [R, C, Din] or [B, R, C, Din], kernels [K1, K2, Din, Dout].
struct ConvolutionSizes {
  std::int64_t batch = 1;
  bool batched = false;
  PerAxis image{};
  PerAxis kernel{};
  std::int64_t in = 0;
  std::int64_t out = 0;
  PerAxis dilation{1, 1};
  PerAxis stride{1, 1};
  PerAxis padding{};

  PerAxis padded() const { return {image[0] + 2 * padding[0], image[1] + 2 * padding[1]}; }
  // How many pixels of the padded image the kernel spans.
  PerAxis span() const { return {dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1}; }
  // ⌊(n + 2p − d(K−1) − 1)/s⌋ + 1
  PerAxis output() const;
  std::vector<std::int64_t> output_shape() const;
};

// Throws if ranks, channels or options do not fit, or if the kernel is larger than the padded image.
ConvolutionSizes convolution_sizes(const Array& image, const Array& kernel, const ConvolutionOptions& options);

// The plain sum, as deep learning defines it (no flip), in double and rounded once at the end:
//   out[i, j] = bias + Σ_{a,b} padded[s₁i + d₁a, s₂j + d₂b] · kernel[a, b]
// All arrays f32 or all f64; `bias` is [Dout] or empty.
Array convolve(const Array& image, const Array& kernel, const Array& bias, const ConvolutionOptions& options = {});

// By how much sums of the same products in two orders typically differ: ε √n Σ |x w|, the largest of any output.
double rounding_of(const Array& image, const Array& kernel, const Array& bias, const ConvolutionOptions& options = {});

// The largest |x|; throws rapt::Error, naming the argument, if a number is not finite.
double largest_finite(const Array& array, const char* argument);

}  // namespace rapt::inline v1::layers
