// Compiled once for each SIMD target, as the library's own hooks are.
#include "backends/cpu/simd/lane.h"
#include "lanes/lanes.h"

namespace rapt::inline v1::RAPT_TARGET {

std::span<const lanes::Function<float>> lane_functions(float);
std::span<const lanes::Function<double>> lane_functions(double);

std::span<const lanes::Function<float>> lane_functions(float) { return lanes::kFunctions<Lane<float>>; }
std::span<const lanes::Function<double>> lane_functions(double) { return lanes::kFunctions<Lane<double>>; }

}  // namespace rapt::inline v1::RAPT_TARGET
