#include <algorithm>
#include <cmath>

#include "backends/host/host_parameters.h"
#include "backends/host/storage.h"
#include "backends/reference/head.h"

namespace rapt::inline v1 {
namespace reference {
namespace {

// A gradient summed in double over the batches and heads that share its array.
class GradientSum {
 public:
  GradientSum() = default;
  explicit GradientSum(const View& target) : target_(target) {
    if (target) sum_.resize(static_cast<std::size_t>(element_count(target.shape)));
  }

  explicit operator bool() const { return !sum_.empty(); }
  double* from(std::int64_t offset) { return sum_.data() + offset; }

  template <class T>
  void add(std::int64_t offset, const std::vector<T>& part) {
    for (std::size_t n = 0; n < part.size(); ++n)
      sum_[static_cast<std::size_t>(offset) + n] += static_cast<double>(part[n]);
  }

  void store() const {
    if (target_) store_array(sum_.data(), target_);
  }

 private:
  View target_;
  std::vector<double> sum_;
};

struct Sums {
  Sums(const Problem& problem, const Gradients& wanted)
      : q(wanted.q),
        k(wanted.k),
        v(problem.v.size()),
        bias(wanted.bias),
        parameters(problem.parameters.size()),
        normalizer(problem.normalizer_parameters.size()) {
    for (std::size_t n = 0; n < v.size() && n < wanted.v.size(); ++n) v[n] = GradientSum(wanted.v[n]);
    for (std::size_t n = 0; n < parameters.size(); ++n)
      for (const NamedGradient& g : wanted.parameters)
        if (g.name == problem.parameters[n].spec->name) parameters[n] = GradientSum(g.value);
    for (std::size_t n = 0; n < normalizer.size(); ++n)
      for (const NamedGradient& g : wanted.parameters)
        if (g.name == problem.normalizer_parameters[n].spec->name) normalizer[n] = GradientSum(g.value);
  }

  void store() const {
    q.store();
    k.store();
    bias.store();
    for (const GradientSum& g : v) g.store();
    for (const GradientSum& g : parameters) g.store();
    for (const GradientSum& g : normalizer) g.store();
  }

  GradientSum q, k;
  std::vector<GradientSum> v;
  GradientSum bias;
  std::vector<GradientSum> parameters;
  std::vector<GradientSum> normalizer;
};

// One head's part of all sums. Pairs without a gradient are skipped: their q, k or v may be NaN.
template <class T>
class HeadBackward {
 public:
  HeadBackward(const Problem& problem, std::int64_t b, std::int64_t h, Sums& sums)
      : problem_(problem), head_(problem, b, h), sums_(sums) {}

  void run(const std::vector<Operand>& grad_out, const Operand& grad_lse) {
    through_values(grad_out);
    through_output_table(grad_out[0]);
    if (problem_.normalizer->threshold == Threshold::first_largest) return;
    through_normalizer(grad_lse);
    through_bias_and_softcap();
    through_score();
    dq_scored_ = Matrix<T>(head_.q_scored.rows, head_.q_scored.cols);
    dq_relative_ = Matrix<T>(head_.q_relative.rows, head_.q_relative.cols);
    dk_ = Matrix<T>(head_.k.unit.rows, head_.k.unit.cols);
    if (problem_.uses_content) through_raw();
    for (std::size_t n = 0; n < head_.relative.size(); ++n) through_relative(head_.relative[n], d_relative_[n]);
    through_rows();
  }

 private:
  // dv = Pᵀ dO and dP = dO vᵀ.
  void through_values(const std::vector<Operand>& grad_out) {
    pairs_ = Matrix<T>(problem_.keys, problem_.queries);
    for (std::size_t set = 0; set < problem_.v.size() && set < grad_out.size(); ++set) {
      const Operand& operand = problem_.v[set];
      const Matrix<T> v = load_matrix<T>(operand.at(head_.batch, head_.head), problem_.keys, operand.dim);
      const Matrix<T> g = load_matrix<T>(grad_out[set].at(head_.batch, head_.head), problem_.queries, operand.dim);
      Matrix<T> dv(v.rows, v.cols);
      for (std::int64_t j = 0; j < problem_.keys; ++j)
        for (std::int64_t i = 0; i < problem_.queries; ++i) {
          const T w = head_.weights.at(j, i);
          if (w == T(0)) continue;
          for (std::int64_t d = 0; d < v.cols; ++d) {
            dv.at(j, d) += w * g.at(i, d);
            pairs_.at(j, i) += g.at(i, d) * v.at(j, d);
          }
        }
      if (sums_.v[set]) sums_.v[set].add(operand.slice(head_.batch, head_.head) * v.rows * v.cols, dv.data);
    }
  }

