#include "layers/image_convolution.h"

#include <cmath>

#include "rapt/error.h"

namespace rapt::inline v1::layers {

ImageConvolution::ImageConvolution(Parameters& parameters, const std::string& name, const ImageConvolutionShape& shape)
    : shape_(shape), steps_{shape.stride, shape.kernel / 2} {
  if (shape.kernel < 1 || shape.kernel % 2 == 0)
    throw Error(name + ": expected a kernel of an odd number of pixels, got " + std::to_string(shape.kernel));
  // Half of the numbers pass a ReLU, so that twice the variance keeps their size (He et al. 2015).
  const double fan_in = static_cast<double>(shape.kernel * shape.kernel * shape.in);
  kernel_ = parameters.add(name + ".kernel", {shape.kernel, shape.kernel, shape.in, shape.out},
                           Initial::normal(std::sqrt(2 / fan_in)));
  if (shape.bias) bias_ = parameters.add(name + ".bias", {shape.out}, Initial::constant(0));
}

std::int64_t ImageConvolution::multiply_adds(std::int64_t rows, std::int64_t cols) const {
  return output(rows) * output(cols) * shape_.kernel * shape_.kernel * shape_.in * shape_.out;
}

template <class T>
Tensor<T> ImageConvolution::operator()(Graph<T>& graph, const Tensor<T>& x) const {
  return convolution(graph.tape, x, graph.get(kernel_), bias_ ? graph.get(bias_) : Tensor<T>{}, steps_);
}

template Tensor<float> ImageConvolution::operator()(Graph<float>&, const Tensor<float>&) const;
template Tensor<double> ImageConvolution::operator()(Graph<double>&, const Tensor<double>&) const;

}  // namespace rapt::inline v1::layers
