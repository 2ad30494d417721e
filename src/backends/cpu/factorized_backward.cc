#include <cmath>
#include <string>

#include "backends/cpu/engine.h"
#include "backends/cpu/factorized.h"
#include "backends/cpu/factorized_pass.h"
#include "backends/cpu/parallel.h"
#include "backends/host/storage.h"

namespace rapt::inline v1 {
namespace factorized {
namespace {

template <class T>
struct HeadMoments {
  Form form;
  Axis row_axis, col_axis;
  AxisMoments<T> row, col;

  HeadMoments(const Problem& problem, std::int64_t h)
      : form(form_of(problem, h)),
        row_axis(problem.grid[0], form.coefficient[Form::kRow], form.coefficient[Form::kRowRow]),
        col_axis(problem.grid[1], form.coefficient[Form::kCol], form.coefficient[Form::kColCol]),
        row(row_axis),
        col(col_axis) {}
};

// Some numbers of the vectors of one value set; n is a matrix of v, or a batch and head.
struct GradientSlice {
  std::size_t set;
  std::int64_t n;
  std::int64_t first, count;
};

std::vector<GradientSlice> gradient_slices(const Problem& problem, std::size_t set, std::int64_t n) {
  std::vector<GradientSlice> slices;
  const std::int64_t width = slice_width(problem), dim = problem.v[set].dim;
  for (std::int64_t d = 0; d < dim; d += width) slices.push_back({set, n, d, std::min(width, dim - d)});
  return slices;
}

// dv = Σ (Wr ⊗ Wc)ᵀ dO over the heads that share v, dO first summed over the batches that do.
template <class T>
void value_gradient(const Problem& problem, const Operand& grad_out, const View& target, const GradientSlice& slice,
                    const std::vector<GridWeights<T>>& weights, const Kernels<T>& kernels, GridPass<T>& pass) {
  const Layout<T> layout(problem, kernels, slice.count);
  const Operand& v = problem.v[slice.set];
  const std::int64_t own_b = slice.n / v.heads, own_h = slice.n % v.heads;
  const std::int64_t begin = v.batches == 1 ? 0 : own_b, end = v.batches == 1 ? problem.batch : own_b + 1;
  std::vector<T> line(static_cast<std::size_t>(layout.cols * layout.width));
  for (std::int64_t h = own_h * v.group; h < (own_h + 1) * v.group; ++h)
    pass.run(layout, weights[static_cast<std::size_t>(h)], Direction::to_keys, h > own_h * v.group,
             [&](std::int64_t r, T* dst) {
               for (std::int64_t b = begin; b < end; ++b) {
                 kernels.load_rows(columns_from(grad_out.at(b, h), slice.first), r * layout.cols, layout.cols,
                                   slice.count, b == begin ? dst : line.data(), layout.width);
                 for (std::size_t n = 0; b > begin && n < line.size(); ++n) dst[n] += line[n];
               }
             });
  const MatrixRef out = columns_from(matrix_of(target, own_b, own_h), slice.first);
  for (std::int64_t j = 0; j < problem.keys; ++j)
    store_row(pass.sum(layout, j / layout.cols, j % layout.cols), slice.count, out, j);
}

template <class T>
double dot(const T* a, const T* b, std::int64_t count) {
  constexpr std::int64_t kSums = 16;  // apart, so that the compiler may use vectors
  T sums[kSums] = {};
  std::int64_t n = 0;
  for (; n + kSums <= count; n += kSums)
    for (std::int64_t s = 0; s < kSums; ++s) sums[s] += a[n + s] * b[n + s];
  double total = 0;
  for (; n < count; ++n) total += static_cast<double>(a[n] * b[n]);
  for (const T s : sums) total += static_cast<double>(s);
  return total;
}

// Σ_ij dS_ij δ_row^a δ_col^b of one head. As dS = P∘(dP − Σ P∘dP), each is Σ_ij P_ij (φ_ij − E_i φ) dO_i·v_j: with the
// centred matrices Kr and Kc of φ it is the dot product of Krᵀ dO and Kc v.
template <class T>
class Moments {
 public:
  void run(const Problem& problem, const Operand& grad_out, const HeadMoments<T>& head, const GradientSlice& slice,
           const Kernels<T>& kernels, double* moments) {
    const Layout<T> layout(problem, kernels, slice.count);
    const std::int64_t b = slice.n / problem.heads, h = slice.n % problem.heads;
    const double* slopes = head.form.derivative[Form::kRowCol];
    product_ = std::any_of(slopes, slopes + kMaxSlots, [](double d) { return d != 0; });
    load_gradient(layout, columns_from(grad_out.at(b, h), slice.first), head.row, slice.count);
    const MatrixRef v = columns_from(problem.v[slice.set].at(b, h), slice.first);
    double part[kParts] = {};
    for (std::int64_t r = 0; r < layout.rows; ++r) {
      load_values(layout, v, head, r, slice.count);
      for (std::int64_t c = 0; c < layout.cols; ++c) add_place(layout, head.col, r, c, part);
    }
    // Back from the offsets' own origins: δ² = (δ−a)² + 2aδ − a², and the constant has no part in dS.
    const double a = head.row_axis.about, e = head.col_axis.about;
    moments[Form::kRow] += part[kFirstRow];
    moments[Form::kCol] += part[kFirstCol];
    moments[Form::kRowRow] += part[kSecondRow] + 2 * a * part[kFirstRow];
    moments[Form::kColCol] += part[kSecondCol] + 2 * e * part[kFirstCol];
    moments[Form::kRowCol] += part[kProduct] + a * part[kFirstCol] + e * part[kFirstRow];
  }

