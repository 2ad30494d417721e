#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/roofs.h"
#include "benchmarks/timing.h"
#include "benchmarks/workload.h"

// The rows of `rapt bench`: what is measured, and one measurement.
namespace rapt::bench {

// A formula to measure, and the mechanism that computes the same.
struct FormulaRow {
  Score score;
  std::string compiled;  // empty: none is known
  double softcap = 0;    // under which the mechanism computes the same
};

struct Plan {
  std::vector<std::string> names;  // of mechanisms or variants; none: all
  std::optional<FormulaRow> formula;
  std::vector<Sizes> shapes;  // none: those of each row
  std::optional<Dtype> dtype;
  std::vector<Direction> directions{Direction::forward, Direction::backward};
  int threads = 1;
  bool beside = true;  // scaled_dot of the same shape is measured in turn, where that is meaningful
  bool naive = true;
  double naive_seconds = 4;  // the naive path is skipped if it would take longer
  Effort effort;
  bool quick = false;  // one shape of each, and the machine's rate only once
};

struct Row {
  Spec spec;
  Direction direction = Direction::forward;
};

// Every mechanism, every normaliser but softmax, then the variants.
std::vector<std::string> known_names();
// The rows of a plan. Throws rapt::Error for an unknown name.
std::vector<Row> rows_of(const Plan& plan);

struct Measurement {
  Row row;
  Spread seconds;
  double gflops = 0;
  double rate = 0;
  const char* unit = "GFLOP/s";
  double sgemm_rate = 0;
  double fraction = 0;                     // gflops ÷ sgemm_rate
  std::optional<double> naive_ratio;       // the naive path's time ÷ this
  std::optional<double> compiled_ratio;    // the compiled mechanism's time ÷ that of the formula
  std::optional<double> scaled_dot_ratio;  // scaled_dot's time, same shape in f32, measured in turn, ÷ this
  std::optional<double> bandwidth;         // GB/s: inputs and outputs once, where there is one query
  std::optional<std::int64_t> peak_bytes;  // besides inputs and outputs
};

// The compiled equivalent of a formula, with the same inputs: a mechanism, with a softcap, and a mask for a condition
// on offsets; none if there is none.
std::optional<Spec> compiled_of(const Spec& spec);

// Throws WrongResult if results are wrong.
Measurement measure_row(const Row& row, const Plan& plan, const Roofs& roofs, Sgemm& sgemm);

}  // namespace rapt::bench
