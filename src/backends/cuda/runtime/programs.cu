#include "attend/problem.h"
#include "backends/cuda/programs.cuh"
#include "mechanisms/device_hooks.h"
#include "mechanisms/objects.h"

namespace rapt::inline v1 {
namespace cuda {

// Stand for the mechanism at launches; what they compute is in Call::kernels.
namespace run_time {

struct Scaled {
  static constexpr bool at_run_time = true;
};
struct Scored {
  static constexpr bool at_run_time = true;
  template <class N, class P, class A>
  RAPT_FN N score(N raw, const P&, const A&) const {
    return raw;
  }
};

// With so many numbers that tiles must be smaller.
struct Heavy : Scored {
  static constexpr std::array parameters{ParameterSpec{.name = "", .sizes = {3, 0}}};
};

}  // namespace run_time

const Programs& run_time_programs(const Problem& problem) {
  static constexpr Programs kScored = make_programs<run_time::Scored>(), kScaled = make_programs<run_time::Scaled>(),
                            kHeavy = make_programs<run_time::Heavy>();
  static constexpr Programs kGeneral = [] {
    Programs programs = make_programs<run_time::Scored>();
    programs.fast = nullptr;
    return programs;
  }();
  static constexpr Programs kGrid = [] {
    Programs programs = make_programs<run_time::Scored>();
    programs.fast = nullptr;
    programs.factorized = &factorized::kFormulaPrograms;
    return programs;
  }();
  const DeviceHooks& hooks =
      problem.mechanism->definition().entry->device_hooks(problem.object, offsets_are_masks(problem));
  if (hooks.has_form) return kGrid;
  if (!hooks.is_plain) return kGeneral;
  if (!hooks.has_score) return kScaled;
  return problem.mechanism->definition().slots > 2 ? kHeavy : kScored;
}

const Programs* programs_of(const Problem& problem) {
  return is_compiled_at_run_time(problem) ? &run_time_programs(problem) : programs_of(*problem.mechanism);
}

}  // namespace cuda
}  // namespace rapt::inline v1
