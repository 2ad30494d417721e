#include "pictures/heatmap_grid.h"

#include <algorithm>
#include <cmath>

#include "pictures/frame.h"
#include "pictures/heat_cells.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr double kWidth = 900;  // of all maps together, about
constexpr double kMaxSide = 180;
constexpr double kMinSide = 36;
constexpr double kGap = 14;
constexpr double kTitle = 18;
constexpr double kSmall = 9;        // size of token labels
constexpr double kLabelWidth = 64;  // as long as they may be
constexpr std::size_t kMaxMaps = 4096;

std::int64_t usual_columns(std::size_t count) {
  // A row of up to four; then a little wider than high, with few empty places.
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
double side_of(std::int64_t cols) {
  return std::clamp((kWidth - kGap * static_cast<double>(cols - 1)) / static_cast<double>(cols), kMinSide, kMaxSide);
}

struct Layout {
  std::int64_t cols = 1, rows = 1;
  Box map;  // the first one's cells
  double step_x = 0, step_y = 0;
  std::vector<CellLabel> row_labels, col_labels;
  Box bar;
  double width = 0, height = 0;

  Layout(const HeatMapGrid& grid, const HeatMap& first, const std::string& note) {
    const auto count = static_cast<std::int64_t>(grid.maps.size());
    cols = columns_of(grid);
    rows = (count + cols - 1) / cols;
    const double side = side_of(cols);
    const double most = static_cast<double>(std::max(first.rows, first.cols));
    const double cell = std::max(0.5, std::floor(2 * side / most) / 2);
    map.width = std::max(cell * static_cast<double>(first.cols), 12.0);
    map.height = std::max(cell * static_cast<double>(first.rows), 12.0);
    const auto labels = [&](const std::vector<std::string>& texts, std::int64_t n) {
      if (texts.empty() || cell < kSmall + 2) return std::vector<CellLabel>{};
      return cell_labels(texts, n, 1, cell, kSmall + 2, kSmall, kLabelWidth);
    };
    row_labels = labels(first.row_labels, first.rows);
    col_labels = labels(first.col_labels, first.cols);

    const double left = std::ceil(kMargin + (row_labels.empty() ? 0 : widest(row_labels, kSmall) + 6));
    step_x = map.width + kGap;
    step_y = map.height + kTitle + kGap - 4;
    const double grid_right = left + step_x * static_cast<double>(cols) - kGap;
    const double grid_height = step_y * static_cast<double>(rows) - kGap + 4;
    bar = {grid_right + 22, 0, 14, std::clamp(grid_height - kTitle, 96.0, 320.0)};
    width = std::ceil(bar.right() + color_bar_labels(grid.low, grid.high, bar.height) + kMargin);
    width = std::max({width, std::min(420.0, text_width(visible(grid.title), kTitleSize) + 2 * kMargin),
                      std::ceil(text_width(note, kSmallSize) + 2 * kMargin)});
    // Column labels stand upright between a map's title and its cells, in the first row only.
    label_height = col_labels.empty() ? 0 : widest(col_labels, kSmall) + 6;
    const double top = title_height(grid.title, width) + kTitle + label_height;
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

void check_grid(const HeatMapGrid& grid) {
  if (grid.maps.empty()) throw Error("grid of heat maps: needs at least one map");
  if (grid.maps.size() > kMaxMaps)
    throw Error("grid of heat maps: got " + std::to_string(grid.maps.size()) + " maps; takes at most " +
                std::to_string(kMaxMaps));
  for (const HeatMap& map : grid.maps)
    if (map.rows != grid.maps[0].rows || map.cols != grid.maps[0].cols)
      throw Error("grid of heat maps: all maps must have the same size");
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

}  // namespace

Drawing draw(const HeatMapGrid& grid) {
  check_grid(grid);
  // Half a pixel for a cell at least.
  const auto most_cells = static_cast<std::int64_t>(2 * side_of(columns_of(grid)));
  std::vector<HeatMap> maps;
  for (const HeatMap& given : grid.maps) {
    maps.push_back(largest_of_blocks(given, most_cells, most_cells));
    maps.back().low = grid.low;
    maps.back().high = grid.high;
    maps.back().numbers = CellNumbers::never;
    check(maps.back());
  }
  const std::string note = block_note(maps[0]);
  const Layout layout(grid, maps[0], note);
  Drawing drawing{.width = layout.width, .height = layout.height, .title = grid.title};
  if (drawing.title.empty()) drawing.title = "heat maps";
  drawing.description =
      std::to_string(maps.size()) + " heat maps from " + short_number(grid.low) + " to " + short_number(grid.high);
  add_title(drawing, grid.title);
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
                     .content = note,
                     .size = kSmallSize,
                     .color = Role::muted});
  return drawing;
}

}  // namespace rapt::pictures
