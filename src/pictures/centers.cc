#include "pictures/centers.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>

#include "pictures/fit.h"
#include "pictures/frame.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr double kSide = 250;
constexpr double kLeastSide = 60;
constexpr double kNarrow = 190;  // a panel with its share of the rest, where the figure's width is given
constexpr double kNoteLine = 15;
constexpr double kGap = 22;
constexpr double kTitle = 20;
constexpr std::int64_t kMaxColumns = 3;
constexpr std::int64_t kMaxLayers = 64;
constexpr std::int64_t kMaxHeads = 256;
// Radius over standard deviation of the ellipse that holds this share of a normal distribution: √(−2 ln(1 − p)).
const double kHalf = std::sqrt(-2 * std::log(0.5));
const double kMost = std::sqrt(-2 * std::log(0.1));

struct Spread {
  double major = 0, minor = 0;  // standard deviations along the axes
  double degrees = 0;           // of the major one, clockwise from the columns
};

std::size_t index_of(const HeadCenters& c, std::int64_t epoch, std::int64_t layer, std::int64_t head) {
  return static_cast<std::size_t>((epoch * c.layers + layer) * c.heads + head);
}

// Columns go right, rows go down, as on the page.
Point center_at(const HeadCenters& c, std::int64_t epoch, std::int64_t layer, std::int64_t head) {
  const std::size_t n = 2 * index_of(c, epoch, layer, head);
  return {c.centers[n + 1], c.centers[n]};
}

Spread spread_at(const HeadCenters& c, std::int64_t layer, std::int64_t head) {
  const std::size_t n = 4 * index_of(c, c.epochs - 1, layer, head);
  const double rows = c.covariances[n], cols = c.covariances[n + 3];
  const double both = (c.covariances[n + 1] + c.covariances[n + 2]) / 2;
  const double middle = (rows + cols) / 2, radius = std::hypot((cols - rows) / 2, both);
  return {std::sqrt(std::max(middle + radius, 0.0)), std::sqrt(std::max(middle - radius, 0.0)),
          0.5 * std::atan2(2 * both, cols - rows) * 180 / std::numbers::pi};
}

void check_centers(const HeadCenters& c) {
  const auto fail = [](const std::string& what) { throw Error("head centres: " + what); };
  if (c.epochs < 1 || c.layers < 1 || c.heads < 1) fail("expected at least one epoch, layer and head, got none");
  if (c.layers > kMaxLayers || c.heads > kMaxHeads)
    fail("expected at most " + std::to_string(kMaxLayers) + " layers of " + std::to_string(kMaxHeads) + " heads, got " +
         std::to_string(c.layers) + " of " + std::to_string(c.heads));
  const auto count = static_cast<std::size_t>(c.epochs * c.layers * c.heads);
  if (c.centers.size() != 2 * count)
    fail("centres: expected " + std::to_string(2 * count) + " numbers, two for each epoch, layer and head, got " +
         std::to_string(c.centers.size()));
  if (!c.covariances.empty() && c.covariances.size() != 4 * count)
    fail("covariances: expected " + std::to_string(4 * count) + " numbers, 2 × 2 for each epoch, layer and head, got " +
         std::to_string(c.covariances.size()));
  const auto check_finite = [&](const std::vector<double>& values, const char* name) {
    for (const double x : values)
      if (!std::isfinite(x) || std::abs(x) >= 1e9)
        fail(std::string(name) + ": expected numbers between -1e9 and 1e9, got " + short_number(x));
  };
  check_finite(c.centers, "centres");
  check_finite(c.covariances, "covariances");
  for (std::size_t n = 0; n < c.covariances.size(); n += 4) {
    const double* m = c.covariances.data() + n;
    const double size = std::abs(m[0]) + std::abs(m[3]) + 1e-12;
    if (std::abs(m[1] - m[2]) > 1e-3 * size || m[0] < -1e-6 * size || m[3] < -1e-6 * size ||
        m[0] * m[3] - m[1] * m[2] < -1e-3 * size * size)
      fail("covariances: expected symmetric positive matrices, got [" + short_number(m[0]) + ", " + short_number(m[1]) +
           "; " + short_number(m[2]) + ", " + short_number(m[3]) + "]");
  }
}

