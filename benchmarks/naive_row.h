#pragma once

#include <cstdint>
#include <vector>

#include "attend/problem.h"
#include "benchmarks/workload.h"
#include "rapt/tiles.h"

namespace rapt::bench {

// One row of attention at a time, in double and by definition: linear in the keys, so that it works for any shape.
class NaiveRow {
 public:
  // `workload` is in f64 and must outlive this object.
  NaiveRow(const Workload& workload, std::int64_t batch, std::int64_t head);

  // The weights of query i, or of another vector in its place.
  std::vector<double> weights(std::int64_t i) const { return weights(i, query(i)); }
  std::vector<double> weights(std::int64_t i, const std::vector<double>& query) const;

  std::vector<double> output(std::int64_t i, int value_set) const;

  // d(Σ out·grad_out)/dq[i, d], by a central difference.
  double query_slope(std::int64_t i, std::int64_t d) const;

  // The gap between the largest and the second score of row i: below 1e-3 rounding may change argmax's choice.
  double lead(std::int64_t i) const;

 private:
  std::vector<double> query(std::int64_t i) const;
  std::vector<double> raw_scores(const std::vector<double>& query) const;
  std::vector<double> relative_numbers(const ParameterValue& p, std::int64_t i, std::vector<double> query) const;
  void apply(void (*hook)(const ScoreTile<double>&), std::int64_t i, const std::vector<double>& query,
             std::vector<double>& scores) const;
  std::vector<double> logits(std::int64_t i, const std::vector<double>& query) const;
  std::vector<double> map(const double* row, std::int64_t dim, Role role) const;
  const double* parameter(Role role) const;

  const Workload& workload_;
  Problem problem_;
  std::int64_t batch_, head_;
  std::vector<double> keys_;  // [Sk, inner], mapped and normalised as the mechanism requires
};

}  // namespace rapt::bench
