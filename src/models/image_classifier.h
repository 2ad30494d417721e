#pragma once

#include <variant>

#include "models/attention_classifier.h"
#include "models/cnn_classifier.h"

namespace rapt::inline v1::models {

// Any model that classifies images.
class ImageClassifier {
 public:
  ImageClassifier(const ImageModelConfig& config, const ImageSizes& sizes);
  ImageClassifier(const ImageClassifier&) = delete;
  ImageClassifier& operator=(const ImageClassifier&) = delete;

  const ImageModelConfig& config() const { return config_; }
  const ImageSizes& sizes() const { return sizes_; }
  const layers::Parameters& parameters() const { return parameters_; }
  // Null for a model without attention.
  const AttentionClassifier* attention() const { return std::get_if<AttentionClassifier>(&model_); }
  // Multiply-adds of one image's forward pass.
  std::int64_t multiply_adds() const;

  // images [count, rows, cols, channels] → [count, classes]
  template <class T>
  Tensor<T> logits(layers::Graph<T>& graph, const T* images, std::int64_t count) const {
    return std::visit([&](const auto& model) { return model.logits(graph, images, count); }, model_);
  }

 private:
  std::variant<AttentionClassifier, CnnClassifier> build();

  ImageModelConfig config_;
  ImageSizes sizes_;
  layers::Parameters parameters_;
  std::variant<AttentionClassifier, CnnClassifier> model_;
};

}  // namespace rapt::inline v1::models