// Shows everything but ellipses that are far larger than the others.
double range_of(const HeadCenters& c) {
  double range = 0.5;
  for (std::int64_t e = 0; e < c.epochs; ++e)
    for (std::int64_t l = 0; l < c.layers; ++l)
      for (std::int64_t h = 0; h < c.heads; ++h) {
        const Point p = center_at(c, e, l, h);
        range = std::max({range, std::abs(p.x), std::abs(p.y)});
      }
  if (c.covariances.empty()) return range * 1.12;
  std::vector<double> extents;
  for (std::int64_t l = 0; l < c.layers; ++l)
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const Point p = center_at(c, c.epochs - 1, l, h);
      extents.push_back(std::max(std::abs(p.x), std::abs(p.y)) + kMost * spread_at(c, l, h).major);
    }
  std::sort(extents.begin(), extents.end());
  const double usual = extents[extents.size() / 2];
  return std::max(range * 1.12, std::min(extents.back(), 3 * usual) * 1.05);
}

struct Panel {
  Box box;
  Scale x, y;
  Point at(Point p) const { return {x.at(p.x), y.at(p.y)}; }
};

void add_head(Group& group, const HeadCenters& c, const Panel& panel, std::int64_t layer, std::int64_t head) {
  const Look look = look_of(static_cast<std::size_t>(head));
  const Point center = center_at(c, c.epochs - 1, layer, head);
  const Point at = panel.at(center);
  if (!c.covariances.empty()) {
    const Spread spread = spread_at(c, layer, head);
    const double unit = (panel.x.to - panel.x.from) / (panel.x.high - panel.x.low);
    for (const auto& [factor, fill, kind] : {std::tuple{kMost, 0.07, "ellipse-90"}, {kHalf, 0.16, "ellipse-50"}}) {
      const double major = std::max(factor * spread.major * unit, 0.5);
      const double minor = std::max(factor * spread.minor * unit, 0.5);
      group.items.push_back({Ellipse{kind, at, major, minor, spread.degrees, {.fill = look.color, .opacity = fill}}});
      group.items.push_back(
          {Ellipse{kind, at, major, minor, spread.degrees, {.stroke = Stroke{look.color, 1}, .opacity = 0.75}}});
    }
  }
  if (c.epochs > 1) {
    std::vector<Point> way;
    for (std::int64_t e = 0; e < c.epochs; ++e) way.push_back(panel.at(center_at(c, e, layer, head)));
    const Point start = way.front();
    group.items.push_back({Polyline{"trajectory", std::move(way), {.stroke = Stroke{look.color, 1.25}}}});
    group.items.push_back(
        {Ellipse{"start", start, 2.2, 2.2, 0, {.fill = Role::page, .stroke = Stroke{look.color, 1.25}}}});
  }
  group.items.push_back(marker("center", at, 4.2, look,
                               "head " + std::to_string(head) + ": " + short_number(center.y) + " rows, " +
                                   short_number(center.x) + " columns"));
}

void add_panel(Drawing& drawing, const HeadCenters& c, const Panel& panel, std::int64_t layer, bool left, bool bottom) {
  const Box& box = panel.box;
  Group grid("axes", {.crisp = true});
  for (const Tick& tick : fitting_ticks(panel.x, box.width * 0.9, kSmallSize, true)) {
    const double x = panel.x.at(tick.value), y = panel.y.at(tick.value);
    const Role role = tick.value == 0 ? Role::axis : Role::grid;
    grid.items.push_back({Line{"grid", {x, box.y}, {x, box.bottom()}, {role}}});
    grid.items.push_back({Line{"grid", {box.x, y}, {box.right(), y}, {role}}});
    if (bottom)
      drawing.add(Text{.kind = "x-tick",
                       .at = {x, box.bottom() + 16},
                       .content = tick.text,
                       .size = kSmallSize,
                       .anchor = Anchor::middle});
    if (left)
      drawing.add(Text{
          .kind = "y-tick", .at = {box.x - 7, y + 4}, .content = tick.text, .size = kSmallSize, .anchor = Anchor::end});
  }
  grid.items.push_back({Rect{"panel", box, {.stroke = Stroke{Role::axis}}}});
  drawing.add(std::move(grid));
  Group group("layer", {.clip = box});
  for (std::int64_t head = 0; head < c.heads; ++head) add_head(group, c, panel, layer, head);
  // The query: a small plus on top of everything.
  const Point query = panel.at({0, 0});
  group.items.push_back({Line{"query", {query.x - 6, query.y}, {query.x + 6, query.y}, {Role::ink, 1.5}}});
  group.items.push_back({Line{"query", {query.x, query.y - 6}, {query.x, query.y + 6}, {Role::ink, 1.5}}});
  drawing.add(std::move(group));
  if (c.layers > 1)
    drawing.add(Text{.kind = "panel-title",
                     .at = {box.x, box.y - 7},
                     .content = "layer " + std::to_string(layer),
                     .color = Role::muted});
}

