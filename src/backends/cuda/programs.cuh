#pragma once

#include "backends/cuda/general/launch.cuh"
#include "backends/cuda/hopper/launch_backward.cuh"

namespace rapt::inline v1::cuda {

template <class M>
constexpr Programs make_programs() {
  Programs programs{&launch_forward<M>,          &launch_weights<M>,       &launch_statistics<M>,
                    &launch_backward_queries<M>, &launch_backward_keys<M>, &launch_backward_bias<M>,
                    &launch_backward_table<M>};
  if constexpr (hopper::servable<M>()) programs.fast = &hopper::kPrograms<M>;
  return programs;
}

}  // namespace rapt::inline v1::cuda
