#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "support/call.h"
#include "support/compare.h"

// Shared by the tests of forward and backward: one case on every SIMD target and path, against the oracle.
namespace support {

// Outputs, lse, weights and statistics.
void check_forward(const CaseSpec& spec);
// Every gradient, with and without the saved row sums.
void check_backward(const CaseSpec& spec);
// Both, for a hand-made problem.
void check_case(const Case& c);

constexpr rapt::Path kPaths[] = {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference};
const char* label(rapt::Path path);

using MechanismAndType = std::tuple<std::string, rapt::Dtype>;
std::string mechanism_and_type(const testing::TestParamInfo<MechanismAndType>& parameters);
using MechanismAndNormalizer = std::tuple<std::string, NormalizerKind>;
std::string mechanism_and_normalizer(const testing::TestParamInfo<MechanismAndNormalizer>& parameters);
std::string normalizer_name(const testing::TestParamInfo<NormalizerKind>& normalizer);
std::string mechanism_name(const testing::TestParamInfo<std::string>& mechanism);

const std::vector<rapt::Dtype>& all_dtypes();

}  // namespace support
