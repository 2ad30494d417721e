#include "cli/plot_scenes.h"

#include <algorithm>
#include <cmath>

#include "cli/options.h"
#include "pictures/image_sheet.h"
#include "rapt/error.h"
#include "rapt/threads.h"
#include "tasks/experiment.h"
#include "tasks/scene_run.h"
#include "tasks/scenes.h"
#include "training/not_finite.h"

namespace rapt::cli {
namespace {

using models::PixelTask;
using pictures::Rgb;
using pictures::Tile;

// The colours of series, of which the sky is the palest.
Rgb class_color(std::size_t label) {
  constexpr std::array<Rgb, 6> kColors{{{0xdd, 0xdd, 0xdd},
                                        {0x99, 0x99, 0x33},
                                        {0x88, 0xcc, 0xee},
                                        {0xcc, 0x66, 0x77},
                                        {0x33, 0x22, 0x88},
                                        {0x11, 0x77, 0x33}}};
  return kColors[std::min(label, kColors.size() - 1)];
}

std::uint8_t byte_of(double share) { return static_cast<std::uint8_t>(std::lround(255 * std::clamp(share, 0.0, 1.0))); }

Rgb gray(double share) { return {byte_of(share), byte_of(share), byte_of(share)}; }

// One picture's numbers of a task, [pixels, 1 or 3].
Tile tile_of(PixelTask task, const std::vector<float>& numbers, std::int64_t size) {
  Tile tile{size, size, {}};
  for (std::size_t p = 0; p < static_cast<std::size_t>(size * size); ++p) switch (task) {
      case PixelTask::segmentation: tile.pixels.push_back(class_color(static_cast<std::size_t>(numbers[p]))); break;
      case PixelTask::depth:
        // Near is light; the scale is that of log depth, on which it is learned.
        tile.pixels.push_back(pictures::color_at(std::log(tasks::kSceneFar / static_cast<double>(numbers[p])) /
                                                 std::log(tasks::kSceneFar / 1.5)));
        break;
      case PixelTask::normals:
        tile.pixels.push_back({byte_of((1 + static_cast<double>(numbers[3 * p])) / 2),
                               byte_of((1 - static_cast<double>(numbers[3 * p + 1])) / 2),
                               byte_of((1 - static_cast<double>(numbers[3 * p + 2])) / 2)});
        break;
      case PixelTask::edges:
      case PixelTask::reshading: tile.pixels.push_back(gray(static_cast<double>(numbers[p]))); break;
    }
  return tile;
}

template <class N>
std::vector<float> picture_of(const std::vector<N>& all, std::int64_t n, std::int64_t numbers) {
  return {all.begin() + n * numbers, all.begin() + (n + 1) * numbers};
}

std::vector<float> truth_of(const training::PixelExamples& scenes, PixelTask task, std::int64_t n) {
  const std::int64_t pixels = scenes.size * scenes.size;
  switch (task) {
    case PixelTask::segmentation: return picture_of(scenes.segmentation, n, pixels);
    case PixelTask::depth: return picture_of(scenes.depth, n, pixels);
    case PixelTask::normals: return picture_of(scenes.normals, n, 3 * pixels);
    case PixelTask::edges: return picture_of(scenes.edges, n, pixels);
    case PixelTask::reshading: return picture_of(scenes.reshading, n, pixels);
  }
  return {};
}

Tile photograph(const training::PixelExamples& scenes, std::int64_t n) {
  const std::vector<float> rgb = picture_of(scenes.rgb, n, 3 * scenes.size * scenes.size);
  Tile tile{scenes.size, scenes.size, {}};
  for (std::size_t p = 0; p < rgb.size(); p += 3)
    tile.pixels.push_back({byte_of(static_cast<double>(rgb[p])), byte_of(static_cast<double>(rgb[p + 1])),
                           byte_of(static_cast<double>(rgb[p + 2]))});
  return tile;
}

std::vector<std::int64_t> chosen_scenes(const ScenesArguments& a, std::int64_t count) {
  std::vector<std::int64_t> chosen;
  const std::string takes = "scenes of the run's test data, 0 to " + std::to_string(count - 1);
  for (const std::string& text : a.scenes) {
    const std::int64_t n = parse_integers("plot scenes: N", text, takes, 1)[0];
    if (n < 0 || n >= count) throw Error(std::string("plot scenes: N: expected ") + takes + ", got " + text);
    chosen.push_back(n);
  }
  if (chosen.empty()) chosen.push_back(0);
  return chosen;
}

}  // namespace

void plot_scenes(const ScenesArguments& a) {
  check_output("plot scenes", a.output);
  tasks::SceneRunConfig config = tasks::read_scene_config(a.run);
  const models::MultitaskNetwork network = tasks::make_network(config);
  const std::vector<float> values = tasks::best_weights(a.run, network.parameters());
  const std::vector<std::int64_t> chosen = chosen_scenes(a, config.data.test);
  // Scenes are made by number: only as many as are shown.
  config.data.test = *std::max_element(chosen.begin(), chosen.end()) + 1;
  const training::PixelExamples scenes = tasks::load_scenes(config.data, tasks::Split::test, default_threads());

  pictures::ImageSheet sheet;
  sheet.title = a.output.title_or("Truth and prediction, " + a.run);
  sheet.columns = {"picture"};
  for (const PixelTask task : network.tasks()) {
    sheet.columns.emplace_back(models::info_of(task).name);
    if (task != PixelTask::segmentation) continue;
    for (std::size_t c = 0; c < tasks::kSceneClasses.size(); ++c)
      sheet.legend.push_back({std::string(tasks::kSceneClasses[c]), {class_color(c)}, pictures::LegendMark::box});
  }
  for (const std::int64_t n : chosen) {
    std::vector<std::vector<float>> predicted;
    try {
      predicted = training::predict(network, values.data(), scenes, n);
    } catch (const training::NotFinite& error) {
      throw training::NotFinite("plot scenes: " + a.run + ": " + error.what());
    }
    sheet.rows.push_back("scene " + std::to_string(n));
    sheet.tiles.push_back(photograph(scenes, n));
    for (const PixelTask task : network.tasks())
      sheet.tiles.push_back(tile_of(task, truth_of(scenes, task, n), scenes.size));
    sheet.rows.emplace_back("predicted");
    sheet.tiles.emplace_back();
    for (std::size_t t = 0; t < predicted.size(); ++t)
      sheet.tiles.push_back(tile_of(network.tasks()[t], predicted[t], scenes.size));
  }
  deliver(
      "plot scenes", a.output, [&](double width) { return draw_with(sheet, width); },
      [&](const pictures::TerminalStyle& style) { return terminal_view(sheet, style); });
}

}  // namespace rapt::cli
