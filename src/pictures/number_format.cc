#include "pictures/number_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace rapt::pictures {
namespace {

constexpr int kMostDecimals = 4;
constexpr double kLargest = 1e6;  // longer integers are hard to read

double largest_of(std::span<const double> values) {
  double largest = 0;
  for (const double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

bool loses_digits(double value, int decimals) {
  const double step = std::pow(10.0, -decimals);
  return std::abs(value - step * std::round(value / step)) > 5e-4 * std::abs(value);
}

}  // namespace

NumberFormat NumberFormat::measured(std::span<const double> values) {
  NumberFormat format;
  for (const double value : values)
    while (std::isfinite(value) && format.decimals_ <= kMostDecimals && loses_digits(value, format.decimals_))
      ++format.decimals_;
  format.powers_ = format.decimals_ > kMostDecimals || largest_of(values) >= 1e9;
  if (format.powers_) format.decimals_ = 3;
  return format;
}

NumberFormat NumberFormat::compact(std::span<const double> values) {
  const double largest = largest_of(values);
  NumberFormat format;
  if (largest < kLargest &&
      std::all_of(values.begin(), values.end(), [](double x) { return !std::isfinite(x) || x == std::round(x); }))
    return format;
  format.powers_ = largest >= kLargest || largest < 1e-3;
  if (format.powers_) format.decimals_ = 1;
  else if (largest < 100)
    format.decimals_ = std::max(largest < 10 ? 2 : 1, 1 - static_cast<int>(std::floor(std::log10(largest))));
  return format;
}

std::string NumberFormat::text(double value) const {
  if (std::isnan(value)) return "nan";
  const std::string sign = value < 0 ? "−" : "";
  const double size = std::abs(value);
  if (std::isinf(size)) return sign + "∞";
  std::array<char, 400> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), size,
                                 powers_ ? std::chars_format::scientific : std::chars_format::fixed, decimals_)
                       .ptr;
  std::string text(digits.data(), end);
  // The sign of −0.00 would mislead.
  if (text.find_first_of("123456789") == std::string::npos) return text;
  if (const std::size_t e = text.find('e'); e != std::string::npos) {
    // 4.8e-05 → 4.8e-5, 1.2e+04 → 1.2e4
    if (text[e + 1] == '+') text.erase(e + 1, 1);
    const std::size_t digit = e + 1 + (text[e + 1] == '-' ? 1 : 0);
    if (digit + 1 < text.size() && text[digit] == '0') text.erase(digit, 1);
  }
  return sign + text;
}

}  // namespace rapt::pictures
