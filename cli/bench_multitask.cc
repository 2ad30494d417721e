#include "cli/bench_multitask.h"

#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/run_report.h"
#include "cli/temporary_runs.h"
#include "rapt/error.h"
#include "tasks/scene_comparison.h"

namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> references_of(const std::string& text) {
  std::vector<std::string> list;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    list.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return list;
}

tasks::SceneComparison comparison_of(const BenchMultitaskArguments& a) {
  tasks::SceneComparison c;
  if (a.quick) {
    c.run.data.train = 160;
    c.run.data.valid = 32;
    c.run.data.test = 64;
    c.run.training.epochs = 4;
    c.run.training.warmup = 10;
  }
  if (!a.config.empty()) tasks::apply_file(c.run, a.config);
  if (!a.epochs.empty()) c.run.training.epochs = parse_within("bench multitask: --epochs", a.epochs, 1, 1'000'000);
  if (!a.seeds.empty()) c.seeds = parse_within("bench multitask: --seeds", a.seeds, 1, 1000);
  else if (a.quick) c.seeds = 1;
  if (!a.seed.empty())
    c.run.training.seed = static_cast<std::uint64_t>(parse_within("bench multitask: --seed", a.seed, 0, 1'000'000'000));
  if (!a.reference.empty()) c.references = references_of(a.reference);
  c.threads = a.threads;
  return c;
}

std::string spread_text(const tasks::ComparedScore& score, std::int64_t seeds) {
  const bool percent = score.form == training::Score::Form::fraction;
  const double factor = percent ? 100 : 1;
  const char* format = percent || score.name == "gain" || score.mean() >= 10 ? "%.2f" : "%.4f";
  char text[64];
  std::snprintf(text, sizeof text, format, factor * score.mean());
  std::string result = text;
  if (seeds > 1) {
    std::snprintf(text, sizeof text, format, factor * score.deviation());
    result += std::string(" ± ") + text;
  }
  return result + (percent ? " %" : "");
}

std::string millions(std::int64_t n) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f M", static_cast<double>(n) / 1e6);
  return text;
}

void print_table(const std::vector<tasks::ComparedNetwork>& rows, std::int64_t seeds) {
  std::vector<std::vector<std::string>> table{{"network"}};
  for (const tasks::ComparedScore& score : rows[0].scores) {
    std::string title = score.name;
    title[title.find('_')] = ' ';
    table[0].push_back(title + (tasks::higher_is_better(score.name) ? " ↑" : " ↓"));
  }
  for (const char* title : {"gain %", "parameters", "multiply-adds", "training, 1 thread"})
    table[0].emplace_back(title);
  for (const tasks::ComparedNetwork& row : rows) {
    std::vector<std::string>& cells = table.emplace_back();
    cells.push_back(row.name);
    for (const tasks::ComparedScore& score : row.scores) cells.push_back(spread_text(score, seeds));
    cells.push_back(spread_text(row.gain, seeds));
    cells.push_back(millions(row.parameters));
    cells.push_back(millions(row.multiply_adds));
    cells.push_back(format_seconds(row.seconds));
  }
  std::cout << format_table(table);
}

Json json_of(const std::vector<tasks::ComparedNetwork>& rows) {
  const auto numbers = [](const tasks::ComparedScore& score) {
    return Json{{"mean", score.mean()}, {"deviation", score.deviation()}, {"values", score.values}};
  };
  Json list = Json::array();
  for (const tasks::ComparedNetwork& row : rows) {
    Json one{{"name", row.name},
             {"parameters", row.parameters},
             {"multiply_adds", row.multiply_adds},
             {"seconds", row.seconds}};
    for (const tasks::ComparedScore& score : row.scores) one["scores"][score.name] = numbers(score);
    one["gain"] = numbers(row.gain);
    list.push_back(one);
  }
  return list;
}

}  // namespace

void bench_multitask(const BenchMultitaskArguments& a) {
  tasks::SceneComparison comparison = comparison_of(a);
  std::optional<TemporaryRuns> temporary;
  if (a.out.empty()) comparison.directory = temporary.emplace("bench multitask").path();
  else {
    check_output_directory("bench multitask: --out", a.out);
    comparison.directory = a.out;
  }
  std::unique_ptr<Progress> bar;
  const auto progress = [&](std::int64_t done, std::int64_t total, const std::string& last) {
    if (!bar) bar = std::make_unique<Progress>("bench multitask", total);
    bar->update(done, last);
  };
  const Interrupt interrupt;
  const auto rows =
      compared("bench multitask", [&] { return tasks::compare_scenes(comparison, progress, Interrupt::asked); });
  bar.reset();
  if (Interrupt::asked()) stop_comparison("bench multitask", a.out);
  const tasks::SceneRunConfig& run = comparison.run;
  if (a.json) {
    std::cout << Json{{"seeds", comparison.seeds},    {"first_seed", run.training.seed}, {"size", run.data.size},
                      {"train_size", run.data.train}, {"epochs", run.training.epochs},   {"rows", json_of(rows)}}
                     .dump(2)
              << "\n";
    return;
  }
  std::cout << counted(run.data.train, "scene") << " of " << run.data.size << "×" << run.data.size << ", "
            << counted(run.training.epochs, "epoch") << ", " << comparison.seeds
            << (comparison.seeds == 1 ? " seed" : " seeds: mean ± deviation") << "\n\n";
  print_table(rows, comparison.seeds);
}

}  // namespace rapt::cli
