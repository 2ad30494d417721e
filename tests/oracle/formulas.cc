#include "oracle/formulas.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace oracle {
namespace {

// x [rows, in] · w [in, out]
template <class T>
Matrix<T> product(const Matrix<T>& x, const Matrix<T>& w) {
  Matrix<T> y(x.rows, w.cols);
  for (Int r = 0; r < x.rows; ++r)
    for (Int d = 0; d < x.cols; ++d) add(y.row(r), x.at(r, d), w.row(d), w.cols);  // each sum in the order of d
  return y;
}

// The reverse of y = x·w: dx += dy·wᵀ, dw += xᵀ·dy. A row without a gradient adds nothing, whatever it holds.
template <class T>
void product_reverse(const Matrix<T>& x, const Matrix<T>& w, const Matrix<T>& dy, Matrix<T>& dx, Matrix<T>& dw) {
  for (Int r = 0; r < x.rows; ++r) {
    if (std::all_of(dy.row(r), dy.row(r) + dy.cols, [](T e) { return e == T(0); })) continue;
    for (Int d = 0; d < x.cols; ++d) {
      dx.at(r, d) += dot(dy.row(r), w.row(d), w.cols);
      add(dw.row(d), x.at(r, d), dy.row(r), w.cols);
    }
  }
}

// s · q·k
template <class T>
class Dot : public Formula<T> {
 public:
  using Formula<T>::Formula;
  T score(Int i, Int j) const override {
    return this->head_.scale * dot(this->head_.q.row(i), this->head_.k.row(j), this->head_.k.cols);
  }
  void reverse(Int i, Int j, T g) override {
    Head<T>& h = this->head_;
    add(h.dq.row(i), g * h.scale, h.k.row(j), h.k.cols);
    add(h.dk.row(j), g * h.scale, h.q.row(i), h.k.cols);
  }
};

// s · q W k
template <class T>
class Bilinear : public Formula<T> {
 public:
  using Formula<T>::Formula;
  void prepare() override {
    projected_ = product(this->head_.q, this->parameter("W"));
    d_projected_ = Matrix<T>(projected_.rows, projected_.cols);
  }
  T score(Int i, Int j) const override {
    return this->head_.scale * dot(projected_.row(i), this->head_.k.row(j), projected_.cols);
  }
  void reverse(Int i, Int j, T g) override {
    Head<T>& h = this->head_;
    add(d_projected_.row(i), g * h.scale, h.k.row(j), h.k.cols);
    add(h.dk.row(j), g * h.scale, projected_.row(i), h.k.cols);
  }
  void finish() override {
    product_reverse(this->head_.q, this->parameter("W"), d_projected_, this->head_.dq, this->gradient("W"));
  }

 private:
  Matrix<T> projected_, d_projected_;
};

// s · w · tanh(q Wq + k Wk); an absent matrix is the identity.
template <class T>
class Additive : public Formula<T> {
 public:
  using Formula<T>::Formula;
  void prepare() override {
    a_ = this->has("Wq") ? product(this->head_.q, this->parameter("Wq")) : this->head_.q;
    b_ = this->has("Wk") ? product(this->head_.k, this->parameter("Wk")) : this->head_.k;
    da_ = Matrix<T>(a_.rows, a_.cols);
    db_ = Matrix<T>(b_.rows, b_.cols);
  }
  T score(Int i, Int j) const override {
    const T* w = this->parameter("w").row(0);
    T sum(0);
    for (Int d = 0; d < a_.cols; ++d) sum += w[d] * std::tanh(a_.at(i, d) + b_.at(j, d));
    return this->head_.scale * sum;
  }
  void reverse(Int i, Int j, T g) override {
    const T* w = this->parameter("w").row(0);
    T* dw = this->gradient("w").row(0);
    const T gs = g * this->head_.scale;
    for (Int d = 0; d < a_.cols; ++d) {
      const T t = std::tanh(a_.at(i, d) + b_.at(j, d));
      const T slope = gs * w[d] * tanh_slope(a_.at(i, d) + b_.at(j, d));
      da_.at(i, d) += slope;
      db_.at(j, d) += slope;
      dw[d] += gs * t;
    }
  }
  void finish() override {
    Head<T>& h = this->head_;
    if (this->has("Wq")) product_reverse(h.q, this->parameter("Wq"), da_, h.dq, this->gradient("Wq"));
    else add(h.dq.data.data(), T(1), da_.data.data(), static_cast<Int>(da_.data.size()));
    if (this->has("Wk")) product_reverse(h.k, this->parameter("Wk"), db_, h.dk, this->gradient("Wk"));
    else add(h.dk.data.data(), T(1), db_.data.data(), static_cast<Int>(db_.data.size()));
  }

