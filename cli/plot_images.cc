#include <algorithm>
#include <cmath>
#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/image_input.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/plot_kinds.h"
#include "layers/attention_log.h"
#include "solve/json_node.h"
#include "tasks/head_history.h"
#include "tasks/image_experiment.h"
#include "training/not_finite.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;
using pictures::TerminalStyle;

bool is_run(const std::vector<std::string>& files) {
  std::error_code ignored;
  return files.size() == 1 && std::filesystem::is_directory(files[0], ignored);
}

pictures::HeadCenters centers_of(const tasks::HeadHistory& history) {
  pictures::HeadCenters result;
  result.epochs = static_cast<std::int64_t>(history.epochs.size());
  result.first_epoch = history.first_epoch;
  result.layers = history.last().layers;
  result.heads = history.last().heads;
  for (const tasks::HeadPlaces& places : history.epochs) {
    result.centers.insert(result.centers.end(), places.centers.begin(), places.centers.end());
    result.covariances.insert(result.covariances.end(), places.covariances.begin(), places.covariances.end());
  }
  return result;
}

Json fit_json(const tasks::GridFit& fit) {
  return {
      {"side", fit.side}, {"distance", fit.distance}, {"random_distance", fit.random_distance}, {"pixels", fit.pixels}};
}

// What the centres did over the epochs: how far they are from the query and how widely they spread, and how near they
// come to the pixels of a kernel.
Json report_of(const std::string& run, const tasks::HeadHistory& history) {
  Json report{{"run", run},
              {"first_epoch", history.first_epoch},
              {"epochs", history.epochs.size()},
              {"heads", history.last().heads}};
  for (std::int64_t l = 0; l < history.last().layers; ++l) {
    Json layer{{"layer", l}};
    for (const tasks::HeadPlaces& places : history.epochs) {
      layer["distance"].push_back(tasks::mean_distance(places, l));
      layer["spread"].push_back(tasks::mean_spread(places, l));
    }
    layer["grid_first"] = fit_json(tasks::fit_to_grid(history.epochs.front(), l));
    layer["grid_last"] = fit_json(tasks::fit_to_grid(history.last(), l));
    report["layers"].push_back(layer);
  }
  return report;
}

std::string rounded(double x) { return solve::shortest(std::round(x * 1000) / 1000); }

// Where each head looks after the last epoch, as a table.
std::string centers_view(const pictures::HeadCenters& centers) {
  draw(centers);  // checks the numbers as a picture would
  std::vector<std::vector<std::string>> rows{{"layer", "head", "rows down", "columns right"}};
  const std::int64_t first = (centers.epochs - 1) * centers.layers * centers.heads;
  for (std::int64_t n = 0; n < centers.layers * centers.heads; ++n) {
    const auto at = static_cast<std::size_t>(2 * (first + n));
    rows.push_back({std::to_string(n / centers.heads), std::to_string(n % centers.heads), rounded(centers.centers[at]),
                    rounded(centers.centers[at + 1])});
  }
  return format_table(rows);
}

// One image as the model sees it, and the caption of its picture.
struct Shown {
  std::vector<float> pixels;
  std::string name;
};

Shown image_of(const tasks::ImageExperiment& run, const std::string& text) {
  const std::string argument = "plot maps: IMAGE";
  const models::ImageSizes& sizes = run.config().sizes;
  const tasks::ChannelStatistics& statistics = run.statistics();
  Shown shown;
  shown.pixels.resize(static_cast<std::size_t>(sizes.rows * sizes.cols * sizes.channels));
  if (!text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    const tasks::ImageData& test = run.data().test;
    const std::string takes = "0 to " + std::to_string(test.count() - 1) + ", a test image";
    const std::int64_t n = parse_integers(argument, text, takes, 1)[0];
    if (n >= test.count()) refuse(argument, text, takes);
    normalized_image(test, n, statistics, shown.pixels.data());
    const int label = test.labels[static_cast<std::size_t>(n)];
    shown.name = "test image " + text + " (" + test.classes[static_cast<std::size_t>(label)] + ")";
    return shown;
  }
  const std::vector<double> pixels = read_image(argument, text, sizes.rows, sizes.cols, sizes.channels);
  for (std::size_t n = 0; n < pixels.size(); ++n) {
    const std::size_t c = n % statistics.mean.size();
    shown.pixels[n] = static_cast<float>((pixels[n] - statistics.mean[c]) / statistics.deviation[c]);
  }
  shown.name = std::filesystem::path(text).filename().string();
  return shown;
}

