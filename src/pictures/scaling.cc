#include "pictures/scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "pictures/fit.h"
#include "pictures/frame.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr double kWidth = 480;
constexpr double kHeight = 360;
constexpr double kGuideShift = 0.55;  // a guide is drawn below its line
constexpr std::size_t kMaxGuides = 3;

bool is_shown(const Series& series, std::size_t n) { return std::isfinite(series.x[n]) && std::isfinite(series.y[n]); }

void check_scaling(const Scaling& scaling) {
  if (scaling.series.empty()) throw Error("scaling: expected at least one series, got none");
  bool any = false;
  for (const Series& series : scaling.series) {
    if (series.x.size() != series.y.size())
      throw Error("scaling: '" + series.name + "': expected one y for each x, got " + std::to_string(series.y.size()) +
                  " for " + std::to_string(series.x.size()));
    for (std::size_t n = 0; n < series.x.size(); ++n) {
      if (!is_shown(series, n)) continue;
      if (series.x[n] <= 0 || series.y[n] <= 0)
        throw Error("scaling: '" + series.name + "': expected numbers above 0, since both axes are logarithmic, got " +
                    short_number(std::min(series.x[n], series.y[n])));
      any = true;
    }
  }
  if (!any) throw Error("scaling: expected at least one finite number, got none");
  for (const double slope : scaling.slopes)
    if (!std::isfinite(slope) || std::abs(slope) > 20)
      throw Error("scaling: slopes: expected numbers from -20 to 20, got " + short_number(slope));
}

// The measured sizes say more than powers of ten; every n-th if there are many.
std::vector<Tick> ticks_at(const std::set<double>& values, const Scale& scale, double width) {
  std::vector<Tick> ticks;
  Scale place = scale;
  place.from = 0;
  place.to = width;
  double end = -std::numeric_limits<double>::infinity();
  for (const double value : values) {
    const std::string text = axis_number(value);
    const double half = text_width(text, kSmallSize) / 2, at = place.at(value);
    if (at - half < end + 8) continue;
    ticks.push_back({value, text});
    end = at + half;
  }
  return ticks;
}

std::vector<double> guides_of(const Scaling& scaling) {
  if (!scaling.slopes.empty()) return scaling.slopes;
  std::set<double> slopes;
  for (const Series& series : scaling.series) {
    const double slope = std::round(2 * fitted_slope(series)) / 2;
    if (slope >= 0.5 && slope <= 4) slopes.insert(slope);
  }
  std::vector<double> result(slopes.begin(), slopes.end());
  if (result.size() > kMaxGuides) result.resize(kMaxGuides);
  return result;
}

// A point of the series whose slope is nearest to the guide's; the guide passes below it.
Point anchor_of(const Scaling& scaling, double slope) {
  const Series* nearest = nullptr;
  double distance = std::numeric_limits<double>::infinity();
  for (const Series& series : scaling.series) {
    const double difference = std::abs(fitted_slope(series) - slope);
    if (nearest == nullptr || difference < distance) nearest = &series, distance = difference;
  }
  Point last{std::numeric_limits<double>::quiet_NaN(), 0};
  for (const Series& series : scaling.series)
    for (std::size_t n = 0; n < series.x.size(); ++n)
      if (is_shown(series, n) && (&series == nearest || std::isnan(last.x))) last = {series.x[n], series.y[n]};
  return last;
}

Look guide_look(std::size_t n) { return {.color = Role::muted, .dashes = n % 2 == 0 ? Dashes{1.5, 4} : Dashes{10, 5}}; }

