#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rapt/api.h"

namespace rapt::inline v1 {

// How the numbers of an array are stored. bf16 and f16 are storage only: arithmetic on them is done in f32.
enum class Dtype : std::uint8_t { f32, f64, bf16, f16 };

struct BFloat16 {
  std::uint16_t bits = 0;
};

struct Float16 {
  std::uint16_t bits = 0;
};

constexpr std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return 4;
    case Dtype::f64: return 8;
    case Dtype::bf16:
    case Dtype::f16: return 2;
  }
  return 0;
}

RAPT_API const char* name_of(Dtype dtype);

template <class T>
inline constexpr bool is_storable =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

template <class T>
  requires is_storable<T>
constexpr Dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) return Dtype::f32;
  if constexpr (std::is_same_v<T, double>) return Dtype::f64;
  if constexpr (std::is_same_v<T, BFloat16>) return Dtype::bf16;
  return Dtype::f16;
}

// Conversions round to nearest, ties to even; NaN stays NaN and infinities stay infinite.
RAPT_API float to_float(BFloat16 value);
RAPT_API float to_float(Float16 value);
RAPT_API BFloat16 to_bfloat16(float value);
RAPT_API Float16 to_float16(float value);

}  // namespace rapt::inline v1
