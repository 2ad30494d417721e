#pragma once

#include <cuda_runtime.h>

#include <string>
#include <type_traits>

#include "backends/cuda/added.h"
#include "backends/cuda/programs.cuh"
#include "backends/cuda/programs_layout.h"
#include "rapt/custom.h"
#include "rapt/error.h"

// Kernels for a custom mechanism, for a .cu file that nvcc compiles (-std=c++20 --expt-relaxed-constexpr,
// architecture 90a):
//   #include <rapt/cuda/mechanism.cuh>
//   #include "kerple.h"
//   void use_gpu() { rapt::cuda::add_kernels<Kerple>(); }
// From then on calls with rapt::custom(Kerple{}) as their score also run on a GPU, from any file of the program.
namespace rapt::inline v1::cuda::hopper {

// What starts kernels on the host's side comes with them: libraries keep theirs to themselves. Weak, since a static
// library has the same functions.
__attribute__((weak)) bool make_map(CUtensorMap* map, const Array& array, int heads, int rows, int box_rows);
__attribute__((weak)) void merge_parts(const Call& call, const ForwardOutputs& outputs, const DecodeParts& parts,
                                       cudaStream_t stream);

}  // namespace rapt::inline v1::cuda::hopper

#include "backends/cuda/hopper/decode_merge.cu"
#include "backends/cuda/hopper/tensor_map.cu"

namespace rapt::inline v1::cuda {

namespace own {

// A program may have its own CUDA runtime beside the library's, which then does not see that a launch failed.
template <auto kLaunch>
struct Checked;
template <class R, class... A, R (*kLaunch)(A...)>
struct Checked<kLaunch> {
  static R run(A... arguments) {
    struct AtEnd {
      ~AtEnd() noexcept(false) {
        if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
          throw Error(std::string("cuda: a kernel of the program: ") + cudaGetErrorString(status));
      }
    };
    const AtEnd at_end;
    return kLaunch(arguments...);
  }
};

template <class M>
const Programs& checked_programs() {
  static const Programs programs = [] {
    Programs p = make_programs<M>();
    p.forward = &Checked<&launch_forward<M>>::run;
    p.weights = &Checked<&launch_weights<M>>::run;
    p.statistics = &Checked<&launch_statistics<M>>::run;
    p.backward_queries = &Checked<&launch_backward_queries<M>>::run;
    p.backward_keys = &Checked<&launch_backward_keys<M>>::run;
    p.backward_bias = &Checked<&launch_backward_bias<M>>::run;
    p.backward_table = &Checked<&launch_backward_table<M>>::run;
    if constexpr (hopper::servable<M>()) {
      static const FastPrograms fast = [] {
        FastPrograms f = hopper::kPrograms<M>;
        f.forward = &Checked<&hopper::launch_forward<M>>::run;
        f.gradients = &Checked<&hopper::launch_gradients<M>>::run;
        return f;
      }();
      p.fast = &fast;
    }
    if constexpr (rapt::detail::HasForm<M>) {
      static constexpr FactorizedPrograms grid{&Checked<&factorized::launch_form<M>>::run,
                                               &Checked<&factorized::launch_forward_again<M>>::run};
      p.factorized = &grid;
    }
    return p;
  }();
  return programs;
}

}  // namespace own

// Instantiates the kernels of M and registers them. Throws rapt::Error if the library is built without CUDA, or if this
// file was compiled against headers of another version.
template <class M>
void add_kernels() {
  static_assert(std::is_class_v<M> && !rapt::detail::has_call_operator<M>(),
                "rapt: add_kernels: expected a struct of hooks; a lambda has no kernels");
  static_assert(std::is_empty_v<M>,
                "rapt: add_kernels: expected a struct of hooks without members; kernels see parameters and settings");
  add_programs(rapt::detail::custom_info<M>(), own::checked_programs<M>(), programs_layout());
}

}  // namespace rapt::inline v1::cuda
