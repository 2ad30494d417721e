#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/image_classifier.h"

// Where the heads of an image model look, seen from the query: rows down and columns right, in steps of the grid.
namespace rapt::inline v1::tasks {

struct HeadPlaces {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::vector<double> centers;      // [layers, heads, 2]
  std::vector<double> covariances;  // [layers, heads, 2, 2]
};

// Whether centres and spreads are parameters: those of quadratic and gaussian encodings.
bool has_places_in_parameters(const models::AttentionClassifier& model);

// quadratic: Δ and I/(2α); gaussian: Δ and (ΓᵀΓ)⁻¹. A head that is wider than the image, or looks away from its centre
// (α < 0), counts as wide as the image.
HeadPlaces places_of_parameters(const models::ImageClassifier& model, const float* values);

// For any encoding, from the weights themselves: mean and covariance of key − query over the weights of all queries of
// these images [count, rows, cols, channels].
HeadPlaces places_of_attention(const models::ImageClassifier& model, const float* values, const float* images,
                               std::int64_t count);

// {"centers": …, "covariances": …}
nlohmann::json to_json(const HeadPlaces& places);

}  // namespace rapt::inline v1::tasks
