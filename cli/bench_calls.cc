#include "cli/bench_calls.h"

#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "benchmarks/calls.h"
#include "cli/bench_report.h"
#include "cli/options.h"
#include "cli/row_by_row.h"
#include "rapt/error.h"
#include "rapt/threads.h"

namespace rapt::cli {
namespace {

std::vector<bench::CallSizes> sizes_of(const bench::Plan& plan) {
  std::vector<bench::CallSizes> list;
  for (const bench::Sizes& s : plan.shapes) list.push_back({s.batch, s.heads, s.keys, s.keys, s.dim});
  if (!list.empty()) return list;
  if (plan.quick) return {{1, 1, 8, 8, 16}, {1, 32, 1, 1, 64}};
  for (const std::int64_t length : {1, 2, 4, 8, 16, 32, 64}) list.push_back({1, 1, length, length, 16});
  for (const std::int64_t length : {4, 8, 16, 32, 64, 128}) list.push_back({1, 8, length, length, 64});
  for (const std::int64_t length : {1, 2, 4, 8, 16, 32, 64, 128, 512}) list.push_back({1, 32, 1, length, 64});
  return list;
}

}  // namespace

void bench_calls(const bench::Plan& plan, bool json) {
  if (plan.dtype && *plan.dtype != Dtype::f32)
    throw Error(std::string("bench calls: --dtype: expected f32, got ") + name_of(*plan.dtype));
  const std::vector<bench::CallSizes> sizes = sizes_of(plan);
  RowByRow run("bench calls", sizes.size());
  Json rows = Json::array();
  std::vector<std::vector<std::string>> table{
      {"heads", "queries", "keys", "dim", "loop", "attend", "plan", "attend ÷ loop", "plan ÷ loop"}};
  for (const bench::CallSizes& s : sizes) {
    const bool goes_on = run.measure(counted(s.keys, "key"), "", [&] {
      const bench::CallTimes times = bench::measure_calls(s, plan.effort);
      const double attend = times.attend.median / times.loop.median, planned = times.plan.median / times.loop.median;
      rows.push_back({{"shape", {s.batch, s.heads, s.queries, s.dim}},
                      {"keys", s.keys},
                      {"isa", name_of(active_isa())},
                      {"loop_seconds", times.loop.median},
                      {"attend_seconds", times.attend.median},
                      {"plan_seconds", times.plan.median},
                      {"plan_spread", {times.plan.low, times.plan.high}},
                      {"attend_ratio", attend},
                      {"plan_ratio", planned}});
      table.push_back({std::to_string(s.batch * s.heads), std::to_string(s.queries), std::to_string(s.keys),
                       std::to_string(s.dim), format_seconds(times.loop.median), format_seconds(times.attend.median),
                       format_seconds(times.plan.median), format_as(attend, "%.2f"), format_as(planned, "%.2f")});
    });
    if (!goes_on) break;
  }
  run.clear();
  if (json) print_bench({{"rows", rows}}, run.stopped());
  else std::cout << format_table(table);
  run.end();
}

}  // namespace rapt::cli
