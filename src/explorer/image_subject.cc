#include "explorer/image_subject.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "explorer/epochs.h"
#include "layers/attention_log.h"
#include "rapt/error.h"
#include "tasks/image_run.h"
#include "tensor/simd/table.h"
#include "training/not_finite.h"

namespace rapt::explorer {
namespace {

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", 100 * share);
  return text.data();
}

Picture picture_of(const tasks::ImageData& data, std::int64_t n) {
  // The page draws grey or RGB; other channels are left out.
  const std::int64_t channels = data.channels() >= 3 ? 3 : 1;
  Picture picture{data.rows(), data.cols(), channels, {}};
  const std::uint8_t* pixels = data.image(n);
  for (std::int64_t p = 0; p < data.rows() * data.cols(); ++p)
    for (std::int64_t c = 0; c < channels; ++c)
      picture.pixels.push_back(static_cast<float>(pixels[p * data.channels() + c] / data.white));
  return picture;
}

}  // namespace

bool is_image_run(const std::filesystem::path& run) {
  const std::string task = tasks::task_of_run(run);
  return std::ranges::any_of(tasks::image_family().tasks,
                             [&](const tasks::TaskInfo& info) { return info.name == task; });
}

ImageSubject::ImageSubject(const std::filesystem::path& run)
    : title_(run.lexically_normal().string()),
      experiment_(std::make_unique<tasks::ImageExperiment>(tasks::read_image_config(run))),
      values_(tasks::best_weights(run, experiment_->model().parameters())),
      epochs_(read_epochs(run / "metrics.jsonl")) {
  if (!experiment_->model().attention())
    throw Error("explore: " + run.string() + ": expected a model with attention, got one without");
  if (experiment_->data().test.count() == 0)
    throw Error("explore: " + run.string() + ": expected data with test images, got none");
}

Exhibit ImageSubject::show(const std::string& number) const {
  const tasks::ImageData& data = experiment_->data().test;
  const models::ImageClassifier& model = experiment_->model();
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
  if (error != std::errc() || end != number.data() + number.size() || n < 0 || n >= data.count())
    throw Error("explore: image: expected the number of a test image, 0 to " + std::to_string(data.count() - 1) +
                ", got '" + number + "'");
  Exhibit exhibit;
  exhibit.title = title_;
  exhibit.input = Input::image;
  exhibit.text = number;
  exhibit.picture = picture_of(data, n);
  exhibit.epochs = epochs_;

  std::vector<float> pixels(static_cast<std::size_t>(data.image_size()));
  tasks::normalized_image(data, n, experiment_->statistics(), pixels.data());
  Tape<float> tape(false);
  layers::Graph<float> graph(tape, model.parameters(), values_.data(), nullptr);
  layers::AttentionLog<float> log;
  graph.observe(log);
  const Tensor<float> logits = model.logits<float>(graph, pixels.data(), 1);
  training::require_finite("explore: " + title_, {logits.data, static_cast<std::size_t>(logits.count())});
  const std::int64_t classes = model.sizes().classes;
  tensor_kernels<float>().log_softmax(logits.data, classes);
  const auto best = std::max_element(logits.data, logits.data + classes) - logits.data;
  exhibit.target = data.classes[static_cast<std::size_t>(best)];
  exhibit.note = "test image " + number + ", class “" +
                 data.classes[static_cast<std::size_t>(data.labels[static_cast<std::size_t>(n)])] +
                 "”; the model says “" + exhibit.target + "” (" +
                 percent(std::exp(static_cast<double>(logits.data[best]))) + ")";

  const std::array<std::int64_t, 2>& grid = model.attention()->grid();
  std::vector<std::string> places;
  for (std::int64_t r = 0; r < grid[0]; ++r)
    for (std::int64_t c = 0; c < grid[1]; ++c) places.push_back(std::to_string(r) + "," + std::to_string(c));
  exhibit.tokens = {std::move(places)};
  for (const layers::AttentionRecord& record : log.records()) {
    Layer layer;
    layer.name = record.name;
    layer.mechanism = record.options.score.mechanism->name();
    layer.grid = grid;
    layer.weights = std::make_shared<RecordedWeights>(record);
    exhibit.layers.push_back(std::move(layer));
  }
  return exhibit;
}

}  // namespace rapt::explorer
