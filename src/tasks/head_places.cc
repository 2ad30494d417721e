#include "tasks/head_places.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "layers/attention_log.h"
#include "rapt/error.h"

namespace rapt::tasks {
namespace {

using Square = std::array<double, 4>;  // [2, 2]

const models::AttentionClassifier& attention_of(const models::ImageClassifier& model) {
  if (!model.attention()) throw Error("head places: got a model without attention");
  return *model.attention();
}

HeadPlaces empty_places(const models::AttentionClassifier& model) {
  HeadPlaces places;
  places.layers = model.config().layers;
  places.heads = model.config().heads;
  const auto count = static_cast<std::size_t>(places.layers * places.heads);
  places.centers.resize(2 * count);
  places.covariances.resize(4 * count);
  return places;
}

// The inverse of a symmetric matrix, with no variance above the largest.
Square covariance_of(double a, double b, double c, double largest) {
  const double middle = (a + c) / 2, radius = std::hypot((a - c) / 2, b);
  const double angle = 0.5 * std::atan2(2 * b, a - c);
  const auto variance = [&](double precision) { return precision * largest > 1 ? 1 / precision : largest; };
  const double along = variance(middle + radius), across = variance(middle - radius);
  const double x = std::cos(angle), y = std::sin(angle);
  const double both = (along - across) * x * y;
  return {along * x * x + across * y * y, both, both, along * y * y + across * x * x};
}

}  // namespace

bool has_places_in_parameters(const models::AttentionClassifier& model) {
  return model.config().encoding == models::Encoding::quadratic ||
         model.config().encoding == models::Encoding::gaussian;
}

HeadPlaces places_of_parameters(const models::ImageClassifier& model, const float* values) {
  const models::AttentionClassifier& attention = attention_of(model);
  if (!has_places_in_parameters(attention)) throw Error("head places: got an encoding without centres");
  const bool quadratic = attention.config().encoding == models::Encoding::quadratic;
  HeadPlaces places = empty_places(attention);
  const double side = static_cast<double>(std::max(attention.grid()[0], attention.grid()[1]));
  for (std::int64_t l = 0; l < places.layers; ++l) {
    const layers::ScoreLayer& score = attention.attention(l).score();
    const auto numbers = [&](const char* name) { return values + model.parameters()[score.parameter(name)].offset; };
    const float* center = numbers("center");
    const float* spread = numbers(quadratic ? "alpha" : "gamma");
    for (std::int64_t h = 0; h < places.heads; ++h) {
      const auto at = static_cast<std::size_t>(l * places.heads + h);
      places.centers[2 * at] = static_cast<double>(center[2 * h]);
      places.centers[2 * at + 1] = static_cast<double>(center[2 * h + 1]);
      Square square{};
      if (quadratic) {
        const double precision = 2 * static_cast<double>(spread[h]);
        square = covariance_of(precision, 0, precision, side * side);
      } else {
        const float* g = spread + 4 * h;
        const double p = static_cast<double>(g[0]), q = static_cast<double>(g[1]);
        const double r = static_cast<double>(g[2]), s = static_cast<double>(g[3]);
        square = covariance_of(p * p + r * r, p * q + r * s, q * q + s * s, side * side);
      }
      std::copy(square.begin(), square.end(), places.covariances.begin() + static_cast<std::ptrdiff_t>(4 * at));
    }
  }
  return places;
}

HeadPlaces places_of_attention(const models::ImageClassifier& model, const float* values, const float* images,
                               std::int64_t count) {
  const models::AttentionClassifier& attention = attention_of(model);
  HeadPlaces places = empty_places(attention);
  Tape<float> tape(false);
  layers::Graph<float> graph(tape, model.parameters(), values, nullptr);
  layers::AttentionLog<float> log;
  graph.observe(log);
  model.logits<float>(graph, images, count);
  const std::int64_t pixels = attention.grid()[0] * attention.grid()[1], cols = attention.grid()[1];
  std::vector<float> weights(static_cast<std::size_t>(pixels * pixels));
  for (std::size_t l = 0; l < log.records().size(); ++l) {
    const layers::AttentionRecord& record = log.records()[l];
    for (std::int64_t h = 0; h < places.heads; ++h) {
      double sum[2] = {}, square[3] = {};
      for (std::int64_t n = 0; n < count; ++n) {
        record.weights(n, h, 0, pixels, weights.data());
        for (std::int64_t i = 0; i < pixels; ++i)
          for (std::int64_t j = 0; j < pixels; ++j) {
            const double w = static_cast<double>(weights[static_cast<std::size_t>(i * pixels + j)]);
            const double down = static_cast<double>(j / cols - i / cols),
                         right = static_cast<double>(j % cols - i % cols);
            sum[0] += w * down;
            sum[1] += w * right;
            square[0] += w * down * down;
            square[1] += w * down * right;
            square[2] += w * right * right;
          }
      }
      const double total = static_cast<double>(count * pixels);
      const double down = sum[0] / total, right = sum[1] / total;
      const std::size_t at = l * static_cast<std::size_t>(places.heads) + static_cast<std::size_t>(h);
      places.centers[2 * at] = down;
      places.centers[2 * at + 1] = right;
      const double both = square[1] / total - down * right;
      const Square covariance{square[0] / total - down * down, both, both, square[2] / total - right * right};
      std::copy(covariance.begin(), covariance.end(), places.covariances.begin() + static_cast<std::ptrdiff_t>(4 * at));
    }
  }
  return places;
}

nlohmann::json to_json(const HeadPlaces& p) {
  nlohmann::json centers = nlohmann::json::array(), covariances = nlohmann::json::array();
  const double* center = p.centers.data();
  const double* square = p.covariances.data();
  for (std::int64_t l = 0; l < p.layers; ++l) {
    nlohmann::json layer = nlohmann::json::array(), spreads = nlohmann::json::array();
    for (std::int64_t h = 0; h < p.heads; ++h, center += 2, square += 4) {
      layer.push_back({center[0], center[1]});
      spreads.push_back({{square[0], square[1]}, {square[2], square[3]}});
    }
    centers.push_back(std::move(layer));
    covariances.push_back(std::move(spreads));
  }
  return {{"centers", std::move(centers)}, {"covariances", std::move(covariances)}};
}

}  // namespace rapt::tasks
