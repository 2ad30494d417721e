#include "backends/reference/backend.h"

#include "attend/host_parameters.h"
#include "attend/rotated_rows.h"
#include "attend/storage.h"
#include "backends/reference/head.h"

namespace rapt::inline v1 {
namespace {

bool takes(const Problem& problem, std::string& why) {
  if (problem.device.kind == Device::Kind::cpu) return true;
  why = "expected arrays on cpu, got arrays on " + to_string(problem.device);
  return false;
}

void forward(Problem& problem, const Outputs& outputs) {
  read_host_parameters(problem);
  const RotatedRows rotated(problem);
  reference::forward(problem, outputs);
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
  reference::backward(problem, own);
  rotated.rotate_back();
}

}  // namespace

const Backend& reference_backend() {
  static constexpr Backend backend{"reference", &takes, &forward, &backward};
  return backend;
}

}  // namespace rapt::inline v1