 private:
  Matrix<T> a_, b_, da_, db_;
};

// s · τ q·k / (‖q‖‖k‖); 0 when either has no length.
template <class T>
class Cosine : public Formula<T> {
 public:
  using Formula<T>::Formula;
  void prepare() override {
    q_length_ = lengths(this->head_.q);
    k_length_ = lengths(this->head_.k);
  }
  T score(Int i, Int j) const override { return this->head_.scale * tau() * cosine(i, j); }
  void reverse(Int i, Int j, T g) override {
    Head<T>& h = this->head_;
    const T gs = g * h.scale;
    const T c = cosine(i, j);
    this->gradient("tau").at(0, 0) += gs * c;
    const T nq = q_length_[i];
    const T nk = k_length_[j];
    if (nq == T(0) || nk == T(0)) return;
    // ∂c/∂q = (k/‖k‖ − c q/‖q‖)/‖q‖, and the same with q and k exchanged.
    const T gt = gs * tau();
    for (Int d = 0; d < h.k.cols; ++d) {
      const T uq = h.q.at(i, d) / nq;
      const T uk = h.k.at(j, d) / nk;
      h.dq.at(i, d) += gt * (uk - c * uq) / nq;
      h.dk.at(j, d) += gt * (uq - c * uk) / nk;
    }
  }

 private:
  static std::vector<T> lengths(const Matrix<T>& x) {
    std::vector<T> result;
    for (Int r = 0; r < x.rows; ++r) result.push_back(std::sqrt(dot(x.row(r), x.row(r), x.cols)));
    return result;
  }
  T tau() const { return this->parameter("tau").at(0, 0); }
  T cosine(Int i, Int j) const {
    if (q_length_[i] == T(0) || k_length_[j] == T(0)) return T(0);
    return dot(this->head_.q.row(i), this->head_.k.row(j), this->head_.k.cols) / (q_length_[i] * k_length_[j]);
  }

  std::vector<T> q_length_, k_length_;
};

// −s γ ‖q−k‖²
template <class T>
class Distance : public Formula<T> {
 public:
  using Formula<T>::Formula;
  T score(Int i, Int j) const override { return -this->head_.scale * gamma() * squared(i, j); }
  void reverse(Int i, Int j, T g) override {
    Head<T>& h = this->head_;
    const T gs = g * h.scale;
    this->gradient("gamma").at(0, 0) -= gs * squared(i, j);
    for (Int d = 0; d < h.k.cols; ++d) {
      const T slope = -T(2) * gs * gamma() * (h.q.at(i, d) - h.k.at(j, d));
      h.dq.at(i, d) += slope;
      h.dk.at(j, d) -= slope;
    }
  }

 private:
  T gamma() const { return this->parameter("gamma").at(0, 0); }
  T squared(Int i, Int j) const {
    T sum(0);
    for (Int d = 0; d < this->head_.k.cols; ++d) {
      const T x = this->head_.q.at(i, d) - this->head_.k.at(j, d);
      sum += x * x;
    }
    return sum;
  }
};

// s q·k − m·|i−j|
template <class T>
class Alibi : public Dot<T> {
 public:
  using Dot<T>::Dot;
  T score(Int i, Int j) const override {
    return Dot<T>::score(i, j) - this->parameter("m").at(0, 0) * T(std::abs(this->offset(i, j)));
  }
  void reverse(Int i, Int j, T g) override {
    Dot<T>::reverse(i, j, g);
    this->gradient("m").at(0, 0) -= g * T(std::abs(this->offset(i, j)));
  }
};

// s q·k + table[bucket(j−i)]
template <class T>
class T5 : public Dot<T> {
 public:
  using Dot<T>::Dot;
  T score(Int i, Int j) const override { return Dot<T>::score(i, j) + this->parameter("table").at(0, bucket(i, j)); }
  void reverse(Int i, Int j, T g) override {
    Dot<T>::reverse(i, j, g);
    this->gradient("table").at(0, bucket(i, j)) += g;
  }

