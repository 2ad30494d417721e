#pragma once

#include "backends/cuda/factorized/programs.cuh"
#include "backends/cuda/general/launch.cuh"
#include "backends/cuda/hopper/launch_backward.cuh"
#include "backends/cuda/pairs/launch.cuh"

namespace rapt::inline v1::cuda {

template <class M>
constexpr Programs make_programs() {
  Programs programs{&launch_forward<M>,          &launch_weights<M>,       &launch_statistics<M>,
                    &launch_backward_queries<M>, &launch_backward_keys<M>, &launch_backward_bias<M>,
                    &launch_backward_table<M>};
  if constexpr (AtRunTime<M>) programs.backward_free_table = &launch_backward_free_table<M>;
  if constexpr (hopper::servable<M>()) programs.fast = &hopper::kPrograms<M>;
  if constexpr (detail::HasForm<M>) programs.factorized = &factorized::kPrograms<M>;
  if constexpr (detail::HasPair<M>) programs.pairs = &pairs::kPrograms<M>;
  return programs;
}

// Nothing but a factor, which is in the call: all such mechanisms share kernels.
struct Plain {};
template <class M>
constexpr bool is_plain() {
  return !detail::HasParameters<M> && !detail::HasSettings<M> && !detail::HasScore<M> && !detail::HasForm<M> &&
         !detail::HasPair<M> && !detail::HasVisible<M> && !detail::HasVisibleTile<M> && !hopper::has_unit_rows<M>();
}
const Programs& plain_programs();

template <class M>
const Programs& programs_with_kernels() {
  static constexpr Programs programs = make_programs<M>();
  return programs;
}

template <class M>
const Programs& shared_programs() {
  if constexpr (is_plain<M>()) return plain_programs();
  else return programs_with_kernels<M>();
}

}  // namespace rapt::inline v1::cuda
