#include "oracle/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "oracle/formulas.h"

namespace oracle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A size that divides the full one is spread over it: 1 repeats, and query heads share key heads in groups.
Int spread(Int index, Int size, Int full) { return index * size / full; }

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
  return head;
}

Int bias_place(const Problem& p, Int b, Int h, Int i, Int j) {
  const Sizes& s = p.bias.shape;
  return p.bias.place(spread(b, s[0], p.batch()), spread(h, s[1], p.heads()), s[2] == 1 ? 0 : i, j);
}

// One row: what is between the formula and the weights.
template <class T>
struct Row {
  std::vector<T> capped;  // after the softcap, before the bias; its slope needs it
  std::vector<T> scores;  // −inf where hidden
  std::vector<T> weights;
  T lse = -std::numeric_limits<T>::infinity();
};

template <class T>
void normalize(const Problem& p, Row<T>& row) {
  const T infinity = std::numeric_limits<T>::infinity();
  const std::size_t n = row.scores.size();
  row.weights.assign(n, T(0));
  T largest = -infinity;
  bool has_nan = false;
  for (T s : row.scores) {
    has_nan = has_nan || std::isnan(s);
    largest = std::max(largest, s);
  }
  if (has_nan) {
    row.weights.assign(n, std::numeric_limits<T>::quiet_NaN());
    row.lse = std::numeric_limits<T>::quiet_NaN();
    return;
  }
  if (largest == -infinity) return;
  row.lse = largest;
  if (p.normalizer == Normalizer::argmax) {
    row.weights[std::size_t(std::find(row.scores.begin(), row.scores.end(), largest) - row.scores.begin())] = T(1);
    return;
  }
  T sum(0);
  for (std::size_t j = 0; j < n; ++j) {
    if (largest == infinity) row.weights[j] = row.scores[j] == infinity ? T(1) : T(0);
    else row.weights[j] = std::exp(row.scores[j] - largest);
    sum += row.weights[j];
  }
  for (T& w : row.weights) w /= sum;
  row.lse = largest + std::log(sum);
}

template <class T>
Row<T> evaluate_row(const Problem& p, const Formula<T>& formula, Int b, Int h, Int i) {
  Row<T> row;
  for (Int j = 0; j < p.keys(); ++j) {
    T s = -std::numeric_limits<T>::infinity();
    T capped(0);
    if (visible(p, b, h, i, j)) {
      s = formula.score(i, j);
      if (p.softcap > 0) s = T(p.softcap) * std::tanh(s / T(p.softcap));
      capped = s;
      if (!p.bias.empty()) s += T(p.bias.data[std::size_t(bias_place(p, b, h, i, j))]);
    }
    row.capped.push_back(capped);
    row.scores.push_back(s);
  }
  normalize(p, row);
  return row;
}

// Eight digits of mantissa, ties to even.
template <class T>
T to_bf16(T x) {
  if (!std::isfinite(x) || x == T(0)) return x;
  int exponent = 0;
  const T digits = std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(digits, 8)), exponent - 8);
}

// Hidden keys and keys without weight add nothing, whatever their values are.
template <class T>
T weighted_sum(const Row<T>& row, const Matrix<T>& v, Int d, bool rounds) {
  T sum(0);
  for (Int j = 0; j < v.rows; ++j) {
    const T w = row.weights[std::size_t(j)];
    if (w != T(0)) sum += (rounds ? to_bf16(w) : w) * v.at(j, d);
  }
  return sum;
}

template <class T>
Forward run_forward(const Problem& p, bool rounds = false) {
  const Int B = p.batch(), H = p.heads(), Sq = p.queries(), Sk = p.keys();
  Forward f;
  for (const Array& v : p.v) f.out.emplace_back(Sizes{B, H, Sq, v.shape[3]});
  f.lse = Array({B, H, Sq, 1});
  f.scores = Array({B, H, Sq, Sk});
  f.weights = Array({B, H, Sq, Sk});
  for (Int b = 0; b < B; ++b)
    for (Int h = 0; h < H; ++h) {
      Head<T> head = make_head<T>(p, b, h);
      const auto formula = make_formula<T>(p.mechanism, head);
      formula->prepare();
      std::vector<Matrix<T>> values;
      for (const Array& v : p.v) values.push_back(slice<T>(v, b, h, B, H));
      for (Int i = 0; i < Sq; ++i) {
        const Row<T> row = evaluate_row<T>(p, *formula, b, h, i);
        f.lse.at(b, h, i, 0) = double(row.lse);
        for (Int j = 0; j < Sk; ++j) {
          f.scores.at(b, h, i, j) = double(row.scores[std::size_t(j)]);
          f.weights.at(b, h, i, j) = double(row.weights[std::size_t(j)]);
        }
        for (std::size_t n = 0; n < values.size(); ++n)
          for (Int d = 0; d < values[n].cols; ++d)
            f.out[n].at(b, h, i, d) = double(weighted_sum(row, values[n], d, rounds));
      }
    }
  return f;
}

enum class Terms { signed_values, sizes };

template <class T>
void make_absolute(Matrix<T>& m) {
  for (T& e : m.data) e = std::abs(e);
}

