#include "cli/bench_train.h"

#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

#include "cli/bench_report.h"
#include "cli/options.h"
#include "cli/row_by_row.h"
#include "rapt/threads.h"

namespace rapt::cli {
namespace {

Json row_json(const bench::TrainingRow& row, int threads) {
  const bench::TrainingCase& spec = row.spec;
  return {{"name", spec.name},
          {"direction", name_of(row.job)},
          {"shape", {row.sequences(), spec.source, spec.target_steps()}},
          {"threads", threads},
          {"isa", name_of(active_isa())},
          {"seconds", row.seconds.median},
          {"processor_seconds", row.processor_seconds},
          {"spread", {row.seconds.low, row.seconds.high}},
          {"runs", row.seconds.runs},
          {"sequences_per_second", row.per_second(row.sequences())},
          {"tokens_per_second", row.per_second(row.tokens())},
          {"all_tokens_per_second", row.per_second(row.all_tokens())},
          {"parameters", row.parameters},
          {"symbols", spec.sizes().target_symbols},
          {"loss", row.loss},
          {"gflops", row.gflops},
          {"sgemm_rate", row.sgemm_rate},
          {"fraction", row.fraction()}};
}

std::vector<std::string> row_cells(const bench::TrainingRow& row) {
  const bench::Spread& s = row.seconds;
  return {row.spec.name,
          name_of(row.job),
          std::to_string(row.sequences()) + "," + std::to_string(row.spec.source) + "," +
              std::to_string(row.spec.target_steps()),
          std::to_string(row.parameters),
          format_seconds(s.median),
          "±" + format_as(50 * (s.high - s.low) / s.median, "%.0f") + "%",
          format_as(row.per_second(row.tokens()), "%.0f"),
          format_as(row.per_second(row.all_tokens()), "%.0f"),
          format_as(row.per_second(row.sequences()), "%.0f"),
          format_as(row.gflops, "%.1f"),
          format_as(row.fraction(), "%.2f")};
}

}  // namespace

void bench_training(const BenchTrainArguments& a) {
  const std::vector<bench::TrainingCase> cases = bench::training_cases(a.names, a.quick);
  RowByRow run("bench train", a.jobs.size() * cases.size());
  bench::Sgemm sgemm(a.quick ? 512 : 2048, a.threads);
  sgemm.run();
  Json rows = Json::array();
  std::vector<std::vector<std::string>> table{{"model", "direction", "batch,source,target", "parameters", "time",
                                               "spread", "tokens/s", "with source", "sequences/s", "GFLOP/s",
                                               "of sgemm"}};
  bool goes_on = true;
  for (const bench::TrainingCase& spec : cases)
    for (const bench::Job job : a.jobs)
      goes_on = goes_on && run.measure(spec.name + " " + name_of(job), "", [&] {
        const bench::TrainingRow row = bench::measure_training(spec, job, a.threads, a.effort, sgemm);
        rows.push_back(row_json(row, a.threads));
        table.push_back(row_cells(row));
      });
  run.clear();
  if (a.json) print_bench({{"rows", rows}}, run.stopped());
  else std::cout << format_table(table);
  run.end();
}

}  // namespace rapt::cli
