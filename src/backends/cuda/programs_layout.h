#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/programs.h"
#include "rapt/api.h"

namespace rapt::inline v1::cuda {

// Detects kernels compiled against other headers than the library's, by the sizes of their arguments.
constexpr std::uint64_t programs_layout() {
  std::uint64_t layout = RAPT_VERSION_MAJOR * 1'000'000 + RAPT_VERSION_MINOR * 1'000 + RAPT_VERSION_PATCH;
  for (const std::size_t size :
       {sizeof(Call), sizeof(ForwardOutputs), sizeof(RequestedWeights), sizeof(RequestedStatistics),
        sizeof(BackwardArguments), sizeof(BiasGradient), sizeof(TableGradient), sizeof(FreeTableGradient),
        sizeof(FastGradients), sizeof(FastPrograms), sizeof(HeadForm), sizeof(FactorizedPrograms), sizeof(PairPrograms),
        sizeof(Programs)})
    layout = layout * 1'000'003 + size;
  return layout;
}

}  // namespace rapt::inline v1::cuda