template <class T>
Gradients run_backward(const Problem& p, const std::vector<Array>& grad_out, const std::vector<Array>* stored_out,
                       Terms terms = Terms::signed_values, bool rounds = false) {
  const Int B = p.batch(), H = p.heads(), Sq = p.queries(), Sk = p.keys();
  const bool sizes = terms == Terms::sizes;
  Gradients g;
  g.q = Array(p.q.shape);
  g.k = Array(p.k.shape);
  for (const Array& v : p.v) g.v.emplace_back(v.shape);
  if (!p.bias.empty()) g.bias = Array(p.bias.shape);
  for (const auto& [name, value] : p.parameters) g.parameters[name] = Array(value.shape);

  for (Int b = 0; b < B; ++b)
    for (Int h = 0; h < H; ++h) {
      Head<T> head = make_head<T>(p, b, h);
      const auto formula = make_formula<T>(p.mechanism, head);
      formula->prepare();
      std::vector<Matrix<T>> values, d_values, d_outs, outs;
      for (std::size_t n = 0; n < p.v.size(); ++n) {
        values.push_back(slice<T>(p.v[n], b, h, B, H));
        d_values.emplace_back(values[n].rows, values[n].cols);
        d_outs.push_back(slice<T>(grad_out[n], b, h, B, H));
        if (stored_out) outs.push_back(slice<T>((*stored_out)[n], b, h, B, H));
        if (sizes) make_absolute(values[n]), make_absolute(d_outs[n]);
      }
      for (Int i = 0; i < Sq; ++i) {
        const Row<T> row = evaluate_row<T>(p, *formula, b, h, i);
        std::vector<T> d_weights(std::size_t(Sk), T(0));
        T mean(0);
        for (Int j = 0; j < Sk; ++j) {
          const T w = row.weights[std::size_t(j)];
          if (w == T(0)) continue;
          for (std::size_t n = 0; n < values.size(); ++n)
            for (Int d = 0; d < values[n].cols; ++d) {
              d_weights[std::size_t(j)] += d_outs[n].at(i, d) * values[n].at(j, d);
              d_values[n].at(j, d) += (rounds ? to_bf16(w) : w) * d_outs[n].at(i, d);
            }
          mean += w * d_weights[std::size_t(j)];
        }
        if (p.normalizer == Normalizer::argmax) continue;
        if (stored_out) {
          mean = T(0);
          for (std::size_t n = 0; n < values.size(); ++n)
            for (Int d = 0; d < values[n].cols; ++d) mean += d_outs[n].at(i, d) * outs[n].at(i, d);
        }
        for (Int j = 0; j < Sk; ++j) {
          const T w = row.weights[std::size_t(j)];
          if (w == T(0)) continue;
          T d_score = w * (d_weights[std::size_t(j)] + (sizes ? mean : -mean));
          if (!p.bias.empty()) {
            double& target = g.bias.data[std::size_t(bias_place(p, b, h, i, j))];
            target = double(T(target) + d_score);
          }
          if (p.softcap > 0) {
            const T t = row.capped[std::size_t(j)] / T(p.softcap);
            d_score *= sizes ? T(1) + t * t : T(1) - t * t;
          }
          formula->reverse(i, j, rounds ? to_bf16(d_score) : d_score);
        }
      }
      formula->finish();
      add_slice(g.q, head.dq, b, h, B, H);
      add_slice(g.k, head.dk, b, h, B, H);
      for (std::size_t n = 0; n < values.size(); ++n) add_slice(g.v[n], d_values[n], b, h, B, H);
      for (auto& [name, value] : g.parameters) add_slice(value, head.gradients.at(name), 0, h, 1, H);
    }
  return g;
}

double loss(const Problem& p, const std::vector<Array>& grad_out) {
  const Forward f = forward(p);
  double sum = 0;
  for (std::size_t n = 0; n < f.out.size(); ++n)
    for (std::size_t e = 0; e < f.out[n].data.size(); ++e) sum += f.out[n].data[e] * grad_out[n].data[e];
  return sum;
}

}  // namespace

Int Problem::batch() const {
  Int batch = std::max(q.shape[0], k.shape[0]);
  for (const Array& x : v) batch = std::max(batch, x.shape[0]);
  return batch;
}

Int Problem::heads() const {
  Int heads = std::max(q.shape[1], k.shape[1]);
  for (const Array& x : v) heads = std::max(heads, x.shape[1]);
  return heads;
}

