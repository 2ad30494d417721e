#include "tasks/head_history.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tasks/assignment.h"
#include "tasks/image_run.h"
#include "tensor/files.h"
#include "tensor/json_text.h"
#include "tensor/random.h"

namespace rapt::inline v1::tasks {
namespace {

using nlohmann::json;

// The elements of nested lists of these sizes, in order.
void read_numbers(const json& list, std::span<const std::int64_t> sizes, const std::string& where,
                  std::vector<double>& out) {
  if (sizes.empty()) {
    if (!list.is_number()) throw Error(where + ": expected a number, got " + list.dump().substr(0, 40));
    out.push_back(list.get<double>());
    return;
  }
  if (!list.is_array() || static_cast<std::int64_t>(list.size()) != sizes[0])
    throw Error(where + ": expected lists of the model's sizes, got something else");
  for (const json& one : list) read_numbers(one, sizes.subspan(1), where, out);
}

HeadPlaces read_places(const json& line, std::int64_t layers, std::int64_t heads, const std::string& where) {
  HeadPlaces places;
  places.layers = layers;
  places.heads = heads;
  for (const auto& [name, sizes, numbers] :
       {std::tuple{"centers", std::vector<std::int64_t>{layers, heads, 2}, &places.centers},
        {"covariances", std::vector<std::int64_t>{layers, heads, 2, 2}, &places.covariances}}) {
    if (!line.contains(name)) throw Error(where + ": expected '" + name + "', got none");
    read_numbers(line[name], sizes, where + ": " + name, *numbers);
  }
  return places;
}

struct Center {
  double down, right;
};

Center center_of(const HeadPlaces& places, std::int64_t layer, std::int64_t head) {
  const auto at = static_cast<std::size_t>(2 * (layer * places.heads + head));
  return {places.centers[at], places.centers[at + 1]};
}

std::vector<Center> centers_of(const HeadPlaces& places, std::int64_t layer) {
  std::vector<Center> list;
  for (std::int64_t h = 0; h < places.heads; ++h) list.push_back(center_of(places, layer, h));
  return list;
}

// The middle pixel of an even side is the one after the centre, as in a kernel.
double grid_distance(const std::vector<Center>& centers, std::int64_t side) {
  const std::int64_t cells = side * side;
  const auto heads = static_cast<std::int64_t>(centers.size());
  std::vector<double> costs;
  for (std::int64_t n = 0; n < cells; ++n) {
    const std::int64_t row = n / side - side / 2, col = n % side - side / 2;
    for (const Center& c : centers)
      costs.push_back(std::hypot(c.down - static_cast<double>(row), c.right - static_cast<double>(col)));
  }
  const std::vector<std::int64_t> own = least_assignment(costs, cells, heads);
  double sum = 0;
  for (std::int64_t n = 0; n < cells; ++n)
    sum += costs[static_cast<std::size_t>(n * heads + own[static_cast<std::size_t>(n)])];
  return sum / static_cast<double>(cells);
}

}  // namespace

HeadHistory read_head_history(const std::filesystem::path& run) {
  const ImageRunConfig config = read_image_config(run);
  const models::ImageClassifier model(config.model, config.sizes);
  if (!model.attention())
    throw Error(run.string() + ": expected a run of a model with attention, got one without heads");
  const std::filesystem::path path = run / "metrics.jsonl";
  if (!std::filesystem::exists(path))
    throw Error(run.string() + ": expected metrics.jsonl, got none: the run has not finished its first epoch");
  const std::string text = read_file(path);
  const auto& [layers, heads] = std::pair{model.attention()->config().layers, model.attention()->config().heads};
  HeadHistory history;
  if (has_places_in_parameters(*model.attention())) {
    std::vector<float> values(static_cast<std::size_t>(model.parameters().size()));
    model.parameters().initialize(values.data(), config.training.seed);
    history.epochs.push_back(places_of_parameters(model, values.data()));
    history.first_epoch = 0;
  }
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string where = path.string() + ": line " + std::to_string(++number);
    const json line = parse_json(where, std::string_view(text).substr(begin, end - begin));
    if (!line.is_object()) throw Error(where + ": expected a JSON object, got something else");
    history.epochs.push_back(read_places(line, layers, heads, where));
    begin = end + 1;
  }
  if (number == 0) throw Error(path.string() + ": expected at least one epoch, got none");
  return history;
}

double mean_distance(const HeadPlaces& places, std::int64_t layer) {
  double sum = 0;
  for (const Center& c : centers_of(places, layer)) sum += std::hypot(c.down, c.right);
  return sum / static_cast<double>(places.heads);
}

double mean_spread(const HeadPlaces& places, std::int64_t layer) {
  double sum = 0;
  for (std::int64_t h = 0; h < places.heads; ++h) {
    const double* m = places.covariances.data() + 4 * (layer * places.heads + h);
    sum += std::sqrt(std::max(0.0, (m[0] + m[3]) / 2));
  }
  return sum / static_cast<double>(places.heads);
}

GridFit fit_to_grid(const HeadPlaces& places, std::int64_t layer) {
  const std::vector<Center> centers = centers_of(places, layer);
  GridFit fit;
  while ((fit.side + 1) * (fit.side + 1) <= places.heads) ++fit.side;
  fit.distance = grid_distance(centers, fit.side);
  std::set<std::pair<double, double>> seen;
  double square = 0;
  for (const Center& c : centers) {
    const double down = std::round(c.down), right = std::round(c.right);
    const std::int64_t half = fit.side / 2;
    const double low = -static_cast<double>(half), high = low + static_cast<double>(fit.side - 1);
    if (down >= low && down <= high && right >= low && right <= high) seen.insert({down, right});
    square += c.down * c.down + c.right * c.right;
  }
  fit.pixels = static_cast<std::int64_t>(seen.size());
  // The mean of many draws, always the same ones.
  constexpr int kDraws = 200;
  const double deviation = std::sqrt(square / static_cast<double>(2 * places.heads));
  Random random(0x67726964U);
  for (int n = 0; n < kDraws; ++n) {
    std::vector<Center> drawn(centers.size());
    for (Center& c : drawn) {
      c.down = deviation * random.normal();
      c.right = deviation * random.normal();
    }
    fit.random_distance += grid_distance(drawn, fit.side) / kDraws;
  }
  return fit;
}

}  // namespace rapt::inline v1::tasks
