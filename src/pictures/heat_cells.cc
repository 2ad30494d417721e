#include "pictures/heat_cells.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "pictures/axis.h"
#include "pictures/frame.h"
#include "pictures/number_format.h"
#include "pictures/text.h"

namespace rapt::pictures {
namespace {

constexpr int kBarSteps = 64;
constexpr double kTipWidth = 400;
constexpr double kNumberSize = 12;

std::string label_of(const std::vector<std::string>& labels, std::int64_t n, std::int64_t block) {
  return labels.empty() ? std::to_string(n * block + 1)
                        : clipped(visible(labels[static_cast<std::size_t>(n)]), kLabelSize, kTipWidth);
}

double value_at(const HeatMap& map, std::int64_t i, std::int64_t j) {
  return map.values[static_cast<std::size_t>(i * map.cols + j)];
}

Rgb cell_color(const HeatMap& map, std::int64_t i, std::int64_t j) {
  return color_of(value_at(map, i, j), map.low, map.high);
}

std::string tip_of(const HeatMap& map, std::int64_t i, std::int64_t j) {
  char exact[40];
  const double value = value_at(map, i, j);
  const auto end = std::to_chars(exact, exact + sizeof exact, value, std::chars_format::general, 8).ptr;
  return label_of(map.row_labels, i, map.row_block) + " → " + label_of(map.col_labels, j, map.col_block) + ": " +
         std::string(exact, end);
}

// 1, 2, 5, 10, 20, …
std::int64_t round_up(double x) {
  for (std::int64_t power = 1;; power *= 10)
    for (const std::int64_t factor : {1, 2, 5})
      if (static_cast<double>(factor * power) >= x) return factor * power;
}

}  // namespace

std::vector<CellLabel> cell_labels(const std::vector<std::string>& labels, std::int64_t count, std::int64_t block,
                                   double cell, double room, double font_size, double max_width) {
  std::vector<CellLabel> result;
  if (!labels.empty()) {
    const auto step = static_cast<std::int64_t>(std::max(1.0, std::ceil(room / cell - 1e-9)));
    for (std::int64_t n = 0; n < count; n += step)
      result.push_back(
          {static_cast<double>(n) + 0.5, clipped(visible(labels[static_cast<std::size_t>(n)]), font_size, max_width)});
    return result;
  }
  // Numbers: 1, 2, 3 if all fit, else 1, 50, 100.
  const double unit = cell / static_cast<double>(block);
  const std::int64_t step = round_up(room / unit - 1e-9);
  const auto add = [&](std::int64_t n) {
    const double at = (static_cast<double>(n) - 0.5) / static_cast<double>(block);
    if (at < static_cast<double>(count)) result.push_back({at, std::to_string(n)});
  };
  if (step == 1 || static_cast<double>(step - 1) * unit >= room) add(1);
  for (std::int64_t n = step == 1 ? 2 : step; n <= count * block; n += step) add(n);
  if (result.empty()) add(1);
  return result;
}

double widest(const std::vector<CellLabel>& labels, double font_size) {
  double most = 0;
  for (const CellLabel& label : labels) most = std::max(most, text_width(label.text, font_size));
  return most;
}

double widest_number(const HeatMap& map, double font_size) {
  const NumberFormat numbers = NumberFormat::compact(map.values);
  double most = 1;
  for (const double value : map.values) most = std::max(most, text_width(numbers.text(value), font_size));
  return most;
}

Group cells_of(const HeatMap& map, const Box& box, const CellStyle& style) {
  Group group("cells", {.crisp = true});
  const double width = box.width / static_cast<double>(map.cols), height = box.height / static_cast<double>(map.rows);
  if (style.as_image) {
    Cells cells{"cell-image", box, map.rows, map.cols, {}};
    cells.colors.reserve(map.values.size());
    for (std::int64_t i = 0; i < map.rows; ++i)
      for (std::int64_t j = 0; j < map.cols; ++j) cells.colors.push_back(cell_color(map, i, j));
    group.items.push_back({std::move(cells)});
    return group;
  }
  const NumberFormat numbers = style.numbers ? NumberFormat::compact(map.values) : NumberFormat();
  double number_size = std::min(kNumberSize, height * 0.8);
  if (style.numbers)
    number_size = std::min(number_size, kNumberSize * kNumberShare * width / widest_number(map, kNumberSize));
  for (std::int64_t i = 0; i < map.rows; ++i)
    for (std::int64_t j = 0; j < map.cols; ++j) {
      const Box cell{box.x + width * static_cast<double>(j), box.y + height * static_cast<double>(i), width, height};
      const Rgb color = cell_color(map, i, j);
      group.items.push_back({Rect{"cell", cell, {.fill = color}, style.tips ? tip_of(map, i, j) : ""}});
      if (!style.numbers) continue;
      group.items.push_back({Text{.kind = "value",
                                  .at = {cell.x + width / 2, cell.y + height / 2 + number_size * 0.36},
                                  .content = numbers.text(value_at(map, i, j)),
                                  .size = number_size,
                                  .anchor = Anchor::middle,
                                  .color = ink_on(color)}});
    }
  return group;
}

namespace {

std::vector<Tick> bar_ticks(double low, double high, double height) {
  return fitting_ticks({low, high}, height, kSmallSize, false);
}

}  // namespace

double color_bar_labels(double low, double high, double height) {
  double most = 0;
  for (const Tick& tick : bar_ticks(low, high, height)) most = std::max(most, text_width(tick.text, kSmallSize));
  return most + 8;
}

Group color_bar(double low, double high, const Box& box) {
  Group group("color-bar");
  Group steps("bar-steps", {.crisp = true});
  const double step = box.height / kBarSteps;
  for (int n = 0; n < kBarSteps; ++n)
    // Slightly taller than a step, so that there are no gaps.
    steps.items.push_back({Rect{"bar",
                                {box.x, box.bottom() - step * (n + 1), box.width, n == 0 ? step : step + 0.5},
                                {.fill = color_of(low + (high - low) * (n + 0.5) / kBarSteps, low, high)}}});
  group.items.push_back({std::move(steps)});
  Scale scale{low, high};
  scale.from = box.bottom();
  scale.to = box.y;
  for (const Tick& tick : bar_ticks(low, high, box.height)) {
    const double y = scale.at(tick.value);
    group.items.push_back({Line{"bar-tick", {box.right(), y}, {box.right() + 4, y}, {Role::axis}}});
    group.items.push_back(
        {Text{.kind = "bar-label", .at = {box.right() + 8, y + 4}, .content = tick.text, .size = kSmallSize}});
  }
  return group;
}

std::string block_note(const HeatMap& map) {
  if (map.row_block == 1 && map.col_block == 1) return {};
  return std::string("each cell is the ") + (map.farthest ? "farthest from 0" : "largest") + " of " +
         std::to_string(map.row_block) + " × " + std::to_string(map.col_block) + " numbers";
}

}  // namespace rapt::pictures
