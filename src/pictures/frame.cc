#include "pictures/frame.h"

#include <algorithm>

#include "pictures/text.h"

namespace rapt::pictures {
namespace {

constexpr double kLineHeight = 20;
constexpr double kLegendRow = 19;
constexpr double kLegendName = 190;  // as long as a name may be
constexpr std::size_t kMaxLegend = 24;

std::vector<std::string> title_lines(const std::string& title, double width) {
  return wrapped(visible(title), kTitleSize, width - 2 * kMargin, 2);
}

std::string legend_name(const LegendEntry& entry) { return clipped(visible(entry.name), kLabelSize, kLegendName); }

void add_axes(Frame& frame, const FrameSpec& spec) {
  Drawing& drawing = frame.drawing;
  const Box& area = frame.area;
  Group grid("axes", {.crisp = true});
  for (const Tick& tick : spec.x.ticks) {
    const double x = frame.x.at(tick.value);
    grid.items.push_back({Line{"grid", {x, area.y}, {x, area.bottom()}, {Role::grid}}});
    if (!tick.text.empty())
      drawing.add(Text{.kind = "x-tick",
                       .at = {x, area.bottom() + 18},
                       .content = tick.text,
                       .size = kSmallSize,
                       .anchor = Anchor::middle});
  }
  for (const Tick& tick : spec.y.ticks) {
    const double y = frame.y.at(tick.value);
    if (spec.y_lines) grid.items.push_back({Line{"grid", {area.x, y}, {area.right(), y}, {Role::grid}}});
    if (!tick.text.empty())
      drawing.add(Text{.kind = "y-tick",
                       .at = {area.x - 8, y + 4},
                       .content = tick.text,
                       .size = kSmallSize,
                       .anchor = Anchor::end});
  }
  grid.items.push_back({Line{"axis", {area.x, area.bottom()}, {area.right(), area.bottom()}, {Role::axis}}});
  grid.items.push_back({Line{"axis", {area.x, area.y}, {area.x, area.bottom()}, {Role::axis}}});
  drawing.add(std::move(grid));
}

}  // namespace

double legend_width(const std::vector<LegendEntry>& legend) {
  double widest = 0;
  for (const LegendEntry& entry : legend) widest = std::max(widest, text_width(legend_name(entry), kLabelSize));
  return legend.empty() ? 0 : 20 + 36 + widest;
}

double legend_height(const std::vector<LegendEntry>& legend, std::size_t columns) {
  const std::size_t rows = (std::min(legend.size(), kMaxLegend) + columns - 1) / columns;
  return kLegendRow * static_cast<double>(rows);
}

bool legend_goes_below(const std::vector<LegendEntry>& legend, double width) {
  return width > 0 && legend_width(legend) > 0.22 * width;
}

std::size_t legend_columns(const std::vector<LegendEntry>& legend, double width) {
  const double room = (width - 2 * kMargin + 20) / std::max(legend_width(legend), 1.0);
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::max(room, 1.0)), 1,
                                 std::max<std::size_t>(legend.size(), 1));
}

void add_legend(Drawing& drawing, const std::vector<LegendEntry>& legend, double left, double top,
                std::size_t columns) {
  Group group("legend");
  for (std::size_t n = 0; n < legend.size() && n < kMaxLegend; ++n) {
    const LegendEntry& entry = legend[n];
    const double x = left + legend_width(legend) * static_cast<double>(n % columns);
    const std::size_t row = n / columns;
    const double line = top + kLegendRow * (static_cast<double>(row) + 0.5);
    if (n + 1 == kMaxLegend && legend.size() > kMaxLegend) {
      group.items.push_back({Text{.kind = "legend-more",
                                  .at = {x + 36, line + 4},
                                  .content = "and " + std::to_string(legend.size() - n) + " more",
                                  .color = Role::muted}});
      break;
    }
    if (entry.mark == LegendMark::box) {
      group.items.push_back({Rect{"legend-mark", {x + 8, line - 6, 16, 12}, {.fill = entry.look.color}}});
    } else {
      if (entry.mark != LegendMark::point)
        group.items.push_back(
            {Line{"legend-mark", {x, line}, {x + 30, line}, {entry.look.color, 1.75, entry.look.dashes}}});
      if (entry.mark != LegendMark::dashes)
        group.items.push_back(marker("legend-mark", {x + 15, line}, 3.5, entry.look));
    }
    group.items.push_back({Text{.kind = "legend-name", .at = {x + 38, line + 4}, .content = legend_name(entry)}});
  }
  drawing.add(std::move(group));
}

