#include "backends/cpu/backend.h"

#include "attend/host_parameters.h"
#include "attend/rotated_rows.h"
#include "attend/storage.h"
#include "backends/cpu/engine.h"

namespace rapt::inline v1 {
namespace {

bool takes(const Problem& problem, std::string& why) {
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

void forward(Problem& problem, const Outputs& outputs) {
  read_host_parameters(problem);
  const RotatedRows rotated(problem);
  const bool plain =
      outputs.weights.empty() && !asks_statistics(outputs.statistics) && !outputs.row_max && !outputs.row_sum;
  if (problem.path == Path::automatic && plain && can_factorize(problem)) factorized_forward(problem, outputs);
  else tiled_forward(problem, outputs);
}

void backward(Problem& problem, const BackwardRequest& request) {
  if (problem.is_empty() || problem.keys == 0) {
    store_zeros(request.gradients);
    return;
  }
  read_host_parameters(problem);
  RotatedRows rotated(problem);
  BackwardRequest own = request;
  rotated.redirect(own.gradients);
  if (problem.path == Path::automatic && !own.grad_lse && can_factorize(problem)) {
    factorized_backward(problem, own.grad_out, own.gradients);
  } else {
    Saved again;
    if (!own.saved) {
      Outputs sums;
      sums.saved = &again;
      again.rows()->resize(problem.batch * problem.heads * problem.queries, problem.is_double);
      tiled_forward(problem, sums);
      own.saved = again.rows();
    }
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
