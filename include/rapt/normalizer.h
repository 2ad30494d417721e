#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "rapt/api.h"
#include "rapt/mechanism.h"
#include "rapt/normalizers.h"

namespace rapt::inline v1 {

// What `rapt list` and a caller may know of a normaliser: how a row of scores becomes weights.
struct NormalizerInfo {
  std::string_view name;
  std::string_view formula;
  std::span<const ParameterSpec> parameters;
  // What stands for parameter n where the caller gives none; null: nothing does.
  double (*absent)(int n, std::int64_t keys) = nullptr;
};

// Every normaliser of src/normalizers/registry.txt, in that order.
RAPT_API std::span<const NormalizerInfo> all_normalizers();

RAPT_API const NormalizerInfo& info_of(Normalizer normalizer);

// Throws rapt::Error, naming the known ones, when there is none of that name.
RAPT_API Normalizer normalizer(std::string_view name);

}  // namespace rapt::inline v1
