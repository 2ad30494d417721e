#include "tensor/random.h"

#include <cmath>
#include <numbers>

#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

// 2⁶⁴ over the golden ratio: counting in steps of it changes all bits.
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

// The finaliser of SplitMix64 (Stafford's variant 13): every input bit affects every output bit.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The functions below take only operations that IEEE 754 rounds in one way, and every product with a sum is an explicit
// fma: the libraries' log and cos differ between platforms in the last bit.

// ln x for x in (0, 1]: x = 2^exponent m with m near 1, and ln m = 2 artanh s.
double natural_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < std::numbers::sqrt2 / 2) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 1.0 / 21;
  for (int odd = 19; odd >= 1; odd -= 2) sum = std::fma(sum, square, 1.0 / odd);
  return std::fma(static_cast<double>(exponent), std::numbers::ln2, 2 * s * sum);
}

// cos 2πx for x in [0, 1): both series need to hold only within an eighth of a turn of the nearest quarter.
double cos_turns(double x) {
  const int quarter = static_cast<int>(std::fma(4.0, x, 0.5));
  const double angle = 2 * std::numbers::pi * std::fma(quarter, -0.25, x);
  const double square = angle * angle;
  const bool odd = quarter % 2 != 0;
  double sum = 1;
  for (int n = odd ? 17 : 16; n >= 2; n -= 2) sum = std::fma(sum, -square / (n * (n - 1)), 1.0);
  // cos, −sin, −cos, sin, cos at the quarters 0 … 4.
  const double value = odd ? angle * sum : sum;
  return quarter == 1 || quarter == 2 ? -value : value;
}

}  // namespace

void Random::set_key(std::span<const std::uint64_t> ids) {
  // The count goes in as well: (1) and (1, 0) are different streams.
  std::uint64_t state = mix(ids.size() + kStep);
  for (const std::uint64_t id : ids) state = mix(mix(state + kStep) ^ mix(id + kStep));
  start_ = mix(state + kStep);
  twist_ = mix(state + 2 * kStep);
}

std::uint64_t Random::next_u64() {
  // Two rounds, each with its own key: streams with neighbouring starts still share nothing.
  return mix(mix(start_ + position_++ * kStep) + twist_);
}

double Random::normal() {
  const double radius = std::sqrt(-2 * natural_log(1 - uniform()));
  return radius * cos_turns(uniform());
}

std::uint64_t Random::below(std::uint64_t n) {
  if (n == 0) throw Error("random below: expected at least 1, got 0");
  // Rejects the first 2⁶⁴ mod n values, with which some remainders would be likelier.
  const std::uint64_t reject = (0 - n) % n;
  std::uint64_t number = next_u64();
  while (number < reject) number = next_u64();
  return number % n;
}

}  // namespace rapt::inline v1