// Panels side by side: in a narrow figure as many as stay readable.
std::int64_t columns_of(const HeadCenters& c) {
  std::int64_t most = kMaxColumns;
  if (c.width > 0) most = std::clamp<std::int64_t>(static_cast<std::int64_t>(c.width / kNarrow), 1, most);
  return std::min(c.layers, most);
}

Drawing draw_at(const HeadCenters& c, double side) {
  const std::int64_t cols = columns_of(c), rows = (c.layers + cols - 1) / cols;
  const double range = range_of(c);
  const double panel_title = c.layers > 1 ? kTitle : 0;
  double widest_tick = 0;
  for (const Tick& tick : fitting_ticks({-range, range}, side * 0.9, kSmallSize, true))
    widest_tick = std::max(widest_tick, text_width(tick.text, kSmallSize));
  const double left = kMargin + 22 + widest_tick + 8;
  const double right = left + (side + kGap) * static_cast<double>(cols) - kGap;

  std::vector<LegendEntry> legend;
  for (std::int64_t head = 0; head < c.heads; ++head)
    legend.push_back({"head " + std::to_string(head), look_of(static_cast<std::size_t>(head)), LegendMark::point});
  std::string note = "+ the query";
  if (!c.covariances.empty()) note += "; ellipses hold 50 % and 90 % of the weight";
  if (c.epochs > 1)
    note += "; lines: from epoch " + std::to_string(c.first_epoch) + " (ring) to epoch " +
            std::to_string(c.first_epoch + c.epochs - 1);

  Drawing drawing{.title = c.title};
  const bool below = legend_goes_below(legend, c.width);
  drawing.width = right + (below ? 0 : legend_width(legend)) + kMargin;
  if (c.width == 0) drawing.width = std::ceil(std::max(drawing.width, 3 * kMargin + text_width(note, kSmallSize)));
  const std::vector<std::string> notes = wrapped(note, kSmallSize, drawing.width - 2 * kMargin, 4);
  const std::size_t columns = below ? legend_columns(legend, drawing.width) : 1;
  const double top = add_title(drawing, c.title) + panel_title;
  if (drawing.title.empty()) drawing.title = "head centres";
  const double bottom = top + (side + kGap + panel_title) * static_cast<double>(rows) - kGap - panel_title;
  const double keys = legend_height(legend, columns);
  const double notes_y = bottom + 60, notes_end = notes_y + kNoteLine * static_cast<double>(notes.size() - 1) + 10;
  drawing.height = std::ceil(below ? notes_end + keys + kMargin : std::max(notes_end, top + keys + kMargin));

  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const std::int64_t row = layer / cols, col = layer % cols;
    const double x = left + (side + kGap) * static_cast<double>(col);
    const double y = top + (side + kGap + panel_title) * static_cast<double>(row);
    const Panel panel{{x, y, side, side}, {-range, range, false, x, x + side}, {-range, range, false, y, y + side}};
    add_panel(drawing, c, panel, layer, col == 0, layer + cols >= c.layers);
  }
  if (below) add_legend(drawing, legend, kMargin, notes_end, columns);
  else add_legend(drawing, legend, right + 20, top);
  drawing.add(Text{.kind = "x-title",
                   .at = {(left + right) / 2, bottom + 36},
                   .content = clipped(visible(c.x_title), kLabelSize, right - left),
                   .anchor = Anchor::middle,
                   .color = Role::muted});
  drawing.add(Text{.kind = "y-title",
                   .at = {kMargin + 10, (top + bottom) / 2},
                   .content = clipped(visible(c.y_title), kLabelSize, bottom - top),
                   .anchor = Anchor::middle,
                   .degrees = -90,
                   .color = Role::muted});
  for (std::size_t n = 0; n < notes.size(); ++n)
    drawing.add(Text{.kind = "note",
                     .at = {kMargin, notes_y + kNoteLine * static_cast<double>(n)},
                     .content = notes[n],
                     .size = kSmallSize,
                     .color = Role::muted});
  return drawing;
}

}  // namespace

Drawing draw(const HeadCenters& c) {
  check_centers(c);
  return fitted(c.width, kSide, kLeastSide, [&](double side) { return draw_at(c, side); });
}

}  // namespace rapt::pictures
