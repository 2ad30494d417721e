#include "backends/cpu/targets.h"
#include "rapt/error.h"
#include "rapt/threads.h"
#include "tensor/simd/table.h"

namespace rapt::inline v1 {

#define RAPT_DECLARE(name)                                     \
  namespace name {                                             \
  template <class T>                                           \
  const TensorKernels<T>& tensor_table();                      \
  extern template const TensorKernels<float>& tensor_table();  \
  extern template const TensorKernels<double>& tensor_table(); \
  }
RAPT_FOR_EACH_TARGET(RAPT_DECLARE)
#undef RAPT_DECLARE

template <class T>
const TensorKernels<T>& tensor_kernels() {
  switch (active_isa()) {
#define RAPT_CASE(name) \
  case Isa::name: return name::tensor_table<T>();
    RAPT_FOR_EACH_TARGET(RAPT_CASE)
#undef RAPT_CASE
    default: break;
  }
  throw Error(std::string("rapt: expected an instruction set of this build, got ") + name_of(active_isa()));
}

template const TensorKernels<float>& tensor_kernels();
template const TensorKernels<double>& tensor_kernels();

}  // namespace rapt::inline v1
