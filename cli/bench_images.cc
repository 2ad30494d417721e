#include "cli/bench_images.h"

#include <cstdio>
#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/temporary_runs.h"
#include "cli/verbs.h"
#include "tasks/image_comparison.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

tasks::ImageComparison comparison_of(const BenchImagesArguments& a) {
  tasks::ImageComparison c;
  if (!a.tasks.empty()) c.tasks = a.tasks;
  if (!a.seeds.empty()) c.seeds = parse_within("bench images: --seeds", a.seeds, 1, 1000);
  if (!a.seed.empty())
    c.seed = static_cast<std::uint64_t>(parse_within("bench images: --seed", a.seed, 0, 1'000'000'000));
  if (!a.epochs.empty()) c.epochs = parse_within("bench images: --epochs", a.epochs, 1, 1'000'000);
  c.threads = a.threads;
  c.quick = a.quick;
  return c;
}

std::vector<std::string> row_cells(const tasks::ImageComparisonRow& row) {
  std::string accuracy = format_as(100 * row.accuracy(), "%.2f %%");
  if (row.accuracies.size() > 1) accuracy += format_as(100 * row.deviation(), " ± %.2f");
  return {row.task,
          row.model,
          accuracy,
          std::to_string(row.parameters),
          format_as(static_cast<double>(row.multiply_adds) / 1e6, "%.2f M"),
          std::to_string(row.epochs),
          format_seconds(row.seconds_per_epoch())};
}

Json row_json(const tasks::ImageComparisonRow& row, int threads) {
  return {{"task", row.task},
          {"model", row.model},
          {"accuracy", row.accuracy()},
          {"deviation", row.deviation()},
          {"accuracies", row.accuracies},
          {"parameters", row.parameters},
          {"multiply_adds", row.multiply_adds},
          {"epochs", row.epochs},
          {"seconds_per_epoch", row.seconds_per_epoch()},
          {"threads", threads}};
}

}  // namespace

void bench_images(const BenchImagesArguments& a) {
  tasks::ImageComparison comparison = comparison_of(a);
  std::optional<TemporaryRuns> temporary;
  if (!a.out.empty()) check_output_directory("bench images: --out", a.out);
  if (a.out.empty()) temporary.emplace("bench images");
  comparison.directory = temporary ? temporary->path() : std::filesystem::path(a.out);
  std::optional<Progress> bar;
  const auto progress = [&](std::int64_t done, std::int64_t total, const std::string& what,
                            const training::StepReport* step) {
    if (!bar) bar.emplace("bench images", total);
    bar->update(done, step ? what + format_as(step->loss, "  loss %.3f") : what);
  };
  const Interrupt interrupt;
  const std::vector<tasks::ImageComparisonRow> rows =
      compared("bench images", [&] { return compare_image_models(comparison, progress, Interrupt::asked); });
  bar.reset();
  if (Interrupt::asked()) stop_comparison("bench images", a.out);
  if (a.json) {
    Json list = Json::array();
    for (const tasks::ImageComparisonRow& row : rows) list.push_back(row_json(row, a.threads));
    std::cout << Json{{"rows", list}}.dump(2) << "\n";
    return;
  }
  std::vector<std::vector<std::string>> table{
      {"task", "model", "test accuracy", "parameters", "multiply-adds", "epochs", "time an epoch"}};
  for (const tasks::ImageComparisonRow& row : rows) table.push_back(row_cells(row));
  std::cout << format_table(table);
}

}  // namespace rapt::cli
