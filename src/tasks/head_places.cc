#include "tasks/head_places.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "layers/attention_log.h"
#include "rapt/error.h"

namespace rapt::inline v1::tasks {
namespace {

using Square = std::array<double, 4>;  // [2, 2]

const models::AttentionClassifier& attention_of(const models::ImageClassifier& model) {
  if (!model.attention()) throw Error("head places: expected a model with attention, got one without");
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

// Mean and covariance of the keys' places under every row of weights, from the fused pass.
struct RowFacts {
  std::int64_t batches = 0, heads = 0, rows = 0, cols = 0;
  std::vector<float> position;    // [batches, heads, rows, 2]
  std::vector<float> covariance;  // [batches, heads, rows, 2, 2]

  // Of key − query over all rows of a head: the mean of the rows' covariances and the covariance of their means.
  void sum_up(std::int64_t head, double* center, double* square) const {
    double sum[2] = {}, within[3] = {}, between[3] = {};
    for (std::int64_t b = 0; b < batches; ++b)
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t at = (b * heads + head) * rows + i;
        const std::int64_t row = i / cols, col = i % cols;
        const float* place = position.data() + 2 * at;
        const double down = static_cast<double>(place[0]) - static_cast<double>(row);
        const double right = static_cast<double>(place[1]) - static_cast<double>(col);
        const float* c = covariance.data() + 4 * at;
        sum[0] += down;
        sum[1] += right;
        within[0] += static_cast<double>(c[0]);
        within[1] += static_cast<double>(c[1]);
        within[2] += static_cast<double>(c[3]);
        between[0] += down * down;
        between[1] += down * right;
        between[2] += right * right;
      }
    const double total = static_cast<double>(batches * rows);
    center[0] = sum[0] / total;
    center[1] = sum[1] / total;
    square[0] = (within[0] + between[0]) / total - center[0] * center[0];
    square[1] = square[2] = (within[1] + between[1]) / total - center[0] * center[1];
    square[3] = (within[2] + between[2]) / total - center[1] * center[1];
  }
};

RowFacts facts_of(const layers::AttentionRecord& record, const std::array<std::int64_t, 2>& grid) {
  RowFacts facts{record.batches(), record.heads(), record.rows(), grid[1], {}, {}};
  const std::int64_t count = facts.batches * facts.heads * facts.rows;
  facts.position.resize(static_cast<std::size_t>(2 * count));
  facts.covariance.resize(static_cast<std::size_t>(4 * count));
  // The values do not matter: one number, repeated.
  const float value = 0;
  const ConstView v{&value, Dtype::f32, {1, 1, record.keys(), 1}, {0, 0, 0, 1}};
  Outputs outputs;
  outputs.statistics.grid = grid;
  const auto of_rows = [&](std::vector<float>& numbers, std::int64_t each) {
    const Shape shape{facts.batches, facts.heads, facts.rows, each};
    return View{numbers.data(), Dtype::f32, shape, contiguous_strides(shape)};
  };
  outputs.statistics.position = of_rows(facts.position, 2);
  outputs.statistics.covariance = of_rows(facts.covariance, 4);
  attend({record.q, record.k, {v}}, outputs, record.options);
  return facts;
}

}  // namespace

bool has_places_in_parameters(const models::AttentionClassifier& model) {
  return model.config().encoding == models::Encoding::quadratic ||
         model.config().encoding == models::Encoding::gaussian;
}

HeadPlaces places_of_parameters(const models::ImageClassifier& model, const float* values) {
  const models::AttentionClassifier& attention = attention_of(model);
  if (!has_places_in_parameters(attention))
    throw Error("head places: expected an encoding with centres, got one without");
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
  for (std::size_t l = 0; l < log.records().size(); ++l) {
    const RowFacts facts = facts_of(log.records()[l], attention.grid());
    for (std::int64_t h = 0; h < places.heads; ++h) {
      const auto at = l * static_cast<std::size_t>(places.heads) + static_cast<std::size_t>(h);
      facts.sum_up(h, places.centers.data() + 2 * at, places.covariances.data() + 4 * at);
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

}  // namespace rapt::inline v1::tasks
