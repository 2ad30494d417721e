#include "pictures/axis.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "pictures/text.h"

namespace rapt::pictures {
namespace {

constexpr int kMostPowerDecimals = 6;  // of a number with a power of ten

std::string superscript(int exponent) {
  constexpr const char* kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string result = exponent < 0 ? "⁻" : "";
  for (const char digit : std::to_string(std::abs(exponent))) result += kDigits[digit - '0'];
  return result;
}

std::string signed_number(double value, int decimals) {
  const std::string text = number(std::abs(value), decimals);
  return value < 0 && text != "0" ? "−" + text : text;
}

// Written without a power of ten.
bool is_plain(double size) { return size >= 1e-4 && size < 1e6; }

int exponent_of(double size) { return static_cast<int>(std::floor(std::log10(size) + 1e-9)); }

// 10⁶, −2.5·10⁻⁵: so many decimals before that power of ten.
std::string power_number(double value, int exponent, int decimals) {
  if (value == 0) return "0";
  const std::string mantissa = signed_number(value / std::pow(10, exponent), decimals);
  return (mantissa == "1" ? "" : mantissa == "−1" ? "−" : mantissa + "·") + "10" + superscript(exponent);
}

// 1, 2 or 5 times a power of ten, at least `size`.
double round_step(double size) {
  const double power = std::pow(10, std::floor(std::log10(size)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (size <= factor * power * (1 + 1e-9)) return factor * power;
  return 10 * power;
}

bool labels_touch(const std::vector<Tick>& ticks, Scale scale, double length, double font_size, bool across) {
  scale.from = 0;
  scale.to = length;
  double end = -std::numeric_limits<double>::infinity();
  for (const Tick& tick : ticks) {
    if (tick.text.empty()) continue;
    const double half = (across ? text_width(tick.text, font_size) : font_size) / 2;
    const double at = scale.at(tick.value);
    if (at - half < end + (across ? 0.8 : 0.5) * font_size) return true;
    end = at + half;
  }
  return false;
}

}  // namespace

double Scale::at(double value) const {
  const double place = log ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low))
                           // Divided first: the difference of two huge numbers may overflow.
                           : (value / 2 - low / 2) / (high / 2 - low / 2);
  return from + place * (to - from);
}

std::string axis_number(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (!is_plain(size)) return power_number(value, exponent_of(size), 2);
  const int decimals = std::clamp(3 - static_cast<int>(std::floor(std::log10(size))), 0, 8);
  return signed_number(value, decimals);
}

std::vector<Tick> linear_ticks(double low, double high, int most) {
  // Halves first: the whole difference may overflow.
  const double half = high / 2 - low / 2;
  if (!(half > 0) || !std::isfinite(half)) return {};
  const double step = round_step(half / std::max(most - 1, 1) * 2);
  // Steps lost in rounding.
  if (!std::isfinite(step) || low + step == low || high - step == high) return {{low, axis_number(low)}};
  const double largest = std::max(std::abs(low), std::abs(high));
  const int decimals = std::max(0, -exponent_of(step));
  const bool plain = largest < 1e6 && decimals <= 4;
  // One power of ten for all: 0.5·10⁻⁴, 10⁻⁴, 1.5·10⁻⁴.
  const int exponent = exponent_of(largest);
  std::vector<Tick> ticks;
  for (double n = std::ceil(low / step - 1e-9); n * step <= high + 1e-9 * step && ticks.size() < 100; ++n) {
    const double value = n * step;
    ticks.push_back({value, plain ? signed_number(value, decimals)
                                  : power_number(value, exponent,
                                                 std::clamp(exponent - exponent_of(step), 0, kMostPowerDecimals))});
  }
  // Equal labels say nothing.
  for (std::size_t n = 1; n < ticks.size(); ++n)
    if (ticks[n].text == ticks[n - 1].text) return {ticks.front()};
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high, int most) {
  const int first = static_cast<int>(std::ceil(std::log10(low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  const int decades = last - first + 1;
  std::vector<Tick> ticks;
  if (decades < 4) {
    for (int n = first - 1; n <= last + 1; ++n)
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * std::pow(10, n);
        if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) ticks.push_back({value, axis_number(value)});
      }
    if (!std::all_of(ticks.begin(), ticks.end(), [](const Tick& tick) { return is_plain(tick.value); }))
      for (Tick& tick : ticks) tick.text = power_number(tick.value, exponent_of(tick.value), 0);
    if (ticks.size() >= 2 && ticks.size() <= static_cast<std::size_t>(most) + 2) return ticks;
    if (decades < 2) return linear_ticks(low, high, most);
    ticks.clear();
  }
  const int step = std::max(1, (decades + most - 1) / std::max(most, 1));
  const bool all_plain = first >= -3 && last <= 5;
  for (int n = first; n <= last; n += step) {
    const double value = std::pow(10, n);
    ticks.push_back({value, all_plain ? axis_number(value) : "10" + superscript(n)});
  }
  return ticks;
}

std::vector<Tick> fitting_ticks(const Scale& scale, double length, double font_size, bool across) {
  for (int most = 8; most > 1; --most) {
    std::vector<Tick> ticks =
        scale.log ? log_ticks(scale.low, scale.high, most) : linear_ticks(scale.low, scale.high, most);
    if (!labels_touch(ticks, scale, length, font_size, across)) return ticks;
  }
  return {{scale.low, axis_number(scale.low)}};
}

Scale scale_of(std::span<const double> values, bool log) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!std::isfinite(value) || (log && value <= 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Scale scale;
  scale.log = log;
  if (low > high) return log ? Scale{1, 10, true} : scale;
  if (log) {
    // Subnormal numbers have few digits, and their quotients mean nothing.
    low = std::max(low, std::numeric_limits<double>::min());
    high = std::max(high, low);
    const double ratio = low == high ? 3 : std::pow(high / low, 0.05);
    scale.low = std::max(low / ratio, std::numeric_limits<double>::min());
    scale.high = std::min(high * ratio, std::numeric_limits<double>::max());
    return scale;
  }
  double room = low == high ? std::max(std::abs(low), 1e-300) * 0.5 : (high / 2 - low / 2) * 0.1;
  if (low == 0 && high == 0) room = 1;
  scale.low = low - room;
  scale.high = high + room;
  // An axis that nearly reaches 0 is extended to it.
  if (low >= 0 && low < 0.3 * high) scale.low = 0;
  if (high <= 0 && high > 0.3 * low) scale.high = 0;
  if (!std::isfinite(scale.low)) scale.low = low;
  if (!std::isfinite(scale.high)) scale.high = high;
  return scale;
}

}  // namespace rapt::pictures
