#include "cli/explore_arrays.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "cli/attend_inputs.h"
#include "cli/options.h"
#include "explorer/epochs.h"
#include "rapt/error.h"
#include "tensor/files.h"
#include "tensor/json_text.h"
#include "tensor/npy.h"

namespace rapt::cli {
namespace {

namespace fs = std::filesystem;
using explorer::Exhibit;
using explorer::Layer;
using nlohmann::json;

// One token per line. The last line may lack its newline.
std::vector<std::string> read_tokens(const fs::path& path, std::int64_t count) {
  std::vector<std::string> tokens;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    tokens.push_back(std::move(line));
  }
  if (static_cast<std::int64_t>(tokens.size()) != count)
    throw Error("explore: " + path.string() + ": expected " + counted(count, "line") + ", got " +
                std::to_string(tokens.size()));
  return tokens;
}

std::vector<std::string> tokens_of(const fs::path& directory, const char* own, std::int64_t count, bool shared) {
  for (const char* name : {own, "tokens.txt"}) {
    const fs::path path = directory / name;
    if (fs::exists(path) && (name == own || shared)) return read_tokens(path, count);
  }
  std::vector<std::string> numbers;
  for (std::int64_t n = 0; n < count; ++n) numbers.push_back(std::to_string(n));
  return numbers;
}

// A value of mechanism.json, as text for the option of that name.
std::string option_text(const fs::path& file, const std::string& name, const json& value) {
  if (value.is_string()) return value.get<std::string>();
  const json list = value.is_array() ? value : json::array({value});
  std::string text;
  for (const json& number : list) {
    if (!number.is_number())
      throw Error("explore: " + file.string() + ": " + name +
                  ": expected a text, a number or a list of numbers, got something else");
    text += (text.empty() ? "" : ",") + number.dump();
  }
  return text;
}

// mechanism.json fills in what the options leave open.
void read_mechanism(const fs::path& directory, AttendArguments& options) {
  const fs::path file = directory / "mechanism.json";
  if (!fs::exists(file)) return;
  const json settings = parse_json("explore: " + file.string(), read_file(file));
  if (!settings.is_object()) throw Error("explore: " + file.string() + ": expected a JSON object, got something else");
  const std::vector<std::pair<const char*, std::string*>> texts{{"score", &options.score},
                                                                {"scale", &options.scale},
                                                                {"softcap", &options.softcap},
                                                                {"causal", &options.causal},
                                                                {"window", &options.window},
                                                                {"key_lengths", &options.key_lengths},
                                                                {"grid", &options.grid},
                                                                {"mask", &options.mask},
                                                                {"bias", &options.bias},
                                                                {"normalize", &options.normalize},
                                                                {"first_query", &options.first_query}};
  const auto beside = [&](const std::string& text) {
    return text.ends_with(".npy") && fs::path(text).is_relative() ? (directory / text).string() : text;
  };
  for (const auto& setting : settings.items()) {
    const std::string& name = setting.key();
    const json& value = setting.value();
    if (name == "param") {
      if (!options.parameters.empty()) continue;
      if (!value.is_object())
        throw Error("explore: " + file.string() + ": param: expected an object of parameters, got something else");
      for (const auto& [parameter, number] : value.items())
        options.parameters.push_back(parameter + "=" + beside(option_text(file, parameter, number)));
      continue;
    }
    const auto place = std::ranges::find_if(texts, [&](const auto& entry) { return name == entry.first; });
    if (place == texts.end())
      throw Error("explore: " + file.string() +
                  ": expected score, param, scale, softcap, normalize, first_query, causal, window, key_lengths, mask, "
                  "bias or grid, got '" +
                  one_line(name) + "'");
    if (place->second->empty()) *place->second = beside(option_text(file, name, value));
  }
}

void add_layers(Exhibit& exhibit, std::int64_t count, const std::string& mechanism, std::array<std::int64_t, 2> grid,
                const std::function<std::shared_ptr<const explorer::Weights>(std::int64_t)>& weights) {
  for (std::int64_t l = 0; l < count; ++l) {
    Layer layer;
    layer.name = "layer " + std::to_string(l);
    layer.mechanism = mechanism;
    layer.grid = grid;
    layer.query_tokens = 0;
    layer.key_tokens = 1;
    layer.weights = weights(l);
    exhibit.layers.push_back(std::move(layer));
  }
}

void stored(Exhibit& exhibit, const fs::path& path, std::array<std::int64_t, 2> grid) {
  Array array = read_npy(path).to(ElementType::f32);
  if (array.rank() < 2 || array.rank() > 4 || array.count() == 0)
    throw Error("explore: " + path.string() +
                ": expected [queries, keys], [heads, queries, keys] or [layers, heads, queries, keys], got shape " +
                to_string(array.shape()));
  for (const float w : array.as<float>())
    if (!(w >= 0 && w <= 1.001F))
      throw Error("explore: " + path.string() + ": expected weights from 0 to 1, got " + std::to_string(w));
  std::vector<std::int64_t> shape = array.shape();
  shape.insert(shape.begin(), static_cast<std::size_t>(4 - array.rank()), 1);
  array.reshape(shape);
  const auto shared = std::make_shared<const Array>(std::move(array));
  add_layers(exhibit, shape[0], "", grid,
             [&](std::int64_t l) { return std::make_shared<explorer::StoredWeights>(shared, l); });
}

void scored(Exhibit& exhibit, const fs::path& directory, AttendArguments options, std::array<std::int64_t, 2> grid) {
  options.q = (directory / "q.npy").string();
  options.k = (directory / "k.npy").string();
  options.v = {options.k};
  if (options.score.empty()) options.score = "scaled_dot";
  if (options.normalize.empty()) options.normalize = "softmax";
  // The grid of the page; of the mechanism too, if it takes one.
  options.stats = true;
  const auto inputs = std::make_shared<AttendInputs>(options);
  inputs->check();
  layers::AttentionRecord record;
  record.name = "explore";
  record.q = std::as_const(inputs->q).view();
  record.k = std::as_const(inputs->k).view();
  for (ConstView* v : {&record.q, &record.k})
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t size = d == 0 ? inputs->batch : (v == &record.q ? inputs->sizes.heads : v->shape[1]);
      if (v->shape[d] == size) continue;
      v->shape[d] = size;
      v->strides[d] = 0;
    }
  record.options = inputs->options;
  record.storage = inputs;
  std::string name(inputs->options.score.mechanism->name());
  if (inputs->options.normalizer != Normalizer::softmax)
    name += ", " + std::string(info_of(inputs->options.normalizer).name);
  add_layers(exhibit, inputs->batch, name, inputs->grid[0] > 0 ? inputs->grid : grid,
             [&](std::int64_t l) { return std::make_shared<explorer::RecordedWeights>(record, l); });
}

