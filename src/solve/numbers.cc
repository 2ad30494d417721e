#include "solve/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace rapt::solve {
namespace {

std::string write(double x, std::chars_format format, int decimals) {
  char text[400];
  const auto end = std::to_chars(text, text + sizeof text, x, format, decimals).ptr;
  return {text, end};
}

bool is_zero(const std::string& digits) { return digits.find_first_of("123456789") == std::string::npos; }

// The digits after the point without trailing zeros.
int needed_decimals(double x, int decimals) {
  const std::string text = write(x, std::chars_format::fixed, decimals);
  const std::size_t point = text.find('.');
  if (point == std::string::npos) return 0;
  return static_cast<int>(text.find_last_not_of('0') - point);
}

}  // namespace

std::string NumberFormat::text(double x) const {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  if (!scientific && x != 0 && std::abs(x) < small) return write(x, std::chars_format::scientific, small_decimals);
  std::string result = write(x, scientific ? std::chars_format::scientific : std::chars_format::fixed, decimals);
  // Zero has no sign.
  if (result.starts_with('-') && is_zero(result.substr(0, result.find('e')))) result.erase(0, 1);
  return result;
}

std::string NumberFormat::latex(double x) const {
  if (std::isinf(x)) return x < 0 ? "-\\infty" : "\\infty";
  std::string plain = text(x);
  const std::size_t e = plain.find('e');
  if (e == std::string::npos) return plain;
  const std::string mantissa = plain.substr(0, e);
  if (is_zero(mantissa)) return "0";
  return mantissa + " \\times 10^{" + std::to_string(std::stoi(plain.substr(e + 1))) + "}";
}

NumberFormat choose_format(std::span<const double> numbers, int decimals, bool small_counts) {
  // Below this, fixed point would show less than half of the requested digits.
  const double lost = std::pow(10.0, -std::ceil(decimals / 2.0));
  double largest = 0;
  std::size_t count = 0, small = 0;
  for (const double x : numbers) {
    if (x == 0 || !std::isfinite(x)) continue;
    largest = std::max(largest, std::abs(x));
    ++count;
    small += std::abs(x) < lost ? 1 : 0;
  }
  if (count > 0 && (largest >= 1e12 || largest < lost || (small_counts && 2 * small > count)))
    return {true, decimals, 0, decimals};
  NumberFormat format{false, 0, small_counts ? lost : 0, decimals};
  for (const double x : numbers)
    if (std::isfinite(x) && (x == 0 || std::abs(x) >= format.small))
      format.decimals = std::max(format.decimals, needed_decimals(x, decimals));
  return format;
}

std::string plain_number(double x, int decimals, bool small_counts) {
  return choose_format({&x, 1}, decimals, small_counts).text(x);
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string pad_left(const std::string& text, std::size_t width) {
  const std::size_t own = width_of(text);
  return own < width ? std::string(width - own, ' ') + text : text;
}

std::string pad_right(const std::string& text, std::size_t width) {
  const std::size_t own = width_of(text);
  return own < width ? text + std::string(width - own, ' ') : text;
}

}  // namespace rapt::solve
