#include "support/storage.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace support {
namespace {

struct Format {
  int digits;        // of the significand, the hidden one included
  int min_exponent;  // of the smallest normal number, 2^min_exponent
  int max_exponent;  // of the largest finite one
};

Format format_of(rapt::Dtype dtype) {
  switch (dtype) {
    case rapt::Dtype::f64: return {53, -1022, 1023};
    case rapt::Dtype::f32: return {24, -126, 127};
    case rapt::Dtype::bf16: return {8, -126, 127};
    case rapt::Dtype::f16: return {11, -14, 15};
  }
  return {};
}

// ldexp(1, exponent) and ilogb(value), from the bits: the library's functions took a seventh of the tests' time.
double power_of_two(int exponent) {
  if (exponent < -1022 || exponent > 1023) return std::ldexp(1.0, exponent);
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

int exponent_of(double value) {
  const int biased = static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52 & 0x7ff);
  return biased == 0 || biased == 0x7ff ? std::ilogb(value) : biased - 1023;
}

double step(const Format& format, double value) {
  int exponent = format.min_exponent;
  if (value != 0) exponent = std::max(exponent_of(value), format.min_exponent);
  return power_of_two(exponent - (format.digits - 1));
}

// The 16 bits of a number that the format holds exactly: sign, exponent, fraction.
std::uint16_t encode(const Format& format, double value) {
  const int fraction_bits = format.digits - 1;
  const unsigned sign = std::signbit(value) ? 0x8000u : 0u;
  const unsigned top = ((1u << (15 - fraction_bits)) - 1) << fraction_bits;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | top | (1u << (fraction_bits - 1)));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | top);
  const double size = std::abs(value);
  if (size < power_of_two(format.min_exponent))
    return static_cast<std::uint16_t>(sign | unsigned(size / step(format, 0)));
  const int exponent = exponent_of(size);
  const unsigned fraction = unsigned(size * power_of_two(fraction_bits - exponent)) & ((1u << fraction_bits) - 1);
  return static_cast<std::uint16_t>(sign | (unsigned(exponent - format.min_exponent + 1) << fraction_bits) | fraction);
}

double decode(const Format& format, std::uint16_t bits) {
  const int fraction_bits = format.digits - 1;
  const int top = (1 << (15 - fraction_bits)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) ? -1 : 1;
  if (exponent == top) return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  if (exponent == 0) return sign * fraction * power_of_two(format.min_exponent - fraction_bits);
  return sign * (fraction + (1 << fraction_bits)) * power_of_two(exponent - 1 + format.min_exponent - fraction_bits);
}

}  // namespace

double round_to(rapt::Dtype dtype, double value) {
  if (dtype == rapt::Dtype::f64 || !std::isfinite(value)) return value;
  if (dtype == rapt::Dtype::f32) return static_cast<float>(value);
  const Format format = format_of(dtype);
  const double unit = step(format, value);
  const double rounded = std::nearbyint(value / unit) * unit;
  const double largest = (2.0 - power_of_two(1 - format.digits)) * power_of_two(format.max_exponent);
  return std::abs(rounded) > largest ? std::copysign(HUGE_VAL, value) : rounded;
}

double half_step(rapt::Dtype dtype, double value) { return 0.5 * step(format_of(dtype), value); }

double load(rapt::Dtype dtype, const std::byte* at) {
  if (dtype == rapt::Dtype::f64) {
    double x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
  if (dtype == rapt::Dtype::f32) {
    float x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
  std::uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return decode(format_of(dtype), bits);
}

void store(rapt::Dtype dtype, double value, std::byte* at) {
  const double rounded = round_to(dtype, value);
  if (dtype == rapt::Dtype::f64) {
    std::memcpy(at, &rounded, sizeof rounded);
  } else if (dtype == rapt::Dtype::f32) {
    const float x = static_cast<float>(rounded);
    std::memcpy(at, &x, sizeof x);
  } else {
    const std::uint16_t bits = encode(format_of(dtype), rounded);
    std::memcpy(at, &bits, sizeof bits);
  }
}

const char* label(rapt::Dtype dtype) {
  switch (dtype) {
    case rapt::Dtype::f64: return "f64";
    case rapt::Dtype::f32: return "f32";
    case rapt::Dtype::bf16: return "bf16";
    case rapt::Dtype::f16: return "f16";
  }
  return "?";
}

}  // namespace support
