#include <algorithm>

#include "backends/cpu/engine.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/simd/kernels.h"
#include "backends/host/storage.h"

// The backward pass subtracts Σ out∘grad_out from gradients. With outputs rounded to 16 bits this would be its largest
// error, so it gets them unrounded.
namespace rapt::inline v1 {
namespace {

class KeepingForward final : public ForwardPass {
 public:
  KeepingForward(const Problem& problem, const Outputs& outputs) : p_(problem), outputs_(outputs), wide_(outputs) {
    Saved::Rows& rows = *outputs.saved->rows();
    rows.wide_out.resize(outputs.out.size());
    for (std::size_t s = 0; s < wide_.out.size(); ++s)
      if (is_short(outputs.out[s])) wide_.out[s] = wide_view(rows, s);
    inner_ = tiled_forward(problem, wide_, all_narrow(outputs));
  }

  void run() override {
    Saved::Rows& rows = *outputs_.saved->rows();
    rows.wide_out.resize(outputs_.out.size());
    for (std::size_t s = 0; s < wide_.out.size(); ++s)
      wide_.out[s].data = is_short(outputs_.out[s]) ? wide_view(rows, s).data : outputs_.out[s].data;
    wide_.lse.data = outputs_.lse.data;
    wide_.row_max.data = outputs_.row_max.data;
    wide_.row_sum.data = outputs_.row_sum.data;
    inner_->run();
    for (std::size_t s = 0; s < wide_.out.size(); ++s)
      if (is_short(outputs_.out[s])) store(rows.wide_out[s], outputs_.out[s]);
    rows.has_wide_out = true;
  }

  static bool is_short(const View& out) { return out.dtype == Dtype::bf16 || out.dtype == Dtype::f16; }

 private:
  View wide_view(Saved::Rows& rows, std::size_t s) const {
    const Shape shape{p_.batch, p_.heads, p_.queries, p_.v[s].dim};
    rows.wide_out[s].resize(static_cast<std::size_t>(element_count(shape)));
    View view = outputs_.out[s];
    view.data = rows.wide_out[s].data();
    view.dtype = Dtype::f32;
    view.shape = shape;
    view.strides = contiguous_strides(shape);
    return view;
  }

  void store(const std::vector<float>& from, const View& to) const {
    const Kernels<float>& kernels = kernels_for<float>(p_.isa);
    constexpr std::int64_t kRows = 64;
    const std::int64_t blocks = (p_.queries + kRows - 1) / kRows, dim = to.shape[3];
    parallel_for(p_.batch * p_.heads * blocks, p_.threads, [&](std::int64_t n, int) {
      const std::int64_t head = n / blocks, first = n % blocks * kRows;
      const MatrixRef target = matrix_of(to, head / p_.heads, head % p_.heads);
      for (std::int64_t i = first; i < std::min(first + kRows, p_.queries); ++i)
        kernels.store_row(from.data() + (head * p_.queries + i) * dim, dim, target, i);
    });
  }

  const Problem& p_;
  const Outputs& outputs_;
  Outputs wide_;
  std::unique_ptr<ForwardPass> inner_;
};

}  // namespace

std::unique_ptr<ForwardPass> keeping_forward(const Problem& problem, const Outputs& outputs) {
  if (outputs.saved && !problem.is_double && problem.is_softmax() &&
      std::ranges::any_of(outputs.out, &KeepingForward::is_short))
    return std::make_unique<KeepingForward>(problem, outputs);
  return tiled_forward(problem, outputs, all_narrow(outputs));
}

}  // namespace rapt::inline v1