  // out[i] += Σ_j P table[offset]: dP gets dO·table, the table Pᵀ dO.
  void through_output_table(const Operand& grad_out) {
    const ParameterValue* p = problem_.find(Role::relative_output);
    if (p == nullptr) return;
    const Matrix<T> g = load_matrix<T>(grad_out.at(head_.batch, head_.head), problem_.queries, p->cols);
    const T* table = p->head<T>(head_.head);
    std::vector<double> d_table(static_cast<std::size_t>(p->size()));
    for (std::int64_t j = 0; j < problem_.keys; ++j)
      for (std::int64_t i = 0; i < problem_.queries; ++i) {
        const T w = head_.weights.at(j, i);
        if (w == T(0)) continue;
        const std::int64_t row = table_row(problem_, *p, head_.batch, i, j) * p->cols;
        for (std::int64_t d = 0; d < p->cols; ++d) {
          pairs_.at(j, i) += g.at(i, d) * table[row + d];
          d_table[static_cast<std::size_t>(row + d)] += static_cast<double>(w * g.at(i, d));
        }
      }
    add_parameter(*p, d_table.data());
  }

  // dS = u∘(dP − δ). Where weights are normalised, δ = Σ u∘dP / Σ u; a sink counts in Σ u.
  void through_normalizer(const Operand& grad_lse) {
    const Threshold threshold = problem_.normalizer->threshold;
    std::vector<double> d_values(kMaxSlots);
    for (std::int64_t i = 0; i < problem_.queries; ++i) {
      T mean = 0, total = 0;
      for (std::int64_t j = 0; j < problem_.keys; ++j) {
        const T u = head_.slopes.at(j, i);
        if (u == T(0)) continue;
        mean += u * pairs_.at(j, i);
        total += u;
      }
      if (threshold == Threshold::solved) mean = total == T(0) ? T(0) : mean / total;
      if (threshold == Threshold::none) {
        mean = 0;
        add_value_slopes(i, d_values.data());
      }
      if (grad_lse) {
        T grad = 0;
        load_row(grad_lse.at(head_.batch, head_.head), i, 1, &grad);
        mean -= grad;
      }
      if (threshold == Threshold::exponential) d_values[0] -= static_cast<double>(sink_weight(i) * mean);
      for (std::int64_t j = 0; j < problem_.keys; ++j) {
        const T u = head_.slopes.at(j, i);
        pairs_.at(j, i) = u == T(0) ? T(0) : u * (pairs_.at(j, i) - mean);
      }
    }
    for (std::size_t n = 0; n < problem_.normalizer_parameters.size(); ++n)
      if (problem_.normalizer_parameters[n].given) add_normalizer_parameter(n, d_values[n]);
  }

  T sink_weight(std::int64_t i) const {
    const ParameterValue& sink = problem_.normalizer_parameters[0];
    const auto row = static_cast<std::size_t>(i);
    if (!sink.given || head_.row_sum[row] == T(0)) return 0;
    return std::exp(sink.head<T>(head_.head)[0] - head_.row_max[row]) / head_.row_sum[row];
  }

  // ∂loss/∂p[n] = Σ dP · ∂weight/∂p[n].
  void add_value_slopes(std::int64_t i, double* d_values) const {
    double p[kMaxSlots] = {};
    const std::size_t slots = problem_.normalizer_parameters.size();
    for (std::size_t n = 0; n < slots; ++n) p[n] = normalizer_value(problem_, n, head_.head);
    for (std::int64_t j = 0; j < problem_.keys; ++j)
      for (std::size_t n = 0; n < slots && head_.weights.at(j, i) != T(0); ++n)
        d_values[n] += static_cast<double>(pairs_.at(j, i)) *
                       problem_.normalizer->scalar.parameter_slope(static_cast<double>(head_.logits.at(j, i)), p,
                                                                   static_cast<int>(n));
  }

  void add_normalizer_parameter(std::size_t n, double grad) {
    GradientSum& sum = sums_.normalizer[n];
    if (sum) *sum.from(problem_.normalizer_parameters[n].per_head ? head_.head : 0) += grad;
  }

  void through_bias_and_softcap() {
    if (sums_.bias) {
      const Operand& bias = problem_.bias;
      double* sum = sums_.bias.from(bias.slice(head_.batch, head_.head) * bias.rows * problem_.keys);
      for (std::int64_t j = 0; j < problem_.keys; ++j)
        for (std::int64_t i = 0; i < problem_.queries; ++i)
          sum[(bias.rows == 1 ? 0 : i) * problem_.keys + j] += static_cast<double>(pairs_.at(j, i));
    }
    const T cap = static_cast<T>(problem_.softcap);
    if (!(cap > 0)) return;
    for (std::size_t n = 0; n < pairs_.data.size(); ++n) {
      if (pairs_.data[n] == T(0)) continue;
      pairs_.data[n] *= tanh_and_slope(head_.scores.data[n] / cap).slope;
    }
  }

