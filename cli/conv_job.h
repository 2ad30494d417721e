#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/convolution_attention.h"

namespace rapt::cli {

struct ConvArguments {
  std::string kernel, image, layer, out, bias;
  std::string dilation, stride, padding, alpha, dhid, value_dim, dtype, size, seed;
  bool json = false;
};

struct ConvFile {
  std::string name;
  Array value;
};

// --kernel: the attention that equals a convolution.
struct ToAttention {
  layers::ConvolutionSizes sizes;
  layers::QuadraticLayer layer;
  double alpha = 0;
  layers::Difference difference;
  std::vector<layers::AlphaStep> steps;
  double rounding = 0;  // sums of the same products in another order may differ by this
  bool reaches_rounding = false;
  std::vector<ConvFile> files;
};

// --layer: the convolution nearest to an attention.
struct ToConvolution {
  layers::QuadraticLayer layer;
  layers::NearestConvolution nearest;
  layers::Queries queries;
  layers::Difference difference;
  std::vector<double> weights;  // weights of each head at its nearest pixel
  std::vector<std::int64_t> image_shape;
  std::vector<ConvFile> files;
};

ToAttention kernel_to_attention(const ConvArguments& arguments);
ToConvolution layer_to_convolution(const ConvArguments& arguments);

}  // namespace rapt::cli
