#include "attend/backend.h"
#include "backends/cpu/backend.h"
#include "backends/reference/backend.h"
#include "rapt/error.h"

namespace rapt::inline v1 {

std::span<const Backend* const> backends() {
  static const Backend* const list[] = {&cpu_backend(), &reference_backend()};
  return list;
}

const Backend& backend_for(const char* operation, const Problem& problem) {
  std::string reasons;
  for (const Backend* backend : backends()) {
    std::string why;
    if (backend->takes(problem, why)) return *backend;
    reasons += std::string(reasons.empty() ? "" : "; ") + backend->name + ": " + why;
  }
  throw Error(std::string(operation) + ": no backend takes this call: " + reasons);
}

}  // namespace rapt::inline v1
