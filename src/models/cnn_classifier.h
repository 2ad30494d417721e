#pragma once

#include <vector>

#include "layers/basic.h"
#include "layers/image_convolution.h"
#include "models/image_config.h"

namespace rapt::inline v1::models {

// A small residual network: a convolution, stages of residual blocks of two convolutions with norms, the mean over all
// pixels, a linear layer.
class CnnClassifier {
 public:
  CnnClassifier(const CnnConfig& config, const ImageSizes& sizes, layers::Parameters& parameters);

  const CnnConfig& config() const { return config_; }
  // Multiply-adds of one image's forward pass.
  std::int64_t multiply_adds() const;

  // images [count, rows, cols, channels] → [count, classes]
  template <class T>
  Tensor<T> logits(layers::Graph<T>& graph, const T* images, std::int64_t count) const;

 private:
  struct Block {
    layers::ImageConvolution first, second, around;
    layers::GroupNorm first_norm, second_norm, around_norm;
    bool changes_shape = false;  // then `around` is used

    template <class T>
    Tensor<T> operator()(layers::Graph<T>& graph, const Tensor<T>& x) const;
  };
  Block make_block(layers::Parameters& parameters, const std::string& name, std::int64_t in, std::int64_t out,
                   std::int64_t stride) const;

  CnnConfig config_;
  ImageSizes sizes_;
  layers::ImageConvolution stem_;
  layers::GroupNorm stem_norm_;
  std::vector<Block> blocks_;
  layers::Linear output_;
};

}  // namespace rapt::inline v1::models
