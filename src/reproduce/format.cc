#include "reproduce/format.h"

#include <cmath>
#include <cstdio>

namespace rapt::reproduce {
namespace {

template <class... Values>
std::string printed(const char* format, Values... values) {
  char text[64];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

std::string percent(double fraction, int decimals) { return printed("%.*f %%", decimals, 100 * fraction); }

std::string significant(double x, int digits) { return printed("%.*g", digits, x); }

std::string fixed(double x, int decimals) { return printed("%.*f", decimals, x); }

std::string grouped(std::int64_t n) {
  std::string text = std::to_string(n);
  const std::size_t first = n < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string duration(double seconds) {
  if (seconds < 10) return printed("%.2g s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return printed("%lld s", whole);
  return printed("%lld min %02lld s", whole / 60, whole % 60);
}

std::string of(std::int64_t part, std::int64_t whole) { return grouped(part) + " of " + grouped(whole); }

}  // namespace rapt::reproduce
