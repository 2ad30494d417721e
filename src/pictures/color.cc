#include "pictures/color.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace rapt::pictures {
namespace {

// Oklab, in which Euclidean distances approximate perceived differences.
struct Oklab {
  double lightness, green_red, blue_yellow;
};

// Steps of equal length, nearly all of it lightness; green–red stays near 0.
constexpr std::array<Oklab, 6> kAnchors{{{0.235, -0.010, -0.085},
                                         {0.375, -0.012, -0.080},
                                         {0.510, -0.014, -0.030},
                                         {0.640, -0.012, 0.025},
                                         {0.780, -0.010, 0.080},
                                         {0.925, -0.018, 0.135}}};
// Diverging: lightness shows how far from 0, hue on which side.
constexpr std::array<Oklab, 7> kSigned{{{0.320, -0.020, -0.130},
                                        {0.530, -0.030, -0.125},
                                        {0.745, -0.022, -0.075},
                                        {0.960, 0.000, 0.000},
                                        {0.745, 0.045, 0.090},
                                        {0.530, 0.085, 0.100},
                                        {0.320, 0.065, 0.062}}};
constexpr Rgb kMissing{200, 200, 200};

std::uint8_t to_byte(double linear) {
  const double x = std::clamp(linear, 0.0, 1.0);
  const double encoded = x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(encoded * 255));
}

Rgb to_rgb(const Oklab& c) {
  const double l = std::pow(c.lightness + 0.3963377774 * c.green_red + 0.2158037573 * c.blue_yellow, 3);
  const double m = std::pow(c.lightness - 0.1055613458 * c.green_red - 0.0638541728 * c.blue_yellow, 3);
  const double s = std::pow(c.lightness - 0.0894841775 * c.green_red - 1.2914855480 * c.blue_yellow, 3);
  return {to_byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          to_byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          to_byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

template <std::size_t count>
Rgb exact_color_at(const std::array<Oklab, count>& anchors, double t) {
  const double place = t * (count - 1);
  const auto n = std::min(static_cast<std::size_t>(place), count - 2);
  const double f = place - static_cast<double>(n);
  const Oklab& a = anchors[n];
  const Oklab& b = anchors[n + 1];
  return to_rgb({std::lerp(a.lightness, b.lightness, f), std::lerp(a.green_red, b.green_red, f),
                 std::lerp(a.blue_yellow, b.blue_yellow, f)});
}

// A map of a million cells looks up a million colours; these steps are finer than 8 bits resolve.
constexpr std::size_t kSteps = 1024;
using Table = std::array<Rgb, kSteps + 1>;

template <std::size_t count>
Table make_table(const std::array<Oklab, count>& anchors) {
  Table table;
  for (std::size_t n = 0; n <= kSteps; ++n) table[n] = exact_color_at(anchors, static_cast<double>(n) / kSteps);
  return table;
}

Rgb look_up(const Table& table, double t) {
  if (std::isnan(t)) return kMissing;
  return table[static_cast<std::size_t>(std::lround(std::clamp(t, 0.0, 1.0) * kSteps))];
}

}  // namespace

Rgb color_at(double t) {
  static const Table table = make_table(kAnchors);
  return look_up(table, t);
}

Rgb color_of(double value, double low, double high) {
  if (!(low < 0 && high > 0)) return color_at((value - low) / (high - low));
  static const Table table = make_table(kSigned);
  if (std::isnan(value)) return kMissing;
  return look_up(table, 0.5 + 0.5 * std::clamp(value, low, high) / std::max(-low, high));
}

std::string hex(Rgb color) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string result = "#";
  for (const std::uint8_t part : {color.red, color.green, color.blue}) {
    result += kDigits[part >> 4];
    result += kDigits[part & 15];
  }
  return result;
}

double luminance(Rgb color) {
  const auto linear = [](std::uint8_t byte) {
    const double c = byte / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.red) + 0.7152 * linear(color.green) + 0.0722 * linear(color.blue);
}

// 0.179: where black and white contrast equally.
Rgb ink_on(Rgb color) { return luminance(color) > 0.179 ? Rgb{17, 17, 17} : Rgb{255, 255, 255}; }

}  // namespace rapt::pictures
