#include "pictures/bars.h"

#include <algorithm>
#include <cmath>

#include "attend/counted.h"
#include "pictures/fit.h"
#include "pictures/frame.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr double kBar = 17;
constexpr double kGap = 14;  // between groups
constexpr double kWidth = 520;
constexpr double kGroupName = 200;
constexpr std::size_t kMaxBars = 400;

// The widest label on one side of 0.
double number_width(const Bars& bars, const NumberFormat& numbers, bool negative) {
  double most = 0;
  for (const BarSeries& series : bars.series)
    for (const double value : series.values)
      if (std::isfinite(value) && (value < 0) == negative)
        most = std::max(most, text_width(numbers.text(value), kSmallSize) + 8);
  return most;
}

void check_bars(const Bars& bars) {
  if (bars.groups.empty() || bars.series.empty())
    throw Error("bars: expected at least one group and one series, got none");
  if (bars.groups.size() * bars.series.size() > kMaxBars)
    throw Error("bars: expected at most " + std::to_string(kMaxBars) + " bars, got " +
                counted(bars.groups.size(), "group") + " of " + std::to_string(bars.series.size()));
  bool any = false;
  for (const BarSeries& series : bars.series) {
    if (series.values.size() != bars.groups.size())
      throw Error("bars: '" + series.name + "': expected " + counted(bars.groups.size(), "number") +
                  ", one for each group, got " + std::to_string(series.values.size()));
    for (const double value : series.values) {
      if (std::isinf(value)) throw Error("bars: '" + series.name + "': expected finite numbers, got an infinite one");
      any = any || std::isfinite(value);
    }
  }
  if (!any) throw Error("bars: expected at least one finite number, got none");
}

// From 0 to the longest bar, with room for the labels at the ends.
Scale value_scale(const Bars& bars, const NumberFormat& numbers, double width) {
  double low = 0, high = 0;
  for (const BarSeries& series : bars.series)
    for (const double value : series.values)
      if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  const double left = low < 0 ? number_width(bars, numbers, true) : 0;
  const double right = high > 0 || low == high ? number_width(bars, numbers, false) : 0;
  if (low == high) high = 1;
  const double unit = (high - low) / std::max(width - left - right, 1.0);
  return {low - left * unit, high + right * unit};
}

Drawing draw_at(const Bars& bars, double width) {
  const NumberFormat numbers = bar_numbers(bars);
  const auto groups = static_cast<double>(bars.groups.size());
  const double group = kBar * static_cast<double>(bars.series.size()) + kGap;
  FrameSpec spec;
  spec.title = bars.title;
  spec.width = width;
  spec.height = group * groups;
  spec.y_lines = false;
  spec.x.title = bars.value_title.empty() && bars.series.size() == 1 ? bars.series[0].name : bars.value_title;
  spec.x.scale = value_scale(bars, numbers, width);
  spec.y.title = bars.group_title;
  spec.y.scale = {groups, 0};
  // In a narrow figure names leave most of the width to the bars.
  const double name_room = bars.width > 0 ? std::min(kGroupName, 0.4 * bars.width) : kGroupName;
  for (std::size_t n = 0; n < bars.groups.size(); ++n)
    spec.y.ticks.push_back({static_cast<double>(n) + 0.5, clipped(visible(bars.groups[n]), kSmallSize, name_room)});
  if (bars.series.size() > 1)
    for (std::size_t n = 0; n < bars.series.size(); ++n)
      spec.legend.push_back({bars.series[n].name, look_of(n), LegendMark::box});
  spec.legend_below = legend_goes_below(spec.legend, bars.width);

  Frame frame = make_frame(spec);
  const double zero = frame.x.at(0);
  Group shapes("bars");
  for (std::size_t g = 0; g < bars.groups.size(); ++g)
    for (std::size_t n = 0; n < bars.series.size(); ++n) {
      const double value = bars.series[n].values[g];
      const double y = frame.area.y + group * static_cast<double>(g) + kGap / 2 + kBar * static_cast<double>(n);
      if (!std::isfinite(value)) {
        shapes.items.push_back({Text{.kind = "missing",
                                     .at = {zero + 5, y + kBar / 2 + 4},
                                     .content = "–",
                                     .size = kSmallSize,
                                     .color = Role::muted}});
        continue;
      }
      const double end = frame.x.at(value);
      const std::string label = numbers.text(value);
      shapes.items.push_back({Rect{"bar",
                                   {std::min(zero, end), y + 1, std::abs(end - zero), kBar - 2},
                                   {.fill = look_of(n).color},
                                   visible(bars.series[n].name) + ", " + visible(bars.groups[g]) + ": " + label}});
      shapes.items.push_back({Text{.kind = "value",
                                   .at = {value < 0 ? end - 5 : end + 5, y + kBar / 2 + 4},
                                   .content = label,
                                   .size = kSmallSize,
                                   .anchor = value < 0 ? Anchor::end : Anchor::start}});
    }
  if (spec.x.scale.low < 0)
    shapes.items.push_back({Line{"zero", {zero, frame.area.y}, {zero, frame.area.bottom()}, {Role::axis}}});
  frame.drawing.add(std::move(shapes));
  return std::move(frame.drawing);
}

}  // namespace

NumberFormat bar_numbers(const Bars& bars) {
  std::vector<double> values;
  for (const BarSeries& series : bars.series) values.insert(values.end(), series.values.begin(), series.values.end());
  return NumberFormat::measured(values);
}

Drawing draw(const Bars& bars) {
  check_bars(bars);
  // Bars of a fifth of their usual length can still be compared.
  return fitted(bars.width, kWidth, kWidth / 5, [&](double width) { return draw_at(bars, width); });
}

}  // namespace rapt::pictures
