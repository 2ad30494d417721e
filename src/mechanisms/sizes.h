#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "rapt/hooks.h"

namespace rapt::inline v1 {

// What sizes of parameters depend on, where it is known.
struct ParameterSizes {
  static constexpr std::int64_t kUnknown = -1;

  std::int64_t query_dim = kUnknown, key_dim = kUnknown, value_dim = kUnknown;
  std::int64_t inner = kUnknown;      // A: of the first parameter that names it
  std::int64_t positions = kUnknown;  // rows of a table by distance
  std::int64_t grid_rows = 0, grid_cols = 0;
  std::int64_t any = kUnknown, odd = kUnknown;  // where the specification leaves the length open
};

// A size of a parameter (see Size) as a number; none if any length will do or nothing is known.
inline std::optional<std::int64_t> resolve(int size, const ParameterSizes& sizes) {
  const auto offsets = [](std::int64_t places) -> std::optional<std::int64_t> {
    if (places < 1 || places > std::numeric_limits<std::int64_t>::max() / 2) return std::nullopt;
    return 2 * places - 1;
  };
  const auto known = [](std::int64_t number) -> std::optional<std::int64_t> {
    if (number == ParameterSizes::kUnknown) return std::nullopt;
    return number;
  };
  switch (size) {
    case kAny: return known(sizes.any);
    case kOdd: return known(sizes.odd);
    case kQueryDim: return known(sizes.query_dim);
    case kKeyDim: return known(sizes.key_dim);
    case kValueDim: return known(sizes.value_dim);
    case kInner: return known(sizes.inner);
    case kPositions: return known(sizes.positions);
    case kGridRows: return offsets(sizes.grid_rows);
    case kGridCols: return offsets(sizes.grid_cols);
    default: return size;
  }
}

}  // namespace rapt::inline v1