  void through_score() {
    const std::size_t slots = head_.values.size();
    std::vector<double> d_values(slots);
    std::vector<std::vector<double>> d_tables;
    for (const ParameterValue& p : problem_.parameters)
      d_tables.emplace_back(static_cast<std::size_t>(p.given && p.table >= 0 ? p.size() : 0));
    for (std::size_t n = 0; n < head_.relative.size(); ++n) d_relative_.emplace_back(problem_.keys, problem_.queries);
    if (head_.program.score_backward == nullptr) {
      for (T& g : pairs_.data) g *= static_cast<T>(problem_.scale);
      return;
    }
    // Key by key: a tile sums in T, and one sum over all pairs would lose digits.
    for (std::int64_t j = 0; j < problem_.keys; ++j) {
      ScoreTile<T> tile = head_.score_tile(j, 1, pairs_);
      tile.value_grads = d_values.data();
      for (std::size_t n = 0; n < head_.relative.size(); ++n)
        tile.relative[head_.relative[n].slot].grad = d_relative_[n].row(j);
      for (std::size_t n = 0; n < d_tables.size(); ++n)
        if (!d_tables[n].empty()) tile.tables[problem_.parameters[n].table].grad = d_tables[n].data();
      head_.program.score_backward(tile);
    }
    for (std::size_t n = 0; n < d_tables.size(); ++n)
      if (!d_tables[n].empty()) add_parameter(problem_.parameters[n], d_tables[n].data());
    for (const ParameterValue& p : problem_.parameters)
      if (p.given && p.spec->role == Role::value) add_parameter(p, d_values.data() + p.first_slot);
  }

  void through_raw() {
    const Matrix<T> queries = transposed(head_.q_scored);
    if (head_.program.raw_backward == nullptr) {
      for (std::int64_t j = 0; j < problem_.keys; ++j)
        for (std::int64_t i = 0; i < problem_.queries; ++i) {
          const T g = pairs_.at(j, i);
          if (g == T(0)) continue;
          for (std::int64_t d = 0; d < dk_.cols; ++d) {
            dq_scored_.at(i, d) += g * head_.k.unit.at(j, d);
            dk_.at(j, d) += g * head_.q_scored.at(i, d);
          }
        }
      return;
    }
    Matrix<T> d_queries(queries.rows, queries.cols);
    std::vector<double> d_weights(static_cast<std::size_t>(dk_.cols));
    for (std::int64_t j = 0; j < problem_.keys; ++j) {
      PairTile<T> tile = head_.pair_tile(queries);
      tile.keys = 1;
      tile.key_rows = head_.k.unit.row(j);
      tile.grad = pairs_.row(j);
      tile.grad_queries = d_queries.data.data();
      tile.grad_keys = dk_.row(j);
      tile.grad_key_stride = dk_.cols;
      tile.grad_weights = d_weights.data();
      head_.program.raw_backward(tile);
    }
    dq_scored_ = transposed(d_queries);
    if (const ParameterValue* p = problem_.find(Role::pair_weight)) add_parameter(*p, d_weights.data());
  }

  void through_relative(const Relative<T>& relative, const Matrix<T>& grad) {
    const ParameterValue& p = *relative.parameter;
    const T* table = p.head<T>(head_.head);
    std::vector<double> d_table(static_cast<std::size_t>(p.size()));
    for (std::int64_t j = 0; j < problem_.keys; ++j)
      for (std::int64_t i = 0; i < problem_.queries; ++i) {
        const T g = grad.at(j, i);
        if (g == T(0)) continue;
        const std::int64_t row = table_row(problem_, p, head_.batch, i, j);
        if (p.spec->role == Role::relative_value) {
          d_table[static_cast<std::size_t>(row)] += static_cast<double>(g);
          continue;
        }
        for (std::int64_t d = 0; d < p.cols; ++d) {
          dq_relative_.at(i, d) += g * table[row * p.cols + d];
          d_table[static_cast<std::size_t>(row * p.cols + d)] += static_cast<double>(g * head_.q_relative.at(i, d));
        }
      }
    add_parameter(p, d_table.data());
  }

