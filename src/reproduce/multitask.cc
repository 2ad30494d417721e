// Document 000: a network for several tasks with MulT's shared attention, against networks without it.
#include <array>
#include <cmath>

#include "pictures/bars.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "reproduce/training.h"

namespace rapt::reproduce {
namespace {

struct Measure {
  const char* task;
  const char* score;
  const char* title;
  bool higher;  // is better
};

constexpr std::array<Measure, 5> kMeasures{{{"segmentation", "segmentation_miou", "mIoU", true},
                                            {"depth", "depth_rmse", "depth RMSE", false},
                                            {"normals", "normals_angle", "normals, degrees", false},
                                            {"edges", "edges_f1", "edges F1", true},
                                            {"reshading", "reshading_l1", "reshading L1", false}}};

constexpr std::array<const char*, 3> kKinds{"single tasks", "several tasks", "shared attention"};

struct Spread {
  double mean = 0, deviation = 0;
};

Spread spread_of(const std::vector<double>& values) {
  Spread s;
  for (const double v : values) s.mean += v / static_cast<double>(values.size());
  if (values.size() < 2) return s;
  for (const double v : values) s.deviation += (v - s.mean) * (v - s.mean) / static_cast<double>(values.size() - 1);
  s.deviation = std::sqrt(s.deviation);
  return s;
}

std::string text_of(const Spread& s, std::size_t count) {
  return fixed(s.mean, 3) + (count > 1 ? " ± " + fixed(s.deviation, 3) : "");
}

std::string run_name(const std::string& kind, std::uint64_t seed) { return kind + "_" + std::to_string(seed); }

std::vector<Job> jobs_of(const Context& context, std::uint64_t seeds) {
  std::map<std::string, std::string> options;
  if (context.quick) options = {{"epochs", "3"}, {"train_size", "300"}, {"valid_size", "60"}, {"test_size", "100"}};
  else options = {{"epochs", "8"}, {"train_size", "1000"}, {"valid_size", "100"}, {"test_size", "200"}};
  std::vector<Job> jobs;
  for (std::uint64_t n = 0; n < seeds; ++n) {
    const std::uint64_t seed = context.seed + n;
    const auto add = [&](const std::string& kind, const std::string& tasks, const std::string& sharing) {
      jobs.push_back({run_name(kind, seed), "scenes", options});
      jobs.back().options.insert({{"seed", std::to_string(seed)}, {"tasks", tasks}, {"sharing", sharing}});
    };
    if (!context.quick)
      for (const Measure& measure : kMeasures) add(measure.task, measure.task, "none");
    add("several", "all", "none");
    add("shared", "all", "shared");
  }
  return jobs;
}

}  // namespace

Section run_multitask(const Context& context) {
  const std::uint64_t seeds = context.quick ? 1 : 2;
  Section section{"Several tasks at once", "000, the MulT network"};
  section.say(
      "Ray-cast scenes with exact truth: what every pixel is, how far, which way it faces, whether an edge passes, "
      "and how it would be lit from elsewhere. One network for each task, one for all tasks with attention of "
      "their own, and one for all with the shared attention of the document; all are trained with the same scenes, "
      "epochs and settings.");
  const std::vector<Trained> runs = train_all(context, "multitask", jobs_of(context, seeds));
  Table table{
      "Test scenes" + std::string(seeds > 1 ? "; mean and deviation over " + std::to_string(seeds) + " seeds" : ""),
      {"network"},
      {}};
  for (const Measure& measure : kMeasures)
    table.head.push_back(std::string(measure.title) + (measure.higher ? " ↑" : " ↓"));
  std::array<std::array<Spread, kMeasures.size()>, kKinds.size()> results{};
  pictures::Bars bars{
      "Improvement over the network without sharing", "%, above 0 is better", {}, {{"shared attention", {}}}};
  for (std::size_t kind = context.quick ? 1 : 0; kind < kKinds.size(); ++kind) {
    std::vector<std::string> row{kKinds[kind]};
    for (std::size_t m = 0; m < kMeasures.size(); ++m) {
      std::vector<double> values;
      for (std::uint64_t n = 0; n < seeds; ++n) {
        const std::string name = kind == 0 ? kMeasures[m].task : kind == 1 ? "several" : "shared";
        values.push_back(find(runs, run_name(name, context.seed + n)).test.get(kMeasures[m].score));
      }
      results[kind][m] = spread_of(values);
      row.push_back(text_of(results[kind][m], values.size()));
    }
    table.rows.push_back(std::move(row));
  }
  section.add(std::move(table));
  std::int64_t better = 0;
  for (std::size_t m = 0; m < kMeasures.size(); ++m) {
    const double without = results[1][m].mean, with = results[2][m].mean;
    const double gain = (kMeasures[m].higher ? with - without : without - with) / std::abs(without);
    better += gain > 0 ? 1 : 0;
    bars.groups.emplace_back(kMeasures[m].title);
    bars.series[0].values.push_back(100 * gain);
  }
  section.show("multitask", draw(bars),
               "The change of each score in the direction that is better, shared attention against none.");
  section.add(Table{"Size", {"network", "parameters", "time of one training"}, [&] {
                      std::vector<std::vector<std::string>> rows;
                      for (const char* name : {"several", "shared"}) {
                        const Trained& run = find(runs, run_name(name, context.seed));
                        rows.push_back({run.name, grouped(run.parameters), duration(run.seconds)});
                      }
                      return rows;
                    }()});
  section.claims.push_back({"000 5", "Sharing attention between tasks improves each task", "each task improves",
                            of(better, kMeasures.size()) + " tasks are better with shared attention", "all five",
                            better == static_cast<std::int64_t>(kMeasures.size()), Weight::informative});
  const std::int64_t several = find(runs, run_name("several", context.seed)).parameters;
  const std::int64_t shared = find(runs, run_name("shared", context.seed)).parameters;
  section.claims.push_back({"000 1", "One map for all tasks needs fewer parameters than a map for each", "q and k once",
                            grouped(shared) + " against " + grouped(several), "fewer", shared < several});
  Commands commands;
  for (const Trained& run : runs) commands.lines.push_back(run.command);
  section.add(std::move(commands));
  return section;
}

}  // namespace rapt::reproduce
