#include "models/cnn_classifier.h"

#include "rapt/error.h"
#include "tensor/pooling.h"

namespace rapt::inline v1::models {

using layers::Graph;

CnnClassifier::CnnClassifier(const CnnConfig& config, const ImageSizes& sizes, layers::Parameters& parameters)
    : config_(config), sizes_(sizes) {
  stem_ = layers::ImageConvolution(parameters, "stem", {.in = sizes.channels, .out = config.width});
  stem_norm_ = layers::GroupNorm(parameters, "stem_norm", config.width, config.groups);
  std::int64_t channels = config.width;
  for (std::int64_t s = 0; s < config.stages; ++s)
    for (std::int64_t b = 0; b < config.blocks; ++b) {
      const bool narrows = s > 0 && b == 0;
      const std::string name = "stage." + std::to_string(s) + "." + std::to_string(b);
      blocks_.push_back(make_block(parameters, name, channels, narrows ? 2 * channels : channels, narrows ? 2 : 1));
      if (narrows) channels *= 2;
    }
  output_ = layers::Linear(parameters, "output", channels, sizes.classes);
}

CnnClassifier::Block CnnClassifier::make_block(layers::Parameters& parameters, const std::string& name, std::int64_t in,
                                               std::int64_t out, std::int64_t stride) const {
  Block block;
  block.first = layers::ImageConvolution(parameters, name + ".first", {.in = in, .out = out, .stride = stride});
  block.first_norm = layers::GroupNorm(parameters, name + ".first_norm", out, config_.groups);
  block.second = layers::ImageConvolution(parameters, name + ".second", {.in = out, .out = out});
  block.second_norm = layers::GroupNorm(parameters, name + ".second_norm", out, config_.groups);
  block.changes_shape = in != out || stride != 1;
  if (block.changes_shape) {
    block.around =
        layers::ImageConvolution(parameters, name + ".around", {.in = in, .out = out, .kernel = 1, .stride = stride});
    block.around_norm = layers::GroupNorm(parameters, name + ".around_norm", out, config_.groups);
  }
  return block;
}

std::int64_t CnnClassifier::multiply_adds() const {
  std::int64_t rows = sizes_.rows, cols = sizes_.cols;
  std::int64_t count = stem_.multiply_adds(rows, cols);
  std::int64_t channels = stem_.shape().out;
  for (const Block& block : blocks_) {
    count += block.first.multiply_adds(rows, cols);
    if (block.changes_shape) count += block.around.multiply_adds(rows, cols);
    rows = block.first.output(rows);
    cols = block.first.output(cols);
    count += block.second.multiply_adds(rows, cols);
    channels = block.second.shape().out;
  }
  return count + channels * sizes_.classes;
}

template <class T>
Tensor<T> CnnClassifier::Block::operator()(Graph<T>& graph, const Tensor<T>& x) const {
  Tape<T>& tape = graph.tape;
  const Tensor<T> inner = activate(tape, Activation::relu, first_norm(graph, first(graph, x)));
  const Tensor<T> outer = second_norm(graph, second(graph, inner));
  return activate(tape, Activation::relu, add(tape, outer, changes_shape ? around_norm(graph, around(graph, x)) : x));
}

template <class T>
Tensor<T> CnnClassifier::logits(Graph<T>& graph, const T* images, std::int64_t count) const {
  Tensor<T> x;
  // Nothing writes to the images: they have no gradient.
  x.data = const_cast<T*>(images);
  x.rank = 4;
  x.shape = {count, sizes_.rows, sizes_.cols, sizes_.channels};
  x.strides = {sizes_.rows * sizes_.cols * sizes_.channels, sizes_.cols * sizes_.channels, sizes_.channels, 1};
  x = activate(graph.tape, Activation::relu, stem_norm_(graph, stem_(graph, x)));
  for (const Block& block : blocks_) x = block(graph, x);
  const Tensor<T> pooled = mean_pool(graph.tape, x.reshape({count, x.size(1) * x.size(2), x.size(3)}), 1);
  return output_(graph, graph.dropout(pooled, config_.dropout));
}

template Tensor<float> CnnClassifier::logits(Graph<float>&, const float*, std::int64_t) const;
template Tensor<double> CnnClassifier::logits(Graph<double>&, const double*, std::int64_t) const;

}  // namespace rapt::inline v1::models
