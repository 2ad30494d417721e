#include "pictures/heatmap_grid.h"

#include <algorithm>
#include <cmath>

#include "pictures/fit.h"
#include "pictures/frame.h"
#include "pictures/heat_cells.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr double kWidth = 900;  // of all maps together, about
constexpr double kMaxSide = 180;
constexpr double kMinSide = 36;
constexpr double kLeastSide = 16;  // where the figure's width is given
constexpr double kGap = 14;
constexpr double kTitle = 18;
constexpr double kSmall = 9;        // size of token labels
constexpr double kLabelWidth = 64;  // as long as they may be
constexpr std::size_t kMaxMaps = 4096;

std::int64_t usual_columns(std::size_t count) {
  // One row of up to four; then slightly wider than high, with few empty cells.
  if (count <= 4) return static_cast<std::int64_t>(count);
  const double root = std::sqrt(static_cast<double>(count));
  std::size_t best = 0, fewest = count;
  for (auto cols = static_cast<std::size_t>(std::ceil(root)); static_cast<double>(cols) <= 1.8 * root; ++cols) {
    const std::size_t empty = (count + cols - 1) / cols * cols - count;
    if (empty < fewest) best = cols, fewest = empty;
  }
  return static_cast<std::int64_t>(best);
}

std::int64_t columns_of(const HeatMapGrid& grid) {
  return grid.cols > 0 ? std::min(grid.cols, static_cast<std::int64_t>(grid.maps.size()))
                       : usual_columns(grid.maps.size());
}

// The longer side of a map, about.
double side_of(const HeatMapGrid& grid, double width) {
  const auto cols = static_cast<double>(columns_of(grid));
  const double side = (width - kGap * (cols - 1)) / cols;
  return grid.width > 0 ? std::max(side, kLeastSide) : std::clamp(side, kMinSide, kMaxSide);
}

struct Layout {
  std::int64_t cols = 1, rows = 1;
  Box map;  // the first one's cells
  double step_x = 0, step_y = 0;
  std::vector<CellLabel> row_labels, col_labels;
  Box bar;
  double width = 0, height = 0;

  Layout(const HeatMapGrid& grid, const HeatMap& first, const std::string& note, double side) {
    const auto count = static_cast<std::int64_t>(grid.maps.size());
    cols = columns_of(grid);
    rows = (count + cols - 1) / cols;
    const double most = static_cast<double>(std::max(first.rows, first.cols));
    const double cell = grid.width > 0 ? side / most : std::max(0.5, std::floor(2 * side / most) / 2);
    map.width = std::max(cell * static_cast<double>(first.cols), 12.0);
    map.height = std::max(cell * static_cast<double>(first.rows), 12.0);
    const auto labels = [&](const std::vector<std::string>& texts, std::int64_t n) {
      if (texts.empty() || cell < kSmall + 2) return std::vector<CellLabel>{};
      return cell_labels(texts, n, 1, cell, kSmall + 2, kSmall, kLabelWidth);
    };
    row_labels = labels(first.row_labels, first.rows);
    col_labels = labels(first.col_labels, first.cols);

    const double left = std::ceil(kMargin + (grid.row_title.empty() ? 0 : 22) +
                                  (row_labels.empty() ? 0 : widest(row_labels, kSmall) + 6));
    step_x = map.width + kGap;
    step_y = map.height + kTitle + kGap - 4;
    const double grid_right = left + step_x * static_cast<double>(cols) - kGap;
    const double grid_height = step_y * static_cast<double>(rows) - kGap + 4;
    bar = {grid_right + 22, 0, 14, std::clamp(grid_height - kTitle, 96.0, 320.0)};
    width = std::ceil(bar.right() + color_bar_labels(grid.low, grid.high, bar.height) + kMargin);
    if (grid.width == 0)
      width = std::max({width, std::min(420.0, text_width(visible(grid.title), kTitleSize) + 2 * kMargin),
                        std::ceil(text_width(note, kSmallSize) + 2 * kMargin)});
    // Column labels stand upright between a map's title and its cells, in the first row only.
    label_height = col_labels.empty() ? 0 : widest(col_labels, kSmall) + 6;
    const double top = title_height(grid.title, width) + (grid.col_title.empty() ? 0 : 22) + kTitle + label_height;
    map.x = left;
    map.y = bar.y = std::ceil(top);
    height = std::ceil(std::max(map.y + grid_height - kTitle, bar.bottom()) + (note.empty() ? kMargin : 38));
  }

  Box box(std::int64_t n) const {
    const std::int64_t row = n / cols, col = n % cols;
    return {map.x + step_x * static_cast<double>(col), map.y + step_y * static_cast<double>(row), map.width,
            map.height};
  }

  double label_height = 0;
};

std::string size_text(const HeatMap& map) { return std::to_string(map.rows) + " × " + std::to_string(map.cols); }