 private:
  Int bucket(Int i, Int j) const {
    const double max_distance = this->setting("max_distance", 128);
    const Int buckets = this->parameter("table").cols;
    return this->setting("bidirectional", 1) != 0 ? t5_bucket(this->offset(i, j), buckets, max_distance)
                                                  : t5_decoder_bucket(this->offset(i, j), buckets, max_distance);
  }
};

// s q·(k + a[clip(j−i,±c)+c]); values[clip(j−i,±c)+c], with a c of its own, is added to v[j].
template <class T>
class Shaw : public Formula<T> {
 public:
  using Formula<T>::Formula;
  T score(Int i, Int j) const override {
    const Head<T>& h = this->head_;
    const T* a = this->parameter("a").row(place("a", i, j));
    T sum(0);
    for (Int d = 0; d < h.k.cols; ++d) sum += h.q.at(i, d) * (h.k.at(j, d) + a[d]);
    return h.scale * sum;
  }
  void reverse(Int i, Int j, T g) override {
    Head<T>& h = this->head_;
    const Int n = h.k.cols;
    const T gs = g * h.scale;
    add(h.dq.row(i), gs, h.k.row(j), n);
    add(h.dq.row(i), gs, this->parameter("a").row(place("a", i, j)), n);
    add(h.dk.row(j), gs, h.q.row(i), n);
    add(this->gradient("a").row(place("a", i, j)), gs, h.q.row(i), n);
  }
  const T* value_row(Int i, Int j) const override {
    return this->has("values") ? this->parameter("values").row(place("values", i, j)) : nullptr;
  }
  T* value_row_gradient(Int i, Int j) override {
    return this->has("values") ? this->gradient("values").row(place("values", i, j)) : nullptr;
  }

 private:
  Int place(const char* table, Int i, Int j) const {
    const Int c = (this->parameter(table).rows - 1) / 2;
    return std::clamp(this->offset(i, j), -c, c) + c;
  }
};

// s (q·k + q·r + u·k + v·r), r = r[j−i+origin]; the last row is for the last key and position 0 by default.
template <class T>
class TransformerXl : public Formula<T> {
 public:
  using Formula<T>::Formula;
  T score(Int i, Int j) const override {
    const Head<T>& h = this->head_;
    const Int n = h.k.cols;
    const T* r = this->parameter("r").row(place(i, j));
    return h.scale * (dot(h.q.row(i), h.k.row(j), n) + dot(h.q.row(i), r, n) +
                      dot(this->parameter("u").row(0), h.k.row(j), n) + dot(this->parameter("v").row(0), r, n));
  }
  void reverse(Int i, Int j, T g) override {
    Head<T>& h = this->head_;
    const Int n = h.k.cols;
    const T gs = g * h.scale;
    const T* r = this->parameter("r").row(place(i, j));
    T* dr = this->gradient("r").row(place(i, j));
    add(h.dq.row(i), gs, h.k.row(j), n);
    add(h.dq.row(i), gs, r, n);
    add(h.dk.row(j), gs, h.q.row(i), n);
    add(h.dk.row(j), gs, this->parameter("u").row(0), n);
    add(dr, gs, h.q.row(i), n);
    add(dr, gs, this->parameter("v").row(0), n);
    add(this->gradient("u").row(0), gs, h.k.row(j), n);
    add(this->gradient("v").row(0), gs, r, n);
  }