// The query's patch; by default the middle of the image.
std::array<std::int64_t, 2> query_of(const tasks::ImageExperiment& run, const std::string& pixel) {
  const models::ImageSizes& sizes = run.config().sizes;
  const std::int64_t patch = run.config().model.attention.patch;
  if (pixel.empty()) return {sizes.rows / 2 / patch, sizes.cols / 2 / patch};
  const std::string takes = "ROW,COLUMN within " + std::to_string(sizes.rows) + " × " + std::to_string(sizes.cols) +
                            " pixels, counted from 0";
  const std::vector<std::int64_t> at = parse_integers("plot maps: --pixel", pixel, takes, 2);
  if (at[0] < 0 || at[0] >= sizes.rows || at[1] < 0 || at[1] >= sizes.cols) refuse("plot maps: --pixel", pixel, takes);
  return {at[0] / patch, at[1] / patch};
}

pictures::HeatMapGrid maps_of(const std::vector<layers::AttentionRecord>& records,
                              const std::array<std::int64_t, 2>& grid, const std::array<std::int64_t, 2>& query) {
  pictures::HeatMapGrid result;
  std::vector<double> ends;
  const std::int64_t row = query[0] * grid[1] + query[1];
  std::vector<float> weights(static_cast<std::size_t>(grid[0] * grid[1]));
  for (std::size_t l = 0; l < records.size(); ++l)
    for (std::int64_t h = 0; h < records[l].heads(); ++h) {
      records[l].weights(0, h, row, row + 1, weights.data());
      pictures::HeatMap map;
      map.rows = grid[0];
      map.cols = grid[1];
      map.values.assign(weights.begin(), weights.end());
      map.title = std::to_string(l) + "." + std::to_string(h);
      map.numbers = pictures::CellNumbers::never;
      ends.push_back(*std::max_element(map.values.begin(), map.values.end()));
      result.maps.push_back(std::move(map));
      result.cols = records[l].heads();
    }
  std::tie(result.low, result.high) = pictures::color_range(ends);
  return result;
}

tasks::HeadHistory history_of(const std::string& run) {
  const std::string task = tasks::task_of_run(run);
  const tasks::Family images = tasks::image_family();
  if (std::none_of(images.tasks.begin(), images.tasks.end(), [&](const auto& one) { return one.name == task; }))
    throw Error("plot centers: " + run + ": expected a run on images, got one on " + task);
  return tasks::read_head_history(run);
}

}  // namespace

void plot_centers(const CentersArguments& a) {
  if (a.json) {
    if (!a.output.out.empty()) check_output("plot centers", a.output);
    check_standard_output("plot centers",
                          {{"--json", true}, {"--out " + a.output.out, is_standard_output(a.output.out)}});
    if (!is_run(a.files)) throw Error("plot centers: --json: expected the directory of a run, got files");
    std::cout << report_of(a.files[0], history_of(a.files[0])).dump(2) << "\n";
    if (a.output.out.empty()) return;
  }
  check_output("plot centers", a.output);
  pictures::HeadCenters centers = is_run(a.files) ? centers_of(history_of(a.files[0])) : read_centers(a.files);
  centers.title = a.output.title_or("");
  centers.x_title = a.output.xlabel_or(centers.x_title);
  centers.y_title = a.output.ylabel_or(centers.y_title);
  deliver(
      "plot centers", a.output, [&](double width) { return draw_with(centers, width); },
      [&](const TerminalStyle&) { return centers_view(centers); });
}

void plot_maps(const MapsArguments& a) {
  check_output("plot maps", a.output);
  const std::unique_ptr<tasks::Experiment> opened = tasks::open_experiment(a.run);
  const auto* run = dynamic_cast<const tasks::ImageExperiment*>(opened.get());
  if (!run || !run->model().attention())
    throw Error("plot maps: " + a.run + ": expected a run on images with attention, got one on " +
                tasks::task_of_run(a.run) + (run ? " without attention" : ""));
  const models::ImageClassifier& model = run->model();
  const std::array<std::int64_t, 2> query = query_of(*run, a.pixel);
  const Shown shown = image_of(*run, a.image);
  const std::vector<float> values = tasks::best_weights(a.run, model.parameters());
  Tape<float> tape(false);
  layers::Graph<float> graph(tape, model.parameters(), values.data(), nullptr);
  layers::AttentionLog<float> log;
  graph.observe(log);
  const Tensor<float> logits = model.logits<float>(graph, shown.pixels.data(), 1);
  training::require_finite("plot maps: " + a.run, {logits.data, static_cast<std::size_t>(logits.count())});
  const auto best = std::max_element(logits.data, logits.data + logits.count()) - logits.data;
  pictures::HeatMapGrid grid = maps_of(log.records(), model.attention()->grid(), query);
  grid.title =
      a.output.title_or(shown.name + ", seen as " + run->data().train.classes[static_cast<std::size_t>(best)] +
                        "; layer.head, query at patch " + std::to_string(query[0]) + "," + std::to_string(query[1]));
  grid.row_title = a.output.ylabel;
  grid.col_title = a.output.xlabel;
  deliver(
      "plot maps", a.output, [&](double width) { return draw_with(grid, width); },
      [&](const TerminalStyle& s) { return grid_view(grid, s); });
}

}  // namespace rapt::cli