double title_height(const std::string& title, double width) {
  const std::size_t lines = title_lines(title, width).size();
  return lines == 0 ? kMargin : kMargin + kLineHeight * static_cast<double>(lines) + 10;
}

double add_title(Drawing& drawing, const std::string& title) {
  double y = kMargin + 14;
  for (const std::string& line : title_lines(title, drawing.width)) {
    drawing.add(Text{.kind = "title", .at = {kMargin, y}, .content = line, .size = kTitleSize});
    y += kLineHeight;
  }
  return title_height(title, drawing.width);
}

Frame make_frame(FrameSpec spec) {
  if (spec.x.ticks.empty()) spec.x.ticks = fitting_ticks(spec.x.scale, spec.width, kSmallSize, true);
  if (spec.y.ticks.empty()) spec.y.ticks = fitting_ticks(spec.y.scale, spec.height, kSmallSize, false);
  double left = kMargin + (spec.y.title.empty() ? 0 : 22);
  double widest = 0, last = 0;
  for (const Tick& tick : spec.y.ticks) widest = std::max(widest, text_width(tick.text, kSmallSize));
  for (const Tick& tick : spec.x.ticks) last = std::max(last, text_width(tick.text, kSmallSize) / 2);
  // A label at the left end may extend farther than those of the other axis.
  left = std::max(left + widest + 8, last + 4);

  Frame frame;
  frame.drawing.title = spec.title;
  const double beside = spec.legend_below ? 0 : legend_width(spec.legend);
  frame.drawing.width = left + spec.width + std::max(beside, last) + kMargin;
  const double top = add_title(frame.drawing, spec.title) + 4;
  frame.area = {left, top, spec.width, spec.height};
  const std::size_t columns = spec.legend_below ? legend_columns(spec.legend, frame.drawing.width) : 1;
  const double legend_bottom = spec.legend_below ? 0 : top + legend_height(spec.legend);
  double bottom = frame.area.bottom() + 26 + (spec.x.title.empty() ? 0 : 22);
  const double legend_top = bottom + 4;
  if (spec.legend_below) bottom = legend_top + legend_height(spec.legend, columns);
  const double note_y = bottom + 14;
  if (!spec.note.empty()) bottom += 20;
  frame.drawing.height = std::max(bottom, legend_bottom) + 10;

  frame.x = spec.x.scale;
  frame.x.from = frame.area.x;
  frame.x.to = frame.area.right();
  frame.y = spec.y.scale;
  frame.y.from = frame.area.bottom();
  frame.y.to = frame.area.y;
  add_axes(frame, spec);

  const auto title = [&](const std::string& text, double room) { return clipped(visible(text), kLabelSize, room); };
  if (!spec.x.title.empty())
    frame.drawing.add(Text{.kind = "x-title",
                           .at = {left + spec.width / 2, frame.area.bottom() + 40},
                           .content = title(spec.x.title, spec.width),
                           .anchor = Anchor::middle,
                           .color = Role::muted});
  if (!spec.y.title.empty())
    frame.drawing.add(Text{.kind = "y-title",
                           .at = {kMargin + 10, top + spec.height / 2},
                           // On a low plot it may extend slightly beyond the axis.
                           .content = title(spec.y.title, spec.height + 30),
                           .anchor = Anchor::middle,
                           .degrees = -90,
                           .color = Role::muted});
  if (!spec.note.empty())
    frame.drawing.add(Text{.kind = "note",
                           .at = {kMargin, note_y},
                           .content = clipped(spec.note, kSmallSize, frame.drawing.width - 2 * kMargin),
                           .size = kSmallSize,
                           .color = Role::muted});
  if (!spec.legend.empty() && spec.legend_below) add_legend(frame.drawing, spec.legend, kMargin, legend_top, columns);
  else if (!spec.legend.empty()) add_legend(frame.drawing, spec.legend, frame.area.right() + 20, top);
  return frame;
}

}  // namespace rapt::pictures