 private:
  Int place(Int i, Int j) const {
    const Int rows = this->parameter("r").rows;
    const Int origin = Int(this->setting("origin", -1));
    const Int row = this->offset(i, j) + (origin < 0 ? rows - this->head_.k.rows : origin);
    if (row < 0 || row >= rows) throw std::out_of_range("transformer_xl: no row for the distance");
    return row;
  }
};

// δ = key − query on a grid whose positions run along its rows.
template <class T>
class OnGrid : public Formula<T> {
 public:
  using Formula<T>::Formula;

 protected:
  Int row_offset(Int i, Int j) const { return row(this->key_position(j)) - row(this->query_position(i)); }
  Int col_offset(Int i, Int j) const { return col(this->key_position(j)) - col(this->query_position(i)); }

 private:
  Int row(Int position) const { return position / this->head_.grid[1]; }
  Int col(Int position) const { return position % this->head_.grid[1]; }
};

// −s α(‖δ‖² − 2 δ·Δ)
template <class T>
class Quadratic : public OnGrid<T> {
 public:
  using OnGrid<T>::OnGrid;
  T score(Int i, Int j) const override { return -this->head_.scale * alpha() * bracket(i, j); }
  void reverse(Int i, Int j, T g) override {
    const T gs = g * this->head_.scale;
    this->gradient("alpha").at(0, 0) -= gs * bracket(i, j);
    this->gradient("center").at(0, 0) += T(2) * gs * alpha() * T(this->row_offset(i, j));
    this->gradient("center").at(0, 1) += T(2) * gs * alpha() * T(this->col_offset(i, j));
  }

 private:
  T alpha() const { return this->parameter("alpha").at(0, 0); }
  T bracket(Int i, Int j) const {
    const T x = T(this->row_offset(i, j));
    const T y = T(this->col_offset(i, j));
    const Matrix<T>& center = this->parameter("center");
    return x * x + y * y - T(2) * (x * center.at(0, 0) + y * center.at(0, 1));
  }
};

// −s ½ ‖Γ(δ−Δ)‖²
template <class T>
class Gaussian : public OnGrid<T> {
 public:
  using OnGrid<T>::OnGrid;
  T score(Int i, Int j) const override {
    const Terms t = terms(i, j);
    return -this->head_.scale * T(0.5) * (t.u * t.u + t.v * t.v);
  }
  void reverse(Int i, Int j, T g) override {
    const Terms t = terms(i, j);
    const Matrix<T>& gamma = this->parameter("gamma");
    const T du = -g * this->head_.scale * t.u;
    const T dv = -g * this->head_.scale * t.v;
    Matrix<T>& dgamma = this->gradient("gamma");
    dgamma.at(0, 0) += du * t.x;
    dgamma.at(0, 1) += du * t.y;
    dgamma.at(1, 0) += dv * t.x;
    dgamma.at(1, 1) += dv * t.y;
    this->gradient("center").at(0, 0) -= du * gamma.at(0, 0) + dv * gamma.at(1, 0);
    this->gradient("center").at(0, 1) -= du * gamma.at(0, 1) + dv * gamma.at(1, 1);
  }

 private:
  struct Terms {
    T x, y, u, v;
  };
  Terms terms(Int i, Int j) const {
    const Matrix<T>& center = this->parameter("center");
    const Matrix<T>& gamma = this->parameter("gamma");
    const T x = T(this->row_offset(i, j)) - center.at(0, 0);
    const T y = T(this->col_offset(i, j)) - center.at(0, 1);
    return {x, y, gamma.at(0, 0) * x + gamma.at(0, 1) * y, gamma.at(1, 0) * x + gamma.at(1, 1) * y};
  }
};

// s q·(row[δ₁+R−1] + col[δ₂+C−1] + c·k)
template <class T>
class Learned2d : public OnGrid<T> {
 public:
  using OnGrid<T>::OnGrid;
  T score(Int i, Int j) const override {
    const Head<T>& h = this->head_;
    const T* row = this->parameter("row").row(row_place(i, j));
    const T* col = this->parameter("col").row(col_place(i, j));
    T sum(0);
    for (Int d = 0; d < h.k.cols; ++d) sum += h.q.at(i, d) * (row[d] + col[d] + content() * h.k.at(j, d));
    return h.scale * sum;
  }
  void reverse(Int i, Int j, T g) override {
    Head<T>& h = this->head_;
    const Int n = h.k.cols;
    const T gs = g * h.scale;
    add(h.dq.row(i), gs, this->parameter("row").row(row_place(i, j)), n);
    add(h.dq.row(i), gs, this->parameter("col").row(col_place(i, j)), n);
    add(h.dq.row(i), gs * content(), h.k.row(j), n);
    add(h.dk.row(j), gs * content(), h.q.row(i), n);
    add(this->gradient("row").row(row_place(i, j)), gs, h.q.row(i), n);
    add(this->gradient("col").row(col_place(i, j)), gs, h.q.row(i), n);
  }

