#include "benchmarks/naive_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/host/host_parameters.h"
#include "rapt/tiles.h"

namespace rapt::bench {
namespace {

void make_unit(std::vector<double>& row) {
  double square = 0;
  for (const double x : row) square += x * x;
  if (square == 0) return;
  for (double& x : row) x /= std::sqrt(square);
}

const double* row_of(const Operand& operand, std::int64_t b, std::int64_t h, std::int64_t row) {
  const MatrixRef matrix = operand.at(b, h);
  return static_cast<const double*>(matrix.data) + row * matrix.stride;
}

}  // namespace

NaiveRow::NaiveRow(const Workload& workload, std::int64_t batch, std::int64_t head)
    : workload_(workload),
      problem_(make_problem("bench", workload.inputs(), workload.options(Path::reference))),
      batch_(batch),
      head_(head) {
  read_host_parameters(problem_);
  for (std::int64_t j = 0; j < problem_.keys; ++j) {
    std::vector<double> row = map(row_of(problem_.k, batch, head, j), problem_.key_dim, Role::key_map);
    if (problem_.mechanism->unit_rows()) make_unit(row);
    keys_.insert(keys_.end(), row.begin(), row.end());
  }
}

const double* NaiveRow::parameter(Role role) const {
  const ParameterValue* p = problem_.find(role);
  return p != nullptr ? p->head<double>(head_) : nullptr;
}

std::vector<double> NaiveRow::map(const double* row, std::int64_t dim, Role role) const {
  const double* w = parameter(role);
  if (w == nullptr) return {row, row + dim};
  std::vector<double> mapped(static_cast<std::size_t>(problem_.inner));
  for (std::int64_t in = 0; in < dim; ++in)
    for (std::size_t to = 0; to < mapped.size(); ++to)
      mapped[to] += row[in] * w[static_cast<std::size_t>(in) * mapped.size() + to];
  return mapped;
}

std::vector<double> NaiveRow::query(std::int64_t i) const {
  const double* row = row_of(problem_.q, batch_, head_, i);
  return {row, row + problem_.query_dim};
}

std::vector<double> NaiveRow::raw_scores(const std::vector<double>& given) const {
  std::vector<double> scored = map(given.data(), problem_.query_dim, Role::query_map);
  if (problem_.mechanism->unit_rows()) make_unit(scored);
  if (const double* shift = parameter(Role::query_shift))
    for (std::size_t d = 0; d < scored.size(); ++d) scored[d] += shift[d];
  std::vector<double> scores(static_cast<std::size_t>(problem_.keys));
  if (!problem_.uses_content) return scores;
  const TileProgram<double>& program = problem_.mechanism->definition().scalar.f64;
  if (program.raw == nullptr) {
    for (std::size_t j = 0; j < scores.size(); ++j)
      for (std::size_t d = 0; d < scored.size(); ++d) scores[j] += scored[d] * keys_[j * scored.size() + d];
    return scores;
  }
  PairTile<double> tile;
  tile.object = problem_.object;
  tile.queries = scored.data();
  tile.key_rows = keys_.data();
  tile.weights = parameter(Role::pair_weight);
  tile.scores = scores.data();
  tile.dim = static_cast<int>(problem_.inner);
  tile.keys = static_cast<int>(problem_.keys);
  tile.columns = tile.stride = 1;
  tile.key_stride = problem_.inner;
  program.raw(tile);
  return scores;
}

std::vector<double> NaiveRow::relative_numbers(const ParameterValue& p, std::int64_t i,
                                               std::vector<double> given) const {
  const std::int64_t width = std::max<std::int64_t>(problem_.grid[1], 1);
  const auto parameter_index = static_cast<std::size_t>(&p - problem_.parameters.data());
  const TableShape shape{p.rows, problem_.queries, problem_.keys, problem_.grid, problem_.settings};
  if (const double* shift = parameter(Role::relative_query_shift))
    for (std::size_t d = 0; d < given.size(); ++d) given[d] += shift[d];
  std::vector<double> numbers;
  for (std::int64_t j = 0; j < problem_.keys; ++j) {
    std::int64_t offset = j - i;
    if (p.spec->along == Along::grid_row) offset = j / width - i / width;
    if (p.spec->along == Along::grid_col) offset = j % width - i % width;
    // A hidden pair may have no row in the table.
    const std::int64_t row = std::clamp<std::int64_t>(
        problem_.mechanism->definition().index(problem_.object, parameter_index, offset, shape), 0, p.rows - 1);
    const double* entry = p.head<double>(head_) + row * p.cols;
    double number = p.spec->role == Role::relative_value ? *entry : 0;
    if (p.spec->role == Role::relative_vector)
      for (std::int64_t d = 0; d < p.cols; ++d) number += given[static_cast<std::size_t>(d)] * entry[d];
    numbers.push_back(number);
  }
  return numbers;
}

void NaiveRow::apply(void (*hook)(const ScoreTile<double>&), std::int64_t i, const std::vector<double>& given,
                     std::vector<double>& scores) const {
  ScoreTile<double> tile;
  tile.object = problem_.object;
  tile.scores = scores.data();
  tile.keys = static_cast<int>(problem_.keys);
  tile.columns = tile.stride = 1;
  tile.first_query = i;
  tile.batch = batch_;
  tile.head = head_;
  tile.queries_total = problem_.queries;
  tile.keys_total = problem_.keys;
  tile.scale = problem_.scale;
  tile.settings = problem_.settings;
  std::vector<double> values(kMaxSlots);
  std::vector<std::vector<double>> relative;
  for (const ParameterValue& p : problem_.parameters) {
    if (!p.given || !p.spec->is_slot()) continue;
    if (p.spec->role == Role::value) {
      std::copy_n(p.head<double>(head_), p.size(), values.begin() + p.first_slot);
    } else {
      relative.push_back(relative_numbers(p, i, given));
      tile.relative[p.first_slot].base = relative.back().data();
      tile.relative[p.first_slot].stride = 1;
    }
  }
  tile.values = values.data();
  std::vector<double> rows, cols;
  for (std::int64_t j = 0; problem_.mechanism->grid() && j < problem_.keys; ++j) {
    rows.push_back(static_cast<double>(j / problem_.grid[1]));
    cols.push_back(static_cast<double>(j % problem_.grid[1]));
  }
  if (problem_.mechanism->grid()) {
    tile.query_row = rows.data() + i;
    tile.query_col = cols.data() + i;
    tile.key_row = rows.data();
    tile.key_col = cols.data();
  }
  for (const ParameterValue& p : problem_.parameters)
    if (p.given && p.table >= 0) tile.tables[p.table] = {p.head<double>(head_), nullptr, p.rows, p.cols};
  hook(tile);
}

std::vector<double> NaiveRow::logits(std::int64_t i, const std::vector<double>& given) const {
  std::vector<double> scores = raw_scores(given);
  const TileProgram<double>& program = problem_.mechanism->definition().scalar.f64;
  if (program.score != nullptr) apply(program.score, i, given, scores);
  else
    for (double& s : scores) s *= problem_.scale;
  const Spec& spec = workload_.spec;
  const std::int64_t shift = spec.causal == Causal::bottom_right ? problem_.keys - problem_.queries : 0;
  for (std::int64_t j = 0; j < problem_.keys; ++j) {
    double& s = scores[static_cast<std::size_t>(j)];
    if (spec.softcap > 0) s = spec.softcap * std::tanh(s / spec.softcap);
    if (problem_.bias) s += row_of(problem_.bias, batch_, head_, i)[j];
    const bool later = spec.causal != Causal::none && j > i + shift;
    const bool left = spec.window && spec.window->left >= 0 && j < i + shift - spec.window->left;
    const bool right = spec.window && spec.window->right >= 0 && j > i + shift + spec.window->right;
    if (later || left || right) s = -std::numeric_limits<double>::infinity();
  }
  if (program.hide != nullptr) apply(program.hide, i, given, scores);
  return scores;
}

std::vector<double> NaiveRow::weights(std::int64_t i, const std::vector<double>& given) const {
  std::vector<double> w = logits(i, given);
  const auto best = std::max_element(w.begin(), w.end());
  const double max = *best;
  const NormalizerDefinition& normalizer = *problem_.normalizer;
  std::vector<double> values;
  for (std::size_t n = 0; n < normalizer.info.parameters.size(); ++n)
    values.push_back(normalizer_value(problem_, n, head_));
  const auto weight_of = [&](double x) { return normalizer.scalar.weight(x, values.data()); };
  double sum = 0;
  switch (normalizer.threshold) {
    case Threshold::first_largest: {
      const auto place = best - w.begin();
      std::fill(w.begin(), w.end(), 0);
      w[static_cast<std::size_t>(place)] = 1;
      break;
    }
    case Threshold::exponential:
      for (double& x : w) sum += x = std::exp(x - max);
      for (double& x : w) x /= sum;
      break;
    case Threshold::none:
      for (double& x : w) x = weight_of(x);
      break;
    case Threshold::solved: {
      // Bisection: slower than the measured method, and unlike it.
      double low = max - normalizer.reach, high = max;
      while (low < (low + high) / 2 && (low + high) / 2 < high) {
        const double middle = (low + high) / 2;
        sum = 0;
        for (const double x : w) sum += weight_of(x - middle);
        (sum > 1 ? low : high) = middle;
      }
      for (double& x : w) x = weight_of(x - low);
    }
  }
  return w;
}

std::vector<double> NaiveRow::output(std::int64_t i, int value_set) const {
  const std::vector<double> w = weights(i, query(i));
  const Operand& v = problem_.v[static_cast<std::size_t>(value_set)];
  std::vector<double> out(static_cast<std::size_t>(v.dim));
  for (std::size_t j = 0; j < w.size(); ++j) {
    const double* row = row_of(v, batch_, head_, static_cast<std::int64_t>(j));
    for (std::size_t d = 0; d < out.size(); ++d) out[d] += w[j] * row[d];
  }
  return out;
}

double NaiveRow::query_slope(std::int64_t i, std::int64_t d) const {
  // What each key's value adds to the loss.
  std::vector<double> gain(static_cast<std::size_t>(problem_.keys));
  for (std::size_t set = 0; set < problem_.v.size(); ++set) {
    const Operand& v = problem_.v[set];
    const Array& grad_out = workload_.grad_out[set];
    const double* grad =
        grad_out.as<double>().data() + ((batch_ * problem_.heads + head_) * problem_.queries + i) * v.dim;
    for (std::int64_t j = 0; j < problem_.keys; ++j)
      for (std::int64_t n = 0; n < v.dim; ++n)
        gain[static_cast<std::size_t>(j)] += grad[n] * row_of(v, batch_, head_, j)[n];
  }
  const auto loss = [&](double step) {
    std::vector<double> moved = query(i);
    moved[static_cast<std::size_t>(d)] += step;
    const std::vector<double> w = weights(i, moved);
    double sum = 0;
    for (std::size_t j = 0; j < w.size(); ++j) sum += w[j] * gain[j];
    return sum;
  };
  // Thresholds make corners in the loss; a smaller step meets fewer of them.
  const double step = problem_.normalizer->threshold == Threshold::solved ? 1e-6 : 1e-4;
  return (loss(step) - loss(-step)) / (2 * step);
}

double NaiveRow::lead(std::int64_t i) const {
  std::vector<double> scores = logits(i, query(i));
  if (scores.size() < 2) return std::numeric_limits<double>::infinity();
  std::partial_sort(scores.begin(), scores.begin() + 2, scores.end(), std::greater<>());
  return scores[0] - scores[1];
}

}  // namespace rapt::bench
