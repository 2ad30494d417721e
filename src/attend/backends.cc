#include "attend/backend.h"
#include "backends/cpu/backend.h"
#include "backends/cpu/buffer.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/device.h"
#include "backends/reference/backend.h"
#include "rapt/error.h"
#include "rapt/threads.h"

namespace rapt::inline v1 {

std::span<const Backend* const> backends() {
  static const Backend* const list[] = {&cpu_backend(), &cuda_backend(), &reference_backend()};
  return list;
}

void choose_backend(const char* operation, Problem& problem, const Request& request) {
  std::string reasons;
  for (const Backend* backend : backends()) {
    std::string why;
    if (backend->takes(problem, request, why)) {
      problem.backend = backend;
      return;
    }
    reasons += std::string(reasons.empty() ? "" : "; ") + backend->name + ": " + why;
  }
  throw Error(std::string(operation) + ": expected a call that a backend takes, got one that none does: " + reasons);
}

void release_workspace() {
  release_buffers();
  cuda::release_device_memory();
}

}  // namespace rapt::inline v1