void add_guides(Frame& frame, const Scaling& scaling, const std::vector<double>& guides) {
  Group group("guides", {.clip = frame.area});
  for (std::size_t n = 0; n < guides.size(); ++n) {
    const Point through = anchor_of(scaling, guides[n]);
    const auto y_at = [&](double x) {
      return std::exp(std::log(kGuideShift * through.y) + guides[n] * (std::log(x) - std::log(through.x)));
    };
    const Point from = frame.at(frame.x.low, y_at(frame.x.low)), to = frame.at(frame.x.high, y_at(frame.x.high));
    const Look look = guide_look(n);
    if (std::isfinite(from.y) && std::isfinite(to.y))
      group.items.push_back({Line{"guide", from, to, {look.color, 1.25, look.dashes}}});
  }
  frame.drawing.add(std::move(group));
}

}  // namespace

double fitted_slope(const Series& series) {
  double count = 0, sum_x = 0, sum_y = 0;
  for (std::size_t n = 0; n < series.x.size(); ++n)
    if (is_shown(series, n)) ++count, sum_x += std::log(series.x[n]), sum_y += std::log(series.y[n]);
  double xx = 0, xy = 0;
  for (std::size_t n = 0; n < series.x.size(); ++n) {
    if (!is_shown(series, n)) continue;
    const double x = std::log(series.x[n]) - sum_x / count;
    xx += x * x;
    xy += x * (std::log(series.y[n]) - sum_y / count);
  }
  return xx > 1e-12 ? xy / xx : std::numeric_limits<double>::quiet_NaN();
}

namespace {

Drawing draw_at(const Scaling& scaling, double width) {
  std::vector<double> xs, ys;
  std::set<double> sizes;
  FrameSpec spec;
  for (std::size_t n = 0; n < scaling.series.size(); ++n) {
    const Series& series = scaling.series[n];
    for (std::size_t k = 0; k < series.x.size(); ++k)
      if (is_shown(series, k)) xs.push_back(series.x[k]), ys.push_back(series.y[k]), sizes.insert(series.x[k]);
    const double slope = fitted_slope(series);
    const std::string name = clipped(visible(series.name), kLabelSize, 110);
    spec.legend.push_back({std::isnan(slope) ? name : name + " (slope " + number(slope, 2) + ")", look_of(n)});
  }
  const std::vector<double> guides = guides_of(scaling);
  for (std::size_t n = 0; n < guides.size(); ++n)
    spec.legend.push_back({"slope " + axis_number(guides[n]), guide_look(n), LegendMark::dashes});
  spec.legend_below = legend_goes_below(spec.legend, scaling.width);
  spec.title = scaling.title;
  spec.width = width;
  spec.height = kHeight * std::max(width / kWidth, 0.45);
  spec.x = {scaling.x_title, scale_of(xs, true)};
  spec.y = {scaling.y_title, scale_of(ys, true)};
  if (sizes.size() <= 16) spec.x.ticks = ticks_at(sizes, spec.x.scale, width);

  Frame frame = make_frame(spec);
  add_guides(frame, scaling, guides);
  for (std::size_t n = 0; n < scaling.series.size(); ++n) {
    const Series& series = scaling.series[n];
    const Look look = look_of(n);
    Group group("series", {.tip = visible(series.name)});
    std::vector<Point> piece;
    std::vector<Item> markers;
    const auto end_piece = [&] {
      if (piece.size() > 1)
        group.items.push_back({Polyline{"curve", piece, {.stroke = Stroke{look.color, 1.75, look.dashes}}}});
      piece.clear();
    };
    for (std::size_t k = 0; k < series.x.size(); ++k) {
      if (!is_shown(series, k)) {
        end_piece();
        continue;
      }
      piece.push_back(frame.at(series.x[k], series.y[k]));
      markers.push_back(
          marker("marker", piece.back(), 3.6, look, axis_number(series.x[k]) + ": " + short_number(series.y[k])));
    }
    end_piece();
    std::move(markers.begin(), markers.end(), std::back_inserter(group.items));
    frame.drawing.add(std::move(group));
  }
  return std::move(frame.drawing);
}

}  // namespace

Drawing draw(const Scaling& scaling) {
  check_scaling(scaling);
  return fitted(scaling.width, kWidth, kWidth / 4, [&](double width) { return draw_at(scaling, width); });
}

}  // namespace rapt::pictures
