#include "cli/bench_shared.h"

#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

#include "benchmarks/shared.h"
#include "cli/bench_report.h"
#include "cli/options.h"
#include "cli/row_by_row.h"
#include "rapt/threads.h"

namespace rapt::cli {
void bench_shared(const bench::Plan& plan, bool json) {
  const std::vector<int> tasks = plan.quick ? std::vector{1, 2} : std::vector{1, 2, 4, 6};
  std::vector<bench::Sizes> shapes = plan.shapes;
  if (shapes.empty() && plan.quick) shapes = {{1, 2, 128, 32}};
  else if (shapes.empty()) shapes = {{1, 8, 1024, 64}, {8, 4, 256, 32}, {64, 4, 64, 16}};
  RowByRow run("bench shared", shapes.size() * plan.directions.size());
  Json rows = Json::array();
  std::vector<std::vector<std::string>> table{
      {"direction", "shape", "tasks", "time", "spread", "× one task", "at most", "within", "separate calls ÷ this"}};
  bool goes_on = true;
  for (const bench::Sizes& sizes : shapes)
    for (const bench::Direction direction : plan.directions) {
      bench::Spec spec;
      spec.name = "shared";
      spec.sizes = sizes;
      if (plan.dtype) spec.dtype = *plan.dtype;
      const std::string shape = std::to_string(sizes.batch) + "," + std::to_string(sizes.heads) + "," +
                                std::to_string(sizes.keys) + "," + std::to_string(sizes.dim);
      goes_on = goes_on && run.measure(shape + " " + name_of(direction), "shape " + shape, [&] {
        for (const bench::SharedRow& row : bench::measure_shared(spec, tasks, direction, plan.threads, plan.effort)) {
          const bool within = row.ratio <= row.limit();
          rows.push_back({{"direction", name_of(direction)},
                          {"shape", {sizes.batch, sizes.heads, sizes.keys, sizes.dim}},
                          {"tasks", row.spec.value_sets},
                          {"threads", plan.threads},
                          {"isa", name_of(active_isa())},
                          {"seconds", row.seconds.median},
                          {"spread", {row.seconds.low, row.seconds.high}},
                          {"runs", row.seconds.runs},
                          {"ratio", row.ratio},
                          {"limit", row.limit()},
                          {"within", within},
                          {"separate_ratio", row.separate}});
          table.push_back(
              {name_of(direction), shape, std::to_string(row.spec.value_sets), format_seconds(row.seconds.median),
               "±" + format_as(50 * (row.seconds.high - row.seconds.low) / row.seconds.median, "%.0f") + "%",
               format_as(row.ratio, "%.2f"), format_as(row.limit(), "%.2f"), within ? "yes" : "NO",
               format_as(row.separate, "%.2f")});
        }
      });
    }
  run.clear();
  if (json) print_bench({{"rows", rows}}, run.stopped());
  else std::cout << format_table(table);
  run.end();
}

}  // namespace rapt::cli
