#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "rapt/api.h"
#include "rapt/mechanism.h"
#include "rapt/normalizers.h"

namespace rapt::inline v1 {

// A normaliser, which turns a row of scores into weights, as `rapt list` and callers see it.
struct NormalizerInfo {
  std::string_view name;
  std::string_view formula;
  std::span<const ParameterSpec> parameters;
  // The default of parameter n; null: it has none.
  double (*absent)(int n, std::int64_t keys) = nullptr;
};

// Every normaliser of src/normalizers/registry.txt, in that order.
RAPT_API std::span<const NormalizerInfo> all_normalizers();

RAPT_API const NormalizerInfo& info_of(Normalizer normalizer);

// Throws rapt::Error, listing the known names, if there is none of that name.
RAPT_API Normalizer normalizer(std::string_view name);

}  // namespace rapt::inline v1
