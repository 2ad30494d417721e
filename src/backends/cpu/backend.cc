#include "backends/cpu/backend.h"

#include "backends/cpu/engine.h"
#include "backends/host/host_parameters.h"
#include "backends/host/rotated_rows.h"
#include "backends/host/storage.h"

namespace rapt::inline v1 {
namespace {

bool takes(const Problem& problem, const Request&, std::string& why) {
  if (problem.device.kind != Device::Kind::cpu) {
    why = "expected arrays on cpu, got arrays on " + to_string(problem.device);
    return false;
  }
  if (problem.path == Path::reference) {
    why = "the reference path was asked for";
    return false;
  }
  return true;
}

class Pass final : public ForwardPass {
 public:
  Pass(Problem& problem, const Outputs& outputs) : problem_(problem), outputs_(outputs), rotated_(problem) {
    plain_ = asks_plain(outputs);

    read_host_parameters(problem);
    if (factorizes()) return;
    const Restored restored{rotated_};
    rotated_.reserve();
    tiles_ = keeping_forward(problem, outputs);
  }

  void run() override {
    read_host_parameters(problem_);
    // The path depends on the parameters' values, which may have changed.
    if (factorizes()) {
      factorized_forward(problem_, outputs_);
      return;
    }
    const Restored restored{rotated_};
    rotated_.rotate();
    if (!tiles_) tiles_ = keeping_forward(problem_, outputs_);
    tiles_->run();
  }

 private:
  struct Restored {
    RotatedRows& rows;
    ~Restored() { rows.restore(); }
  };

  bool factorizes() const { return problem_.path == Path::automatic && plain_ && can_factorize(problem_); }

  Problem& problem_;
  const Outputs& outputs_;
  RotatedRows rotated_;
  bool plain_ = false;
  std::unique_ptr<ForwardPass> tiles_;
};

std::unique_ptr<ForwardPass> forward(Problem& problem, const Outputs& outputs) {
  return std::make_unique<Pass>(problem, outputs);
}

// Row sums, and outputs where the caller's are rounded to 16 bits.
void compute_rows(const Problem& problem, const BackwardRequest& request, Saved& saved) {
  Outputs sums;
  sums.saved = &saved;
  saved.rows()->resize(problem.row_count(), problem.is_double, problem.device);
  bool narrow = true, wide = false;
  for (const Operand& out : request.out) {
    narrow = narrow && out.dtype == Dtype::bf16;
    wide =
        wide || (!problem.is_double && problem.is_softmax() && (out.dtype == Dtype::bf16 || out.dtype == Dtype::f16));
  }
  saved.rows()->wide_out.resize(wide ? request.out.size() : 0);
  for (std::size_t s = 0; s < saved.rows()->wide_out.size(); ++s) {
    const Shape shape{problem.batch, problem.heads, problem.queries, problem.v[s].dim};
    saved.rows()->wide_out[s].resize(static_cast<std::size_t>(element_count(shape)));
    sums.out.push_back(view(saved.rows()->wide_out[s].data(), shape));
  }
  tiled_forward(problem, sums, narrow)->run();
  saved.rows()->has_wide_out = wide;
}

void use_wide_out(const Problem& problem, const Saved::Rows& rows, BackwardRequest& request) {
  for (std::size_t s = 0; s < rows.wide_out.size(); ++s) {
    const std::vector<float>& out = rows.wide_out[s];
    if (out.empty()) continue;
    const Shape shape{problem.batch, problem.heads, problem.queries, problem.v[s].dim};
    request.out[s] = make_operand("attend_backward", "out", view(out.data(), shape));
  }
}

void backward(Problem& problem, const BackwardRequest& request) {
  if (problem.is_empty() || problem.keys == 0) {
    store_zeros(request.gradients);
    return;
  }
  read_host_parameters(problem);
  RotatedRows rotated(problem);
  rotated.rotate();
  BackwardRequest own = request;
  rotated.redirect(own.gradients);
  if (problem.path == Path::automatic && !own.grad_lse && !own.means && can_factorize(problem)) {
    factorized_backward(problem, own.grad_out, own.gradients);
  } else {
    Saved again;
    if (!own.saved) {
      compute_rows(problem, own, again);
      own.saved = again.rows();
    }
    if (own.saved->has_wide_out) use_wide_out(problem, *own.saved, own);
    tiled_backward(problem, own, *own.saved);
  }
  rotated.rotate_back();
}

}  // namespace

const Backend& cpu_backend() {
  static constexpr Backend backend{"cpu", &takes, &forward, &backward};
  return backend;
}

}  // namespace rapt::inline v1