void check_grid(const HeatMapGrid& grid) {
  if (grid.maps.empty()) throw Error("grid of heat maps: expected at least one map, got none");
  if (grid.maps.size() > kMaxMaps)
    throw Error("grid of heat maps: expected at most " + std::to_string(kMaxMaps) + " maps, got " +
                std::to_string(grid.maps.size()));
  for (const HeatMap& map : grid.maps)
    if (map.rows != grid.maps[0].rows || map.cols != grid.maps[0].cols)
      throw Error("grid of heat maps: expected maps of the same size, got " + size_text(grid.maps[0]) + " and " +
                  size_text(map));
}

void add_labels(const Layout& layout, const HeatMap& map, std::int64_t n, Group& group) {
  const Box box = layout.box(n);
  const double cell_width = box.width / static_cast<double>(map.cols);
  const double cell_height = box.height / static_cast<double>(map.rows);
  if (n % layout.cols == 0)
    for (const CellLabel& label : layout.row_labels)
      group.items.push_back({Text{.kind = "row-label",
                                  .at = {box.x - 5, box.y + cell_height * label.at + 3.2},
                                  .content = label.text,
                                  .size = kSmall,
                                  .anchor = Anchor::end}});
  if (n < layout.cols)
    for (const CellLabel& label : layout.col_labels)
      group.items.push_back({Text{.kind = "col-label",
                                  .at = {box.x + cell_width * label.at + 3.2, box.y - 4},
                                  .content = label.text,
                                  .size = kSmall,
                                  .degrees = -90}});
}

// What rows and columns mean, once for the grid.
void add_axis_titles(const HeatMapGrid& grid, const Layout& layout, Drawing& drawing) {
  const auto title = [](const std::string& text, double room) { return clipped(visible(text), kLabelSize, room); };
  const double height = layout.height - layout.map.y - kMargin;
  if (!grid.col_title.empty())
    drawing.add(Text{.kind = "col-title",
                     .at = {layout.map.x, title_height(grid.title, layout.width) + 12},
                     .content = title(grid.col_title, layout.width - layout.map.x - kMargin),
                     .color = Role::muted});
  if (!grid.row_title.empty())
    drawing.add(Text{.kind = "row-title",
                     .at = {kMargin + 10, layout.map.y + height / 2},
                     .content = title(grid.row_title, height),
                     .anchor = Anchor::middle,
                     .degrees = -90,
                     .color = Role::muted});
}

Drawing draw_at(const HeatMapGrid& grid, double width) {
  const double side = side_of(grid, width);
  // At least half a pixel per cell.
  const auto most_cells = static_cast<std::int64_t>(2 * side);
  std::vector<HeatMap> maps;
  for (const HeatMap& given : grid.maps) {
    maps.push_back(largest_of_blocks(given, most_cells, most_cells));
    maps.back().low = grid.low;
    maps.back().high = grid.high;
    maps.back().numbers = CellNumbers::never;
    check(maps.back());
  }
  // With negative numbers in one head the sentence is true of all: elsewhere the largest is the farthest.
  const auto signed_map = std::find_if(maps.begin(), maps.end(), [](const HeatMap& map) { return map.farthest; });
  const std::string note = block_note(signed_map == maps.end() ? maps[0] : *signed_map);
  const Layout layout(grid, maps[0], note, side);
  Drawing drawing{.width = layout.width, .height = layout.height, .title = grid.title};
  if (drawing.title.empty()) drawing.title = "heat maps";
  drawing.description =
      std::to_string(maps.size()) + " heat maps from " + short_number(grid.low) + " to " + short_number(grid.high);
  add_title(drawing, grid.title);
  add_axis_titles(grid, layout, drawing);
  double title_width = 0;
  for (const HeatMap& map : maps) title_width = std::max(title_width, text_width(visible(map.title), kSmallSize));
  const double title_room = layout.map.width + kGap - 4;
  const double title_size = std::clamp(kSmallSize * title_room / std::max(title_width, 1.0), kSmall - 1, kSmallSize);
  const bool few = static_cast<std::int64_t>(maps.size()) * maps[0].rows * maps[0].cols <= kMaxRects;
  for (std::size_t n = 0; n < maps.size(); ++n) {
    const auto index = static_cast<std::int64_t>(n);
    const Box box = layout.box(index);
    Group group("map", {.tip = visible(maps[n].title)});
    const double title_y = box.y - 6 - (index < layout.cols ? layout.label_height : 0);
    group.items.push_back({Text{.kind = "map-title",
                                .at = {box.x, title_y},
                                .content = clipped(visible(maps[n].title), title_size, title_room),
                                .size = title_size,
                                .color = Role::muted}});
    group.items.push_back({cells_of(maps[n], box, {.as_image = !few, .tips = few})});
    add_labels(layout, maps[n], index, group);
    drawing.add(std::move(group));
  }
  drawing.add(color_bar(grid.low, grid.high, layout.bar));
  if (!note.empty())
    drawing.add(Text{.kind = "note",
                     .at = {kMargin, layout.height - 12},
                     .content = clipped(note, kSmallSize, layout.width - 2 * kMargin),
                     .size = kSmallSize,
                     .color = Role::muted});
  return drawing;
}

}  // namespace

Drawing draw(const HeatMapGrid& grid) {
  check_grid(grid);
  return fitted(grid.width, kWidth, kLeastSide, [&](double width) { return draw_at(grid, width); });
}

}  // namespace rapt::pictures
