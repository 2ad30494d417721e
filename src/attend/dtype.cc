#include "rapt/dtype.h"

#include <bit>

namespace rapt::inline v1 {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;            // f32
constexpr std::uint32_t kHalfOverflow = 0x477ff000;        // 65520: halfway between the largest f16 and the next
constexpr std::uint32_t kHalfSmallestNormal = 0x38800000;  // 2^-14
constexpr std::uint32_t kExponentShift = 112u << 23;       // the difference of the exponents' biases

}  // namespace

const char* name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "f32";
    case Dtype::f64: return "f64";
    case Dtype::bf16: return "bf16";
    case Dtype::f16: return "f16";
  }
  return "unknown";
}

float to_float(BFloat16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

float to_float(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t rest = value.bits & 0x7fffu;
  std::uint32_t bits;
  if (rest >= 0x7c00) bits = kInfinity | (rest << 13);
  else if (rest < 0x0400) bits = std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24f);
  else bits = (rest << 13) + kExponentShift;
  return std::bit_cast<float>(sign | bits);
}

BFloat16 to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  // A NaN is made quiet: its payload may lie only in the bits that are cut off.
  if ((bits & 0x7fffffffu) > kInfinity) return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

Float16 to_float16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t rest = bits & 0x7fffffffu;
  std::uint32_t half;
  if (rest > kInfinity) half = 0x7e00u | ((rest >> 13) & 0x03ffu);
  else if (rest >= kHalfOverflow) half = 0x7c00u;
  else if (rest < kHalfSmallestNormal)
    // The last bit of a float near 0.5 is 2^-24, the smallest f16: the addition rounds, ties to even.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
  else half = (rest - kExponentShift + 0x0fffu + ((rest >> 13) & 1u)) >> 13;
  return {static_cast<std::uint16_t>(sign | half)};
}

}  // namespace rapt::inline v1
