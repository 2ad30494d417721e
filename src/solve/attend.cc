#include "solve/attend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rapt/error.h"

namespace rapt::solve {
namespace {

ConstView view_of(const Matrix& m) { return view(m.data.data(), {m.rows, m.cols}); }
View view_of(Matrix& m) { return view(m.data.data(), {m.rows, m.cols}); }

AttendOptions options_of(const WorkedProblem& problem, const ProblemHead& head, std::optional<double> scale) {
  AttendOptions options;
  options.score.mechanism = problem.mechanism;
  for (const NamedMatrix& parameter : head.parameters)
    options.score.parameters.push_back({parameter.name, view_of(parameter.value)});
  options.score.settings = problem.settings;
  options.score.grid = problem.grid;
  options.scale = scale;
  return options;
}

void add_masks(const WorkedProblem& problem, const ProblemHead& head, AttendOptions& options) {
  options.softcap = problem.softcap;
  if (!head.bias.empty()) options.bias = view_of(head.bias);
  options.mask.causal = problem.causal;
  options.mask.window = problem.window;
}

// Whether the file's own mask lets query i see key j.
bool visible(const Matrix& mask, std::int64_t i, std::int64_t j) {
  return mask.empty() || mask(mask.rows == 1 ? 0 : i, j) != 0;
}

// With one visible key, the largest score of a row is that key's score, for every mechanism. The reference path scales
// after the product, as formulas are written; the fast paths scale the queries first.
Matrix scores_of(const HeadInputs& inputs, const Matrix& mask, AttendOptions options) {
  const std::int64_t queries = inputs.q.rows;
  const std::int64_t keys = inputs.k.rows;
  options.normalizer = Normalizer::argmax;
  options.path = Path::reference;
  Matrix result(queries, keys);
  const Matrix no_values(keys, 1);
  Matrix unused(queries, 1);
  Matrix largest(queries, 1);
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(queries * keys));
  options.mask.dense = {seen.data(), {1, 1, queries, keys}, contiguous_strides({1, 1, queries, keys})};
  for (std::int64_t j = 0; j < keys; ++j) {
    std::fill(seen.begin(), seen.end(), std::uint8_t{0});
    for (std::int64_t i = 0; i < queries; ++i) seen[static_cast<std::size_t>(i * keys + j)] = visible(mask, i, j);
    Outputs outputs;
    outputs.out = {view_of(unused)};
    outputs.lse = view_of(largest);
    attend({view_of(inputs.q), view_of(inputs.k), {view_of(no_values)}}, outputs, options);
    for (std::int64_t i = 0; i < queries; ++i) result(i, j) = largest(i, 0);
  }
  return result;
}

Matrix softmax_of_columns(const Matrix& logits) {
  Matrix result(logits.rows, logits.cols);
  for (std::int64_t j = 0; j < logits.cols; ++j) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < logits.rows; ++i) largest = std::max(largest, logits(i, j));
    if (std::isinf(largest)) continue;  // nothing visible: zeros, as for rows
    double sum = 0;
    for (std::int64_t i = 0; i < logits.rows; ++i) sum += result(i, j) = std::exp(logits(i, j) - largest);
    for (std::int64_t i = 0; i < logits.rows; ++i) result(i, j) /= sum;
  }
  return result;
}

void attend_rows(const WorkedProblem& problem, const HeadInputs& inputs, AttendOptions options, HeadResult& result) {
  const std::int64_t queries = inputs.q.rows;
  const std::int64_t keys = inputs.k.rows;
  options.normalizer = problem.normalizer;
  std::vector<std::uint8_t> seen;
  if (!problem.mask.empty()) {
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = 0; j < keys; ++j) seen.push_back(visible(problem.mask, i, j));
    options.mask.dense = {seen.data(), {1, 1, queries, keys}, contiguous_strides({1, 1, queries, keys})};
  }
  std::vector<Matrix> values = inputs.v;
  if (values.empty()) values.emplace_back(keys, 1);
  Inputs arrays{view_of(inputs.q), view_of(inputs.k), {}};
  Outputs outputs;
  result.weights = Matrix(queries, keys);
  for (const Matrix& v : values) result.out.emplace_back(queries, v.cols);
  for (std::size_t n = 0; n < values.size(); ++n) {
    arrays.v.push_back(view_of(values[n]));
    outputs.out.push_back(view_of(result.out[n]));
  }
  outputs.weights.push_back({.row_end = queries, .out = view_of(result.weights)});
  attend(arrays, outputs, options);
  if (inputs.v.empty()) result.out.clear();
}

}  // namespace

HeadResult attend_head(const WorkedProblem& problem, const ProblemHead& head, const HeadInputs& inputs,
                       std::optional<double> scale) {
  try {
    HeadResult result;
    AttendOptions options = options_of(problem, head, scale);
    result.scores = scores_of(inputs, {}, options);
    result.changed = problem.softcap > 0 || !head.bias.empty() || problem.causal != Causal::none || problem.window ||
                     !problem.mask.empty();
    add_masks(problem, head, options);
    result.logits = result.changed ? scores_of(inputs, problem.mask, options) : result.scores;
    if (problem.axis == SoftmaxAxis::columns) {
      result.weights = softmax_of_columns(result.logits);
      for (const Matrix& v : inputs.v) result.out.push_back(multiply(result.weights, v));
    } else {
      attend_rows(problem, inputs, options, result);
    }
    return result;
  } catch (const Error& e) {
    throw Error("solve: " + problem.file + ": " + e.what());
  }
}

}  // namespace rapt::solve
