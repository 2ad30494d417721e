#include "backends/cuda/programs.cuh"

namespace rapt::inline v1::cuda {

const Programs& plain_programs() { return programs_with_kernels<Plain>(); }

}  // namespace rapt::inline v1::cuda
