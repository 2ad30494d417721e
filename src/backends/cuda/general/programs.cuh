#pragma once

#include "backends/cuda/general/backward_keys.cuh"
#include "backends/cuda/general/backward_queries.cuh"
#include "backends/cuda/general/backward_tables.cuh"
#include "backends/cuda/general/forward.cuh"
#include "backends/cuda/general/requested.cuh"

namespace rapt::inline v1::cuda {

// The kernels that serve every call, compiled for one mechanism.
template <class M>
const Programs& general_programs() {
  static constexpr Programs programs{&launch_forward<M>,          &launch_weights<M>,       &launch_statistics<M>,
                                     &launch_backward_queries<M>, &launch_backward_keys<M>, &launch_backward_bias<M>,
                                     &launch_backward_table<M>};
  return programs;
}

}  // namespace rapt::inline v1::cuda
