// MulT: a network for several tasks with shared attention, against networks without it.
#include <cmath>

#include "attend/counted.h"
#include "pictures/bars.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "tasks/scene_comparison.h"

namespace rapt::reproduce {
namespace {

// Sizes that fit the time of a report; `rapt bench multitask` has larger ones.
tasks::SceneComparison comparison_of(const Context& context) {
  tasks::SceneComparison comparison;
  comparison.directory = context.runs / "multitask";
  comparison.threads = context.threads;
  comparison.run.training.seed = context.seed;
  comparison.seeds = context.quick ? 1 : 3;
  comparison.run.data.train = context.quick ? 120 : 500;
  comparison.run.data.valid = context.quick ? 24 : 80;
  comparison.run.data.test = context.quick ? 48 : 200;
  comparison.run.training.epochs = context.quick ? 3 : 6;
  comparison.run.training.warmup = context.quick ? 8 : 30;
  return comparison;
}

// The networks for all tasks, and the comparison of the same kind with its own sizes.
Commands commands_of(const tasks::SceneComparison& c) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const std::string common = "rapt train scenes --train-size " + number(c.run.data.train) + " --valid-size " +
                             number(c.run.data.valid) + " --test-size " + number(c.run.data.test) + " --epochs " +
                             number(c.run.training.epochs) + " --warmup " + number(c.run.training.warmup) + " --seed " +
                             std::to_string(c.run.training.seed);
  return {{common + " --sharing none --out runs/none", common + " --sharing shared --out runs/shared",
           common + " --sharing none --tasks depth --out runs/depth", "rapt bench multitask --seeds 3"}};
}

std::string title_of(const std::string& score) {
  std::string title = score;
  for (char& c : title) c = c == '_' ? ' ' : c;
  return title + (tasks::higher_is_better(score) ? " ↑" : " ↓");
}

std::string text_of(const tasks::ComparedScore& score) {
  const bool share = score.form == training::Score::Form::fraction;
  const auto number = [&](double x) { return share ? fixed(100 * x, 1) : fixed(x, 3); };
  return number(score.mean()) + (score.values.size() > 1 ? " ± " + number(score.deviation()) : "") +
         (share ? " %" : "");
}

// By how many percent a score is better than the other, in the direction that is good for it.
double gain(const tasks::ComparedScore& ours, const tasks::ComparedScore& other) {
  const double change = 100 * (ours.mean() - other.mean()) / std::abs(other.mean());
  return tasks::higher_is_better(ours.name) ? change : -change;
}

}  // namespace

Section run_multitask(const Context& context) {
  Section section{"Several tasks at once", "MulT, the network"};
  const tasks::SceneComparison comparison = comparison_of(context);
  section.say(
      "Ray-cast scenes with exact ground truth for every pixel: its class, its depth, its normal, whether an edge "
      "passes through it, and how it would look under another light. One network for each task, one for all tasks "
      "without sharing, and one for all with the document's shared attention; all are trained on the same " +
      grouped(comparison.run.data.train) + " scenes for " + counted(comparison.run.training.epochs, "epoch") +
      ", with " + std::to_string(comparison.seeds) +
      (comparison.seeds == 1 ? " seed." : " seeds; ± is their standard deviation.") +
      " Such networks need far more training to converge: whether sharing helps is measured here, not proved.");
  const std::vector<tasks::ComparedNetwork> networks = tasks::compare_scenes(
      comparison,
      [&](std::int64_t done, std::int64_t total, const std::string& note) { context.show(done, total, note); },
      context.stop);
  if (networks.empty()) throw Interrupted{};
  const tasks::ComparedNetwork &none = networks.at(1), &shared = networks.at(2);
  Table table{grouped(comparison.run.data.test) + " test scenes, after " +
                  counted(comparison.run.training.epochs, "epoch") +
                  "; gain: the mean over the tasks against single networks",
              {"network"},
              {}};
  for (const tasks::ComparedScore& score : shared.scores) table.head.push_back(title_of(score.name));
  for (const char* name : {"gain, %", "parameters", "M multiply-adds", "time"}) table.head.emplace_back(name);
  for (const tasks::ComparedNetwork& network : networks) {
    std::vector<std::string> row{network.name};
    for (const tasks::ComparedScore& score : network.scores) row.push_back(text_of(score));
    row.push_back(fixed(network.gain.mean(), 1));
    row.push_back(grouped(network.parameters));
    row.push_back(fixed(1e-6 * static_cast<double>(network.multiply_adds), 1));
    row.push_back(duration(network.seconds));
    table.rows.push_back(std::move(row));
  }
  section.add(std::move(table));
  pictures::Bars bars{
      "What sharing attention changes", "% better than the same network without sharing", {}, {{"gain", {}}}};
  std::int64_t better = 0;
  for (std::size_t n = 0; n < shared.scores.size(); ++n) {
    const double change = gain(shared.scores[n], none.scores[n]);
    better += change > 0 ? 1 : 0;
    bars.groups.push_back(title_of(shared.scores[n].name));
    bars.series[0].values.push_back(change);
  }
  section.show("multitask", draw(bars),
               "Above 0 the score is better with one shared map than with a map for each task.");
  const auto tasks_count = static_cast<std::int64_t>(shared.scores.size());
  const std::string small = "Measured after " + counted(comparison.run.training.epochs, "epoch") + " on " +
                            grouped(comparison.run.data.train) + " scenes with " +
                            (comparison.seeds == 1 ? std::string("one seed, which cannot tell a small gain from chance")
                                                   : std::to_string(comparison.seeds) + " seeds") +
                            ". rapt bench multitask repeats it at larger sizes; examples/python/scenes does with "
                            "10,000 scenes, which has not been run at full size.";
  section.claims.push_back({"MulT, 5", "Sharing attention between tasks improves each of them", "each task improves",
                            of(better, tasks_count) + " scores are better with sharing than without", "all of them",
                            better == tasks_count, Weight::informative, small});
  section.claims.push_back(
      {"MulT, 5", "One network with sharing is better than a network for each task", "a gain",
       "gain " + fixed(shared.gain.mean(), 1) + " %, without sharing " + fixed(none.gain.mean(), 1) + " %", "above 0",
       shared.gain.mean() > 0, Weight::informative, small});
  section.claims.push_back({"MulT, 1", "q and k are computed once for all tasks", "x_s alone gives q and k",
                            grouped(shared.parameters) + " parameters against " + grouped(none.parameters),
                            "fewer with sharing", shared.parameters < none.parameters});
  section.add(commands_of(comparison));
  return section;
}

}  // namespace rapt::reproduce
