#include "oracle/oracle.h"

#include <cmath>
#include <limits>

#include "oracle/formulas.h"
#include "oracle/normalizers.h"
#include "oracle/positions.h"

namespace oracle {
namespace {

template <class T>
Matrix<T> slice(const Array& x, Int batch, Int head, Int batches, Int heads) {
  Matrix<T> m(x.shape[2], x.shape[3]);
  const Int start = x.place(spread(batch, x.shape[0], batches), spread(head, x.shape[1], heads), 0, 0);
  for (std::size_t n = 0; n < m.data.size(); ++n) m.data[n] = T(x.data[static_cast<std::size_t>(start) + n]);
  return m;
}

template <class T>
void add_slice(Array& x, const Matrix<T>& m, Int batch, Int head, Int batches, Int heads) {
  const Int start = x.place(spread(batch, x.shape[0], batches), spread(head, x.shape[1], heads), 0, 0);
  // In the type of the arithmetic: the naive evaluation also adds heads up in float.
  for (std::size_t n = 0; n < m.data.size(); ++n) {
    double& target = x.data[static_cast<std::size_t>(start) + n];
    target = double(T(target) + m.data[n]);
  }
}

template <class T>
Head<T> make_head(const Problem& p, Int b, Int h) {
  Head<T> head;
  head.q = slice<T>(p.q, b, h, p.batch(), p.heads());
  head.k = slice<T>(p.k, b, h, p.batch(), p.heads());
  head.dq = Matrix<T>(head.q.rows, head.q.cols);
  head.dk = Matrix<T>(head.k.rows, head.k.cols);
  for (const auto& [name, value] : p.parameters) {
    head.parameters[name] = slice<T>(value, 0, h, 1, p.heads());
    head.gradients[name] = Matrix<T>(value.shape[2], value.shape[3]);
  }
  head.settings = p.settings;
  head.grid = p.grid;
  if (p.scale) head.scale = T(*p.scale);
  else if (divides_by_root(p.mechanism)) head.scale = T(1) / std::sqrt(T(p.k.shape[3]));
  head.first_query = first_query(p, b);
  head.first_key = p.first_key;
  rotate(p.rotary, head.first_query, head.q);
  rotate(p.rotary, head.first_key, head.k);
  return head;
}

template <class T>
Rule<T> make_rule(const Problem& p, Int h) {
  Rule<T> rule;
  rule.normalizer = p.normalizer;
  const auto number = [&](const char* name) -> std::optional<T> {
    const auto found = p.normalizer_parameters.find(name);
    if (found == p.normalizer_parameters.end()) return std::nullopt;
    return T(found->second.data[std::size_t(spread(h, found->second.shape[1], p.heads()))]);
  };
  rule.sink = number("sink");
  rule.b = number("b").value_or(T(-std::log(double(p.keys()))));
  return rule;
}

Int bias_place(const Problem& p, Int b, Int h, Int i, Int j) {
  const Sizes& s = p.bias.shape;
  return p.bias.place(spread(b, s[0], p.batch()), spread(h, s[1], p.heads()), s[2] == 1 ? 0 : i, j);
}

template <class T>
Row<T> evaluate_row(const Problem& p, const Formula<T>& formula, const Rule<T>& rule, Int b, Int h, Int i) {
  Row<T> row;
  for (Int j = 0; j < p.keys(); ++j) {
    T s = -std::numeric_limits<T>::infinity();
    T cap_slope(1);
    if (visible(p, b, h, i, j)) {
      s = formula.score(i, j);
      if (p.softcap > 0) {
        cap_slope = tanh_slope(s / T(p.softcap));
        s = T(p.softcap) * std::tanh(s / T(p.softcap));
      }
      if (!p.bias.empty()) {
        // −inf in the bias hides whatever the score is, NaN too.
        const T bias = T(p.bias.data[std::size_t(bias_place(p, b, h, i, j))]);
        s = bias == -std::numeric_limits<T>::infinity() ? bias : s + bias;
      }
    }
    row.cap_slopes.push_back(cap_slope);
    row.scores.push_back(s);
  }
  normalize(rule, row);
  return row;
}

// Binary digits that weights and gradients of scores keep; 0: all.
int weight_digits(Precision precision) {
  if (precision == Precision::bf16_weights) return 8;
  return precision == Precision::f16_weights ? 11 : 0;
}

// Ties to even.
template <class T>
T rounded(T x, int digits) {
  if (digits == 0 || !std::isfinite(x) || x == T(0)) return x;
  int exponent = 0;
  const T fraction = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, digits)), exponent - digits);
}

