#pragma once

#include "backends/cpu/simd/kernels.h"

namespace rapt::inline v1::RAPT_TARGET {

// The matrix of a head of a ShortArray.
RAPT_FN MatrixRef matrix_of(const ShortArray& array, std::int64_t b, std::int64_t h) {
  MatrixRef matrix = array.first;
  const std::int64_t own = array.group == 1 ? h : h / array.group;
  matrix.data = static_cast<char*>(matrix.data) + b * array.batch_bytes + own * array.head_bytes;
  return matrix;
}

}  // namespace rapt::inline v1::RAPT_TARGET