  void through_rows() {
    add_shift(Role::query_shift, dq_scored_);
    add_shift(Role::relative_query_shift, dq_relative_);
    Matrix<T> dq = through_map(Role::query_map, head_.q, std::move(dq_scored_));
    for (std::size_t n = 0; n < dq.data.size(); ++n) dq.data[n] += dq_relative_.data[n];
    const Matrix<T> dk = through_map(Role::key_map, head_.k, std::move(dk_));
    add_rows(dq, problem_.q, sums_.q);
    add_rows(dk, problem_.k, sums_.k);
  }

  void add_rows(const Matrix<T>& grad, const Operand& operand, GradientSum& sum) {
    if (sum) sum.add(operand.slice(head_.batch, head_.head) * operand.rows * operand.dim, grad.data);
  }

  void add_shift(Role role, const Matrix<T>& grad) {
    const ParameterValue* p = problem_.find(role);
    if (p == nullptr) return;
    std::vector<double> sum(static_cast<std::size_t>(grad.cols));
    for (std::int64_t i = 0; i < grad.rows; ++i)
      for (std::int64_t d = 0; d < grad.cols; ++d)
        sum[static_cast<std::size_t>(d)] += static_cast<double>(grad.at(i, d));
    add_parameter(*p, sum.data());
  }

  // The gradient of the unit rows → of the mapped rows → of the given rows and the map.
  Matrix<T> through_map(Role role, const Rows<T>& rows, Matrix<T> grad) {
    if (problem_.mechanism->unit_rows()) through_unit_rows(rows, grad);
    const ParameterValue* p = problem_.find(role);
    if (p == nullptr) return grad;
    const T* w = p->head<T>(head_.head);  // [in, out]
    Matrix<T> d_given(rows.given.rows, rows.given.cols);
    std::vector<double> d_map(static_cast<std::size_t>(p->size()));
    for (std::int64_t r = 0; r < grad.rows; ++r)
      for (std::int64_t out = 0; out < grad.cols; ++out) {
        const T g = grad.at(r, out);
        if (g == T(0)) continue;
        for (std::int64_t in = 0; in < d_given.cols; ++in) {
          d_given.at(r, in) += g * w[in * grad.cols + out];
          d_map[static_cast<std::size_t>(in * grad.cols + out)] += static_cast<double>(g * rows.given.at(r, in));
        }
      }
    add_parameter(*p, d_map.data());
    return d_given;
  }

  // y = x/‖x‖: dx = (dy − y (y·dy))/‖x‖, and 0 for a row of length zero.
  void through_unit_rows(const Rows<T>& rows, Matrix<T>& grad) {
    for (std::int64_t r = 0; r < grad.rows; ++r) {
      double square = 0, along = 0;
      bool any = false;
      for (std::int64_t c = 0; c < grad.cols; ++c) {
        square += static_cast<double>(rows.mapped.at(r, c)) * static_cast<double>(rows.mapped.at(r, c));
        along += static_cast<double>(rows.unit.at(r, c)) * static_cast<double>(grad.at(r, c));
        any = any || grad.at(r, c) != T(0);
      }
      for (std::int64_t c = 0; c < grad.cols; ++c) {
        const double across = static_cast<double>(grad.at(r, c)) - static_cast<double>(rows.unit.at(r, c)) * along;
        grad.at(r, c) = !any || square == 0 ? T(0) : static_cast<T>(across / std::sqrt(square));
      }
    }
  }

  void add_parameter(const ParameterValue& p, const double* grad) {
    GradientSum& sum = sums_.parameters[static_cast<std::size_t>(&p - problem_.parameters.data())];
    if (!sum) return;
    double* target = sum.from(p.per_head ? head_.head * p.size() : 0);
    for (std::int64_t n = 0; n < p.size(); ++n) target[n] += grad[n];
  }

  const Problem& problem_;
  const Head<T> head_;
  Sums& sums_;
  Matrix<T> pairs_;  // [Sk, Sq]: dP, then dS, then the gradient of the scores, then of the raw scores
  std::vector<Matrix<T>> d_relative_;
  Matrix<T> dq_scored_, dq_relative_, dk_;
};

template <class T>
void backward(const Problem& problem, const BackwardRequest& request) {
  Sums sums(problem, request.gradients);
  // Head by head: whatever is shared is summed in a fixed order.
  for (std::int64_t b = 0; b < problem.batch; ++b)
    for (std::int64_t h = 0; h < problem.heads; ++h)
      HeadBackward<T>(problem, b, h, sums).run(request.grad_out, request.grad_lse);
  sums.store();
}

}  // namespace

void backward(const Problem& problem, const BackwardRequest& request) {
  if (problem.is_double) backward<double>(problem, request);
  else backward<float>(problem, request);
}

}  // namespace reference
}  // namespace rapt::inline v1
