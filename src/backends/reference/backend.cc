#include "backends/reference/backend.h"

#include "backends/host/host_parameters.h"
#include "backends/host/rotated_rows.h"
#include "backends/host/storage.h"
#include "backends/reference/head.h"

namespace rapt::inline v1 {
namespace {

bool takes(const Problem& problem, const Request&, std::string& why) {
  if (problem.device.kind == Device::Kind::cpu) return true;
  why = "expected arrays on cpu, got arrays on " + to_string(problem.device);
  return false;
}

class Pass final : public ForwardPass {
 public:
  Pass(const Problem& problem, const Outputs& outputs) : problem_(problem), outputs_(outputs) {}

  void run() override {
    Problem own = problem_;
    read_host_parameters(own);
    RotatedRows rotated(own);
    rotated.rotate();
    reference::forward(own, outputs_);
  }

 private:
  const Problem& problem_;
  const Outputs& outputs_;
};

std::unique_ptr<ForwardPass> forward(Problem& problem, const Outputs& outputs) {
  return std::make_unique<Pass>(problem, outputs);
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
  reference::backward(problem, own);
  rotated.rotate_back();
}

}  // namespace

const Backend& reference_backend() {
  static constexpr Backend backend{"reference", &takes, &forward, &backward};
  return backend;
}

}  // namespace rapt::inline v1