// Hidden keys and keys without weight add nothing, whatever their values are. Rows of a table belong to the first values.
template <class T>
std::vector<T> weighted_sums(const Row<T>& row, const Formula<T>& formula, const Matrix<T>& v, bool first, Int i,
                             int digits) {
  std::vector<T> sums(std::size_t(v.cols), T(0));
  for (Int j = 0; j < v.rows; ++j) {
    const T w = row.weights[std::size_t(j)];
    if (w == T(0)) continue;
    add(sums.data(), rounded(w, digits), v.row(j), v.cols);
    if (const T* added = first ? formula.value_row(i, j) : nullptr) add(sums.data(), w, added, v.cols);
  }
  return sums;
}

template <class T>
Forward run_forward(const Problem& p, int digits = 0) {
  const Int B = p.batch(), H = p.heads(), Sq = p.queries(), Sk = p.keys();
  Forward f;
  for (const Array& v : p.v) f.out.emplace_back(Sizes{B, H, Sq, v.shape[3]});
  f.lse = f.row_max = f.row_sum = Array({B, H, Sq, 1});
  f.scores = Array({B, H, Sq, Sk});
  f.weights = Array({B, H, Sq, Sk});
  for (Int b = 0; b < B; ++b)
    for (Int h = 0; h < H; ++h) {
      Head<T> head = make_head<T>(p, b, h);
      const auto formula = make_formula<T>(p.mechanism, head);
      const Rule<T> rule = make_rule<T>(p, h);
      formula->prepare();
      std::vector<Matrix<T>> values;
      for (const Array& v : p.v) values.push_back(slice<T>(v, b, h, B, H));
      for (Int i = 0; i < Sq; ++i) {
        const Row<T> row = evaluate_row<T>(p, *formula, rule, b, h, i);
        f.lse.at(b, h, i, 0) = double(row.lse);
        f.row_max.at(b, h, i, 0) = double(row.largest);
        f.row_sum.at(b, h, i, 0) = double(row.sum);
        for (Int j = 0; j < Sk; ++j) {
          f.scores.at(b, h, i, j) = double(row.scores[std::size_t(j)]);
          f.weights.at(b, h, i, j) = double(row.weights[std::size_t(j)]);
        }
        for (std::size_t n = 0; n < values.size(); ++n) {
          const std::vector<T> sums = weighted_sums(row, *formula, values[n], n == 0, i, digits);
          for (Int d = 0; d < values[n].cols; ++d) f.out[n].at(b, h, i, d) = double(sums[std::size_t(d)]);
        }
      }
    }
  return f;
}

template <class T>
void make_absolute(Matrix<T>& m) {
  for (T& e : m.data) e = std::abs(e);
}

// The gradients of one head's weights, and what rows of outputs give to the values.
template <class T>
struct HeadValues {
  std::vector<Matrix<T>> values, d_values, d_outs, outs;

  HeadValues(const Problem& p, const std::vector<Array>& grad_out, const std::vector<Array>* stored_out, Int b, Int h,
             Terms terms) {
    for (std::size_t n = 0; n < p.v.size(); ++n) {
      values.push_back(slice<T>(p.v[n], b, h, p.batch(), p.heads()));
      d_values.emplace_back(values[n].rows, values[n].cols);
      d_outs.push_back(slice<T>(grad_out[n], b, h, p.batch(), p.heads()));
      if (stored_out) outs.push_back(slice<T>((*stored_out)[n], b, h, p.batch(), p.heads()));
      if (terms == Terms::sizes) make_absolute(values[n]), make_absolute(d_outs[n]);
    }
  }

  std::vector<T> reverse(Formula<T>& formula, const Row<T>& row, Int i, int digits, Terms terms) {
    std::vector<T> d_weights(row.weights.size(), T(0));
    for (Int j = 0; j < static_cast<Int>(d_weights.size()); ++j) {
      const T w = row.weights[std::size_t(j)];
      if (w == T(0)) continue;
      T d_weight(0);
      for (std::size_t n = 0; n < values.size(); ++n) {
        const T* added = n == 0 ? formula.value_row(i, j) : nullptr;
        T* d_added = n == 0 ? formula.value_row_gradient(i, j) : nullptr;
        const T* d_out = d_outs[n].row(i);
        const T* value = values[n].row(j);
        const Int cols = values[n].cols;
        for (Int d = 0; d < cols; ++d) {
          d_weight += d_out[d] * value[d];
          if (added) d_weight += d_out[d] * (terms == Terms::sizes ? std::abs(added[d]) : added[d]);
        }
        add(d_values[n].row(j), rounded(w, digits), d_out, cols);
        if (d_added) add(d_added, w, d_out, cols);
      }
      d_weights[std::size_t(j)] = d_weight;
    }
    return d_weights;
  }