 private:
  Int row_place(Int i, Int j) const { return this->row_offset(i, j) + this->head_.grid[0] - 1; }
  Int col_place(Int i, Int j) const { return this->col_offset(i, j) + this->head_.grid[1] - 1; }
  T content() const { return T(this->setting("content", 0)); }
};

}  // namespace

const std::vector<std::string>& formula_names() {
  static const std::vector<std::string> names = {"dot",       "scaled_dot", "bilinear",  "additive", "cosine",
                                                 "distance",  "alibi",      "t5",        "shaw",     "transformer_xl",
                                                 "quadratic", "gaussian",   "learned_2d"};
  return names;
}

bool knows(const std::string& name) {
  return std::find(formula_names().begin(), formula_names().end(), name) != formula_names().end();
}

bool divides_by_root(const std::string& name) {
  for (const char* scaled : {"scaled_dot", "alibi", "t5", "shaw", "transformer_xl", "learned_2d"})
    if (name == scaled) return true;
  return false;
}

namespace {

// The first half of the buckets are distances, the others lie on a logarithmic scale; the last takes all beyond.
Int t5_distance_bucket(Int distance, Int buckets, double max_distance) {
  const Int exact = buckets / 2;
  if (distance < exact) return distance;
  if (exact == 0 || max_distance <= double(exact)) return std::max<Int>(buckets - 1, 0);
  const double ratio = std::log(double(distance) / double(exact)) / std::log(max_distance / double(exact));
  return std::min(exact + Int(ratio * double(buckets - exact)), buckets - 1);
}

}  // namespace

Int t5_bucket(Int offset, Int buckets, double max_distance) {
  const Int half = buckets / 2;
  return (offset > 0 ? half : 0) + t5_distance_bucket(std::abs(offset), half, max_distance);
}

Int t5_decoder_bucket(Int offset, Int buckets, double max_distance) {
  return t5_distance_bucket(std::max<Int>(-offset, 0), buckets, max_distance);
}

template <class T>
std::unique_ptr<Formula<T>> make_formula(const std::string& name, Head<T>& head) {
  if (name == "dot" || name == "scaled_dot") return std::make_unique<Dot<T>>(head);
  if (name == "bilinear") return std::make_unique<Bilinear<T>>(head);
  if (name == "additive") return std::make_unique<Additive<T>>(head);
  if (name == "cosine") return std::make_unique<Cosine<T>>(head);
  if (name == "distance") return std::make_unique<Distance<T>>(head);
  if (name == "alibi") return std::make_unique<Alibi<T>>(head);
  if (name == "t5") return std::make_unique<T5<T>>(head);
  if (name == "shaw") return std::make_unique<Shaw<T>>(head);
  if (name == "transformer_xl") return std::make_unique<TransformerXl<T>>(head);
  if (name == "quadratic") return std::make_unique<Quadratic<T>>(head);
  if (name == "gaussian") return std::make_unique<Gaussian<T>>(head);
  if (name == "learned_2d") return std::make_unique<Learned2d<T>>(head);
  throw std::invalid_argument("the oracle has no formula " + name);
}

template std::unique_ptr<Formula<float>> make_formula<float>(const std::string&, Head<float>&);
template std::unique_ptr<Formula<double>> make_formula<double>(const std::string&, Head<double>&);

}  // namespace oracle