 private:
  enum Part { kFirstRow, kFirstCol, kSecondRow, kSecondCol, kProduct, kParts };
  enum Grid { kGradient, kPlain, kFirst, kSecond, kShifted, kGrids };

  void load_gradient(const Layout<T>& layout, const MatrixRef& source, const AxisMoments<T>& row, std::int64_t count) {
    for (int n = 0; n < kGrids; ++n) grids_[n] = grid_memory_[n].reserve(layout.size());
    for (std::int64_t r = 0; r < layout.rows; ++r)
      layout.kernels->load_rows(source, r * layout.cols, layout.cols, count, layout.at(grids_[kGradient], r, 0),
                                layout.width);
    const std::vector<T>* matrices[] = {&row.plain, &row.first, &row.second, &row.shifted};
    for (int n = 0; n < (product_ ? 4 : 3); ++n)
      layout.multiply_rows(*matrices[n], Direction::to_keys, grids_[kGradient], grids_[kPlain + n], false);
  }

  void load_values(const Layout<T>& layout, const MatrixRef& source, const HeadMoments<T>& head, std::int64_t r,
                   std::int64_t count) {
    const std::int64_t size = layout.cols * layout.width;
    values_ = value_memory_.reserve(size);
    for (int n = 0; n < 3; ++n) rows_[n] = row_memory_[n].reserve(size);
    const std::vector<T>* matrices[] = {&head.col.plain, &head.col.first, &head.col.second};
    layout.kernels->load_rows(source, r * layout.cols, layout.cols, count, values_, layout.width);
    layout.multiply_columns(*matrices[0], Direction::to_queries, values_, rows_[0]);
    if (!all_finite(rows_[0], layout.width)) {
      clear_unseen(layout, head, r);
      layout.multiply_columns(*matrices[0], Direction::to_queries, values_, rows_[0]);
    }
    for (int n = 1; n < 3; ++n) layout.multiply_columns(*matrices[n], Direction::to_queries, values_, rows_[n]);
  }

  // A key that no query gives any weight has no part in the gradient, even if its value is NaN.
  void clear_unseen(const Layout<T>& layout, const HeadMoments<T>& head, std::int64_t r) {
    const auto largest = [](const Axis& axis, std::int64_t key) {
      double w = 0;
      for (std::int64_t i = 0; i < axis.size; ++i)
        w = std::max(w, axis.weights[static_cast<std::size_t>(i * axis.size + key)]);
      return w;
    };
    for (std::int64_t c = 0; c < layout.cols; ++c)
      if (without_denormals<T>(largest(head.row_axis, r) * largest(head.col_axis, c)) == T(0))
        std::fill_n(values_ + c * layout.width, layout.width, T(0));
  }

  void add_place(const Layout<T>& layout, const AxisMoments<T>& col, std::int64_t r, std::int64_t c, double* part) {
    const auto product = [&](Grid gradient, int value) {
      return dot(layout.at(grids_[gradient], r, c), rows_[value] + c * layout.width, layout.width);
    };
    const double first = product(kFirst, 0);
    part[kFirstRow] += first;
    part[kSecondRow] += product(kSecond, 0);
    part[kFirstCol] += product(kPlain, 1);
    part[kSecondCol] += product(kPlain, 2);
    // δr δc − E δr E δc = δr (δc − E δc) + (δr − E δr) E δc
    if (product_)
      part[kProduct] += product(kShifted, 1) + static_cast<double>(col.mean[static_cast<std::size_t>(c)]) * first;
  }

