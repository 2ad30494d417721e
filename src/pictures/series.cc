#include "pictures/series.h"

#include <array>
#include <cmath>
#include <numbers>

namespace rapt::pictures {
namespace {

// After Okabe and Ito, the most distinct first; without yellow, too faint on white, and black, which depends on the
// theme.
constexpr std::array<Rgb, 6> kColors{
    {{0, 114, 178}, {213, 94, 0}, {0, 158, 115}, {204, 121, 167}, {230, 159, 0}, {86, 180, 233}}};
constexpr std::size_t kMarkers = 6;

std::vector<Point> polygon(Point at, double radius, int corners, double degrees) {
  std::vector<Point> points;
  for (int n = 0; n < corners; ++n) {
    const double angle = (degrees + 360.0 * n / corners) * std::numbers::pi / 180;
    points.push_back({at.x + radius * std::cos(angle), at.y + radius * std::sin(angle)});
  }
  return points;
}

std::vector<Point> cross(Point at, double r) {
  const double in = r * 0.36;
  std::vector<Point> points;
  for (const auto& [x, y] : {Point{-in, -r},
                             {in, -r},
                             {in, -in},
                             {r, -in},
                             {r, in},
                             {in, in},
                             {in, r},
                             {-in, r},
                             {-in, in},
                             {-r, in},
                             {-r, -in},
                             {-in, -in}})
    points.push_back({at.x + x, at.y + y});
  return points;
}

}  // namespace

Look look_of(std::size_t n) {
  static constexpr std::array<Dashes, 4> dashes{Dashes{}, Dashes{7, 3}, Dashes{2, 2.5}, Dashes{8, 3, 2, 3}};
  const std::size_t color = n % (kColors.size() + 1);
  Look look;
  if (color < kColors.size()) look.color = kColors[color];
  look.dashes = dashes[n % dashes.size()];
  look.marker = n % kMarkers;
  return look;
}

Item marker(const std::string& kind, Point at, double radius, const Look& look, std::string tip) {
  const Style style{.fill = look.color, .stroke = Stroke{.color = Role::page, .width = 0.75}};
  const auto shape = [&](std::vector<Point> points) {
    return Item{Polyline{kind, std::move(points), style, true, std::move(tip)}};
  };
  switch (look.marker) {
    case 0: return {Ellipse{kind, at, radius, radius, 0, style, std::move(tip)}};
    case 1: return shape(polygon(at, radius * 1.2, 4, 45));
    case 2: return shape(polygon(at, radius * 1.3, 3, -90));
    case 3: return shape(polygon(at, radius * 1.3, 4, 0));
    case 4: return shape(polygon(at, radius * 1.3, 3, 90));
    default: return shape(cross(at, radius * 1.15));
  }
}

}  // namespace rapt::pictures