  // Σ w·∂w from outputs as they were stored.
  std::optional<T> mean(Int i) const {
    if (outs.empty()) return std::nullopt;
    T sum(0);
    for (std::size_t n = 0; n < outs.size(); ++n)
      for (Int d = 0; d < outs[n].cols; ++d) sum += d_outs[n].at(i, d) * outs[n].at(i, d);
    return sum;
  }
};

template <class T>
void add_number(double& target, T value) {
  target = double(T(target) + value);
}

template <class T>
Gradients run_backward(const Problem& p, const std::vector<Array>& grad_out, const std::vector<Array>* stored_out,
                       const Array* grad_lse, Terms terms = Terms::signed_values, int digits = 0) {
  const Int B = p.batch(), H = p.heads(), Sq = p.queries(), Sk = p.keys();
  const bool sizes = terms == Terms::sizes;
  Gradients g;
  g.q = Array(p.q.shape);
  g.k = Array(p.k.shape);
  for (const Array& v : p.v) g.v.emplace_back(v.shape);
  if (!p.bias.empty()) g.bias = Array(p.bias.shape);
  for (const auto& [name, value] : p.parameters) g.parameters[name] = Array(value.shape);
  for (const auto& [name, value] : p.normalizer_parameters) g.parameters[name] = Array(value.shape);

  for (Int b = 0; b < B; ++b)
    for (Int h = 0; h < H; ++h) {
      Head<T> head = make_head<T>(p, b, h);
      const auto formula = make_formula<T>(p.mechanism, head);
      const Rule<T> rule = make_rule<T>(p, h);
      formula->prepare();
      HeadValues<T> values(p, grad_out, stored_out, b, h, terms);
      for (Int i = 0; i < Sq; ++i) {
        const Row<T> row = evaluate_row<T>(p, *formula, rule, b, h, i);
        const std::vector<T> d_weights = values.reverse(*formula, row, i, digits, terms);
        T d_lse = grad_lse ? T(grad_lse->at(b, h, i, 0)) : T(0);
        if (sizes) d_lse = std::abs(d_lse);
        const RowGradient<T> d_row = reverse_row<T>(rule, row, d_weights, d_lse, values.mean(i), terms);
        for (const auto& [name, value] : p.normalizer_parameters) {
          Array& target = g.parameters.at(name);
          add_number(target.data[std::size_t(spread(h, value.shape[1], H))], d_row.parameter);
        }
        for (Int j = 0; j < Sk; ++j) {
          T d_score = d_row.scores[std::size_t(j)];
          if (row.slopes[std::size_t(j)] == T(0)) continue;
          if (!p.bias.empty()) add_number(g.bias.data[std::size_t(bias_place(p, b, h, i, j))], d_score);
          const T cap_slope = row.cap_slopes[std::size_t(j)];
          d_score *= sizes && p.softcap > 0 ? T(2) - cap_slope : cap_slope;  // the size of 1 − tanh² is 1 + tanh²
          formula->reverse(i, j, rounded(d_score, digits));
        }
      }
      formula->finish();
      rotate(p.rotary, head.first_query, head.dq, -1);
      rotate(p.rotary, head.first_key, head.dk, -1);
      add_slice(g.q, head.dq, b, h, B, H);
      add_slice(g.k, head.dk, b, h, B, H);
      for (std::size_t n = 0; n < p.v.size(); ++n) add_slice(g.v[n], values.d_values[n], b, h, B, H);
      for (const auto& [name, gradient] : head.gradients) add_slice(g.parameters.at(name), gradient, 0, h, 1, H);
    }
  return g;
}

}  // namespace

Forward forward(const Problem& problem, Precision precision) {
  if (precision == Precision::exact) return run_forward<double>(problem);
  return run_forward<float>(problem, weight_digits(precision));
}

Gradients backward(const Problem& problem, const std::vector<Array>& grad_out, Precision precision,
                   const std::vector<Array>* stored_out, const Array* grad_lse) {
  if (precision == Precision::exact) return run_backward<double>(problem, grad_out, stored_out, grad_lse);
  return run_backward<float>(problem, grad_out, stored_out, grad_lse, Terms::signed_values, weight_digits(precision));
}

Gradients gradient_sizes(const Problem& problem, const std::vector<Array>& grad_out, const Array* grad_lse) {
  return run_backward<double>(problem, grad_out, nullptr, grad_lse, Terms::sizes);
}

}  // namespace oracle
