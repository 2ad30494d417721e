#pragma once

#include <string>

#include "layers/graph.h"
#include "tensor/convolution.h"

namespace rapt::inline v1::layers {

struct ImageConvolutionShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;  // along each side; odd
  std::int64_t stride = 1;
  bool bias = false;  // a norm that follows has its own
};

// A learned convolution of images [N, R, C, in], padded with ⌊K/2⌋ zeros: the size stays, or is divided by the stride.
class ImageConvolution {
 public:
  ImageConvolution() = default;
  ImageConvolution(Parameters& parameters, const std::string& name, const ImageConvolutionShape& shape);

  const ImageConvolutionShape& shape() const { return shape_; }
  // Rows or columns of the output.
  std::int64_t output(std::int64_t size) const { return steps_.output(size, shape_.kernel); }
  // Multiply-adds of one image of this size.
  std::int64_t multiply_adds(std::int64_t rows, std::int64_t cols) const;

  template <class T>
  Tensor<T> operator()(Graph<T>& graph, const Tensor<T>& x) const;

 private:
  ImageConvolutionShape shape_;
  ConvolutionSteps steps_;
  ParameterId kernel_, bias_;
};

}  // namespace rapt::inline v1::layers