bool visible(const Problem& p, Int b, Int h, Int i, Int j) {
  const Mask& m = p.mask;
  if (!m.key_lengths.empty() && j >= m.key_lengths[m.key_lengths.size() == 1 ? 0 : std::size_t(b)]) return false;
  if (!m.dense.empty()) {
    const Sizes& s = m.dense.shape;
    if (m.dense.at(spread(b, s[0], p.batch()), spread(h, s[1], p.heads()), s[2] == 1 ? 0 : i, j) == 0) return false;
  }
  // Where the query and the key stand, and the sizes they are counted in: of the whole, or of their packed sequence.
  Int query = i, key = j, queries = p.queries(), keys = p.keys();
  if (!m.query_starts.empty()) {
    bool together = false;
    for (std::size_t s = 0; s + 1 < m.query_starts.size(); ++s) {
      const bool has_query = m.query_starts[s] <= i && i < m.query_starts[s + 1];
      const bool has_key = m.key_starts[s] <= j && j < m.key_starts[s + 1];
      if (!has_query || !has_key) continue;
      together = true;
      query = i - m.query_starts[s];
      key = j - m.key_starts[s];
      queries = m.query_starts[s + 1] - m.query_starts[s];
      keys = m.key_starts[s + 1] - m.key_starts[s];
    }
    if (!together) return false;
  }
  const Int shifted = query + (m.causal == Causal::bottom_right ? keys - queries : 0);
  if (m.causal != Causal::none && key > shifted) return false;
  if (m.window && m.window->left >= 0 && key < shifted - m.window->left) return false;
  if (m.window && m.window->right >= 0 && key > shifted + m.window->right) return false;
  return true;
}

Forward forward(const Problem& problem, Precision precision) {
  if (precision == Precision::exact) return run_forward<double>(problem);
  return run_forward<float>(problem, precision == Precision::bf16_weights);
}

Gradients backward(const Problem& problem, const std::vector<Array>& grad_out, Precision precision,
                   const std::vector<Array>* stored_out) {
  if (precision == Precision::exact) return run_backward<double>(problem, grad_out, stored_out);
  return run_backward<float>(problem, grad_out, stored_out, Terms::signed_values, precision == Precision::bf16_weights);
}

Gradients gradient_sizes(const Problem& problem, const std::vector<Array>& grad_out) {
  return run_backward<double>(problem, grad_out, nullptr, Terms::sizes);
}

Statistics statistics(const Forward& f, int top_k, std::array<Int, 2> grid) {
  const Sizes& shape = f.weights.shape;
  const Int rows = shape[0] * shape[1] * shape[2], keys = shape[3];
  const bool on_grid = grid[0] > 0;
  const Int axes = on_grid ? 2 : 1;
  Statistics s;
  s.entropy = Array({shape[0], shape[1], shape[2], 1});
  s.position = Array({shape[0], shape[1], shape[2], axes});
  s.covariance = Array({shape[0], shape[1], shape[2], axes * axes});
  s.top_weights = Array({shape[0], shape[1], shape[2], std::max(top_k, 1)});
  s.top_indices.assign(std::size_t(rows * std::max(top_k, 1)), -1);
  s.argmax.assign(std::size_t(rows), -1);
  const auto coordinate = [&](Int j, Int axis) {
    if (!on_grid) return double(j);
    return double(axis == 0 ? j / grid[1] : j % grid[1]);
  };
  for (Int r = 0; r < rows; ++r) {
    const double* w = f.weights.data.data() + r * keys;
    const double* score = f.scores.data.data() + r * keys;
    std::vector<Int> order;
    for (Int j = 0; j < keys; ++j)
      if (score[j] > -kInfinity) order.push_back(j);
    std::stable_sort(order.begin(), order.end(), [&](Int a, Int b) { return w[a] > w[b]; });
    if (order.empty()) continue;
    s.argmax[std::size_t(r)] = order[0];
    for (int t = 0; t < top_k && t < static_cast<int>(order.size()); ++t) {
      s.top_indices[std::size_t(r * top_k + t)] = order[std::size_t(t)];
      s.top_weights.data[std::size_t(r * top_k + t)] = w[order[std::size_t(t)]];
    }
    for (Int j = 0; j < keys; ++j) {
      if (w[j] > 0) s.entropy.data[std::size_t(r)] -= w[j] * std::log(w[j]);
      for (Int a = 0; a < axes; ++a) s.position.data[std::size_t(r * axes + a)] += w[j] * coordinate(j, a);
    }
    const double* mean = s.position.data.data() + r * axes;
    for (Int j = 0; j < keys; ++j)
      for (Int a = 0; a < axes; ++a)
        for (Int b = 0; b < axes; ++b)
          s.covariance.data[std::size_t((r * axes + a) * axes + b)] +=
              w[j] * (coordinate(j, a) - mean[a]) * (coordinate(j, b) - mean[b]);
  }
  return s;
}

Gradients finite_differences(const Problem& problem, const std::vector<Array>& grad_out, double step) {
  Problem p = problem;
  const auto difference = [&](Array& x) {
    Array d(x.shape);
    for (std::size_t n = 0; n < x.data.size(); ++n) {
      const double kept = x.data[n];
      const double h = step * std::max(1.0, std::abs(kept));
      x.data[n] = kept + h;
      const double above = loss(p, grad_out);
      x.data[n] = kept - h;
      d.data[n] = (above - loss(p, grad_out)) / (2 * h);
      x.data[n] = kept;
    }
    return d;
  };
  Gradients g;
  g.q = difference(p.q);
  g.k = difference(p.k);
  for (Array& v : p.v) g.v.push_back(difference(v));
  if (!p.bias.empty()) g.bias = difference(p.bias);
  for (auto& [name, value] : p.parameters) g.parameters[name] = difference(value);
  return g;
}

}  // namespace oracle