explorer::Picture read_picture(const fs::path& path) {
  const Array file = read_npy(path);
  const std::vector<std::int64_t>& shape = file.shape();
  const std::int64_t channels = file.rank() == 3 ? shape[2] : 1;
  if (file.count() == 0 || file.rank() < 2 || file.rank() > 3 || (channels != 1 && channels != 3))
    throw Error("explore: " + path.string() + ": expected [rows, columns] or [rows, columns, 1 or 3], got shape " +
                to_string(shape));
  const Array numbers = file.to(ElementType::f32);
  explorer::Picture picture{shape[0], shape[1], channels, {}};
  const auto pixels = numbers.as<float>();
  picture.pixels.assign(pixels.begin(), pixels.end());
  const float top = *std::ranges::max_element(pixels);
  const float factor = !is_float(file.type()) || top > 1 ? 1 / std::max(top, 255.0F) : 1.0F;
  for (float& p : picture.pixels) p *= factor;
  return picture;
}

}  // namespace

bool holds_arrays(const fs::path& directory) {
  return fs::exists(directory / "weights.npy") || (fs::exists(directory / "q.npy") && fs::exists(directory / "k.npy"));
}

Exhibit exhibit_of_arrays(const fs::path& directory, AttendArguments options) {
  Exhibit exhibit;
  exhibit.title = directory.lexically_normal().string();
  read_mechanism(directory, options);
  std::array<std::int64_t, 2> grid{};
  if (!options.grid.empty()) {
    const auto sizes = parse_integers("explore: --grid", options.grid, "ROWS,COLS", 2);
    if (sizes[0] < 1 || sizes[1] < 1) refuse("explore: --grid", options.grid, "ROWS,COLS from 1");
    grid = {sizes[0], sizes[1]};
  }
  if (fs::exists(directory / "weights.npy")) stored(exhibit, directory / "weights.npy", grid);
  else scored(exhibit, directory, options, grid);
  const explorer::Weights& weights = *exhibit.layers.front().weights;
  const std::array<std::int64_t, 2> places = exhibit.layers.front().grid;
  // Divides instead of multiplying: absurd sizes would overflow.
  if (places[0] > 0 && (weights.keys() / places[1] != places[0] || weights.keys() % places[1] != 0 ||
                        weights.queries() != weights.keys()))
    refuse("explore: --grid", std::to_string(places[0]) + "," + std::to_string(places[1]),
           "ROWS,COLS whose product is the number of queries and of keys, " + std::to_string(weights.keys()));
  const bool square = weights.queries() == weights.keys();
  exhibit.tokens = {tokens_of(directory, "queries.txt", weights.queries(), square),
                    tokens_of(directory, "keys.txt", weights.keys(), square)};
  if (places[0] > 0 && fs::exists(directory / "image.npy")) exhibit.picture = read_picture(directory / "image.npy");
  if (places[0] > 0) exhibit.epochs = explorer::read_epochs(directory / "metrics.jsonl");
  return exhibit;
}

}  // namespace rapt::cli
