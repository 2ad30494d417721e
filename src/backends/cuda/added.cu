#include "backends/cuda/added.h"

#include <map>
#include <mutex>
#include <shared_mutex>

#include "backends/cuda/programs_layout.h"
#include "rapt/error.h"

namespace rapt::inline v1::cuda {
namespace {

struct Added {
  std::shared_mutex mutex;
  std::map<const MechanismInfo*, const Programs*> programs;
};

Added& added() {
  static Added& all = *new Added;  // never destroyed: other threads may still be calling
  return all;
}

}  // namespace

void add_programs(const MechanismInfo& mechanism, const Programs& programs, std::uint64_t layout) {
  if (layout != programs_layout())
    throw Error(
        "cuda: add_kernels: expected kernels compiled against this library's headers, got those of another version");
  Added& all = added();
  const std::unique_lock lock(all.mutex);
  all.programs[&mechanism] = &programs;
}

const Programs* added_programs(const MechanismInfo& mechanism) {
  Added& all = added();
  const std::shared_lock lock(all.mutex);
  const auto found = all.programs.find(&mechanism);
  return found == all.programs.end() ? nullptr : found->second;
}

}  // namespace rapt::inline v1::cuda
