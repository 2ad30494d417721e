#include "pictures/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "pictures/fit.h"
#include "pictures/frame.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr std::size_t kMaxMarked = 48;  // points; longer lines carry a few markers only
constexpr std::size_t kFewMarkers = 10;
constexpr std::size_t kDense = 1000;
constexpr double kPlotWidth = 540, kPlotHeight = 320;  // of the plot, unless the figure's width is given
constexpr double kLeastPlot = 120, kLeastShare = 0.45;

// The segments of a line between gaps, in page coordinates.
std::vector<std::vector<Point>> pieces(const Series& series, const Frame& frame, const Curves& curves) {
  std::vector<std::vector<Point>> result(1);
  for (std::size_t n = 0; n < series.x.size(); ++n) {
    const double x = series.x[n], y = series.y[n];
    const bool shown = std::isfinite(x) && std::isfinite(y) && !(curves.log_x && x <= 0) && !(curves.log_y && y <= 0);
    if (shown) result.back().push_back(frame.at(x, y));
    else if (!result.back().empty()) result.emplace_back();
  }
  if (result.back().empty()) result.pop_back();
  return result;
}

// The first, lowest, highest and last point of each half pixel: the others are invisible.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() < 2000) return points;
  std::vector<Point> result;
  for (std::size_t begin = 0; begin < points.size();) {
    const double column = std::floor(points[begin].x * 2);
    std::size_t end = begin, low = begin, high = begin;
    for (; end < points.size() && std::floor(points[end].x * 2) == column; ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    std::size_t last = std::numeric_limits<std::size_t>::max();
    for (const std::size_t n : {begin, std::min(low, high), std::max(low, high), end - 1}) {
      if (n != last) result.push_back(points[n]);
      last = n;
    }
    begin = end;
  }
  return result;
}

void add_series(Frame& frame, const Curves& curves, std::size_t n) {
  const Series& series = curves.series[n];
  const Look look = look_of(n);
  Group group("series", {.tip = visible(series.name)});
  const std::vector<std::vector<Point>> parts = pieces(series, frame, curves);
  std::size_t count = 0;
  for (const auto& part : parts) count += part.size();
  // Dashes are invisible in a dense line.
  const Stroke line = count > kDense ? Stroke{look.color, 1} : Stroke{look.color, 1.75, look.dashes};
  std::vector<Item> markers;
  // A single long line needs no markers.
  const bool plain = curves.series.size() == 1 && count > kMaxMarked;
  // Different series have their markers at different points of the line.
  const std::size_t step = count <= kMaxMarked ? 1 : count / kFewMarkers;
  std::size_t at = count <= kMaxMarked ? 0 : step / 2 + n * step / std::max<std::size_t>(curves.series.size(), 1) / 2;
  for (const auto& part : parts) {
    if (part.size() > 1) group.items.push_back({Polyline{"curve", thinned(part), {.stroke = line}}});
    for (std::size_t k = 0; k < part.size(); ++k, ++at)
      if ((at % step == 0 && !plain) || part.size() == 1) markers.push_back(marker("marker", part[k], 3.2, look));
  }
  std::move(markers.begin(), markers.end(), std::back_inserter(group.items));
  frame.drawing.add(std::move(group));
}

std::vector<double> all(const std::vector<Series>& series, std::vector<double> Series::*which) {
  std::vector<double> result;
  for (const Series& s : series) result.insert(result.end(), (s.*which).begin(), (s.*which).end());
  return result;
}

// How many numbers a log axis cannot show; throws if none is left.
std::size_t check(const Curves& curves) {
  if (curves.series.empty()) throw Error("curves: expected at least one series, got none");
  std::size_t shown = 0, low = 0;
  for (const Series& s : curves.series) {
    if (s.x.size() != s.y.size())
      throw Error("curves: '" + s.name + "': expected one y for each x, got " + std::to_string(s.y.size()) + " for " +
                  std::to_string(s.x.size()));
    for (std::size_t n = 0; n < s.x.size(); ++n) {
      if (!std::isfinite(s.x[n]) || !std::isfinite(s.y[n])) continue;
      const bool hidden = (curves.log_x && s.x[n] <= 0) || (curves.log_y && s.y[n] <= 0);
      ++(hidden ? low : shown);
    }
  }
  if (shown == 0 && low > 0) throw Error("curves: expected a number above 0 for the logarithmic axis, got none");
  if (shown == 0) throw Error("curves: expected at least one finite number, got none");
  return low;
}

Drawing draw_at(const Curves& curves, std::size_t hidden, double width) {
  FrameSpec spec;
  spec.width = width;
  spec.height = kPlotHeight * std::max(width / kPlotWidth, kLeastShare);
  spec.title = curves.title;
  spec.x.title = curves.x_title;
  spec.y.title = curves.y_title.empty() && curves.series.size() == 1 ? curves.series[0].name : curves.y_title;
  spec.x.scale = scale_of(all(curves.series, &Series::x), curves.log_x);
  spec.y.scale = scale_of(all(curves.series, &Series::y), curves.log_y);
  if (curves.series.size() > 1)
    for (std::size_t n = 0; n < curves.series.size(); ++n) spec.legend.push_back({curves.series[n].name, look_of(n)});
  spec.legend_below = legend_goes_below(spec.legend, curves.width);
  if (hidden > 0)
    spec.note = std::to_string(hidden) + (hidden == 1 ? " point is" : " points are") +
                " not above 0 and cannot be shown on a logarithmic axis";
  Frame frame = make_frame(spec);
  for (std::size_t n = 0; n < curves.series.size(); ++n) add_series(frame, curves, n);
  return std::move(frame.drawing);
}

}  // namespace

Drawing draw(const Curves& curves) {
  const std::size_t hidden = check(curves);
  return fitted(curves.width, kPlotWidth, kLeastPlot, [&](double width) { return draw_at(curves, hidden, width); });
}

}  // namespace rapt::pictures
