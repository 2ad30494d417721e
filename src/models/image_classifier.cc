#include "models/image_classifier.h"

namespace rapt::inline v1::models {

ImageClassifier::ImageClassifier(const ImageModelConfig& config, const ImageSizes& sizes)
    : config_(config), sizes_(sizes), model_(build()) {}

std::variant<AttentionClassifier, CnnClassifier> ImageClassifier::build() {
  if (config_.kind == ImageModelKind::cnn) return CnnClassifier(config_.cnn, sizes_, parameters_);
  return AttentionClassifier(config_.attention, sizes_, parameters_);
}

std::int64_t ImageClassifier::multiply_adds() const {
  return std::visit([](const auto& model) { return model.multiply_adds(); }, model_);
}

}  // namespace rapt::inline v1::models