  Growing<T> grid_memory_[kGrids], value_memory_, row_memory_[3];
  T* grids_[kGrids] = {};  // dO and its products with the matrices of the rows
  T* values_ = nullptr;    // one grid row of v
  T* rows_[3] = {};        // and its products with the matrices of the columns
  bool product_ = true;    // whether the moment of both offsets is wanted
};

template <class T>
class Backward {
 public:
  Backward(const Problem& problem, const std::vector<Operand>& grad_out, const Gradients& gradients)
      : problem_(problem), grad_out_(grad_out), gradients_(gradients), kernels_(kernels_for<T>(problem.isa)) {
    std::vector<std::unique_ptr<HeadMoments<T>>> heads(static_cast<std::size_t>(problem.heads));
    parallel_for(problem.heads, problem.threads, [&](std::int64_t h, int) {
      heads[static_cast<std::size_t>(h)] = std::make_unique<HeadMoments<T>>(problem, h);
    });
    heads_ = std::move(heads);
  }

  void run() {
    if (gradients_.q) store_zeros(gradients_.q);
    if (gradients_.k) store_zeros(gradients_.k);
    values();
    if (!gradients_.parameters.empty()) parameters();
  }

 private:
  void values() {
    std::vector<GradientSlice> slices;
    for (std::size_t set = 0; set < problem_.v.size() && set < gradients_.v.size(); ++set) {
      if (!gradients_.v[set]) continue;
      for (std::int64_t n = 0; n < problem_.v[set].batches * problem_.v[set].heads; ++n)
        for (const GradientSlice& slice : gradient_slices(problem_, set, n)) slices.push_back(slice);
    }
    std::vector<GridWeights<T>> weights;
    for (const auto& head : heads_) weights.push_back({head->row.plain, head->col.plain});
    std::vector<GridPass<T>> passes(workers());
    parallel_for(static_cast<std::int64_t>(slices.size()), problem_.threads, [&](std::int64_t n, int worker) {
      const GradientSlice& slice = slices[static_cast<std::size_t>(n)];
      value_gradient(problem_, grad_out_[slice.set], gradients_.v[slice.set], slice, weights, kernels_,
                     passes[static_cast<std::size_t>(worker)]);
    });
  }

  void parameters() {
    const std::int64_t count = problem_.batch * problem_.heads;
    std::vector<double> moments(static_cast<std::size_t>(count * Form::kTerms));
    std::vector<Moments<T>> workspaces(workers());
    parallel_for(count, problem_.threads, [&](std::int64_t n, int worker) {
      const HeadMoments<T>& head = *heads_[static_cast<std::size_t>(n % problem_.heads)];
      for (std::size_t set = 0; set < problem_.v.size() && set < grad_out_.size(); ++set)
        for (const GradientSlice& slice : gradient_slices(problem_, set, n))
          workspaces[static_cast<std::size_t>(worker)].run(problem_, grad_out_[set], head, slice, kernels_,
                                                           moments.data() + n * Form::kTerms);
    });
    for (const NamedGradient& gradient : gradients_.parameters)
      for (const ParameterValue& p : problem_.parameters)
        if (p.given && gradient.name == p.spec->name) store_parameter(p, gradient.value, moments);
  }

  void store_parameter(const ParameterValue& p, const View& target, const std::vector<double>& moments) const {
    std::vector<double> grad(static_cast<std::size_t>((p.per_head ? problem_.heads : 1) * p.size()));
    for (std::int64_t n = 0; n < problem_.batch * problem_.heads; ++n) {
      const std::int64_t h = n % problem_.heads;
      for (std::int64_t e = 0; e < p.size(); ++e)
        for (int term = Form::kRow; term < Form::kTerms; ++term)
          grad[static_cast<std::size_t>((p.per_head ? h : 0) * p.size() + e)] +=
              moments[static_cast<std::size_t>(n * Form::kTerms + term)] *
              heads_[static_cast<std::size_t>(h)]->form.derivative[term][p.first_slot + e];
    }
    store_array(grad.data(), target);
  }

  std::size_t workers() const { return static_cast<std::size_t>(std::max(problem_.threads, 1)); }

  const Problem& problem_;
  const std::vector<Operand>& grad_out_;
  const Gradients& gradients_;
  const Kernels<T>& kernels_;
  std::vector<std::unique_ptr<HeadMoments<T>>> heads_;
};

}  // namespace
}  // namespace factorized

void factorized_backward(const Problem& problem, const std::vector<Operand>& grad_out, const Gradients& gradients) {
  if (problem.is_double) factorized::Backward<double>(problem, grad_out, gradients).run();
  else factorized::Backward<float>(problem, grad_out, gradients).run();
}

}  // namespace rapt::inline v1
