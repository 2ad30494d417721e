#include "pictures/heatmap.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attend/counted.h"
#include "pictures/fit.h"
#include "pictures/frame.h"
#include "pictures/heat_cells.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr std::int64_t kMaxCellsWithText = 12;
constexpr std::int64_t kMaxCellsWithTips = 64;
constexpr double kSide = 640;       // of the cells together, at most
constexpr double kLeastSide = 60;   // and in a narrow figure at least
constexpr double kMaxCell = 52;     // of one cell
constexpr double kShortSide = 120;  // least height of a map of few rows, cells permitting
constexpr double kLine = 15;        // height of a line of labels
constexpr double kLabelWidth = 110;
constexpr double kSlant = 0.7071;
constexpr double kLeastNumber = 7;  // size of numbers in the cells of a narrow figure

bool has_numbers(const HeatMap& map) {
  if (map.numbers != CellNumbers::automatic) return map.numbers == CellNumbers::always;
  return map.rows <= kMaxCellsWithText && map.cols <= kMaxCellsWithText;
}

// Half pixels are whole ones in a PNG at the default scale.
double half_pixels(double x) { return std::floor(2 * x) / 2; }

// The layout.
struct Layout {
  Box box;  // of the cells
  std::vector<CellLabel> rows, cols;
  bool slanted = false;  // column labels that are too long to lie side by side
  double col_label_height = 0;
  Box bar;
  double width = 0, height = 0;
  double col_title_y = 0;

  Layout(const HeatMap& map, double side) {
    const auto count = [](std::int64_t n) { return static_cast<double>(n); };
    const double most = count(std::max(map.rows, map.cols));
    double cell = std::clamp(half_pixels(side / most), 0.5, kMaxCell);
    if (has_numbers(map)) cell = std::max(cell, 34.0);
    double cell_width = std::max(cell, std::min(20.0, half_pixels(kShortSide / count(map.cols))));
    double cell_height = std::max(cell, std::min(20.0, half_pixels(kShortSide / count(map.rows))));
    if (map.width > 0) {
      // The width is given, and cells of any size fill it. Few rows are not drawn too flat, nor many too tall.
      cell_width = side / count(map.cols);
      if (has_numbers(map)) cell_width = std::max(cell_width, widest_number(map, kLeastNumber) / kNumberShare);
      const double tall = cell_width * count(map.rows);
      cell_height =
          std::clamp(tall, std::min(kShortSide, 20 * count(map.rows)), std::max(1.4 * side, 300.0)) / count(map.rows);
    }

    // Numbers need not be on every row that has room.
    const double row_room = map.row_labels.empty() && cell_height < kLine ? 2 * kLine : kLine;
    rows = cell_labels(map.row_labels, map.rows, map.row_block, cell_height, row_room, kLabelSize, kLabelWidth);
    place_col_labels(map, cell_width);

    box.width = cell_width * count(map.cols);
    box.height = cell_height * count(map.rows);
    box.x = std::ceil(kMargin + (map.row_title.empty() ? 0 : 22) + widest(rows, kLabelSize) + 8);
    bar = {box.right() + 20, 0, 14, std::max(box.height, 96.0)};
    const double bar_end = bar.right() + color_bar_labels(map.low, map.high, bar.height);
    width = std::ceil(std::max(bar_end, labels_end()) + kMargin);
    // A long title should not wrap just because the map has few cells.
    if (map.width == 0)
      width = std::max({width, std::min(420.0, text_width(visible(map.title), kTitleSize) + 2 * kMargin),
                        std::ceil(text_width(block_note(map), kSmallSize) + 2 * kMargin)});

    double top = title_height(map.title, width);
    col_title_y = top + 8;
    if (!map.col_title.empty()) top += 22;
    box.y = bar.y = std::ceil(top + col_label_height);
    height = std::ceil(std::max(box.bottom(), bar.bottom()) + (block_note(map).empty() ? kMargin : 38));
  }

  void place_col_labels(const HeatMap& map, double cell_width) {
    const auto labels = [&](double room) {
      return cell_labels(map.col_labels, map.cols, map.col_block, cell_width, room, kLabelSize, kLabelWidth);
    };
    cols = labels(0);
    const double longest = widest(cols, kLabelSize) + 6;
    slanted = !map.col_labels.empty() && longest > cell_width;
    cols = labels(slanted ? kLine / kSlant : longest);
    const double along = widest(cols, kLabelSize);
    col_label_height = slanted ? kSlant * (along + kLabelSize) + 10 : 24;
    cell_ = cell_width;
  }

  // The right end of the last slanted labels.
  double labels_end() const {
    double end = 0;
    for (const CellLabel& label : cols) {
      const double length = text_width(label.text, kLabelSize);
      end = std::max(end, box.x + cell_ * label.at + (slanted ? kSlant * length + 6 : length / 2));
    }
    return end;
  }

 private:
  double cell_ = 0;
};

void add_labels(const HeatMap& map, const Layout& layout, Drawing& drawing) {
  const Box& box = layout.box;
  const double cell_width = box.width / static_cast<double>(map.cols);
  const double cell_height = box.height / static_cast<double>(map.rows);
  for (const CellLabel& label : layout.rows)
    drawing.add(Text{.kind = "row-label",
                     .at = {box.x - 8, box.y + cell_height * label.at + 4.3},
                     .content = label.text,
                     .anchor = Anchor::end});
  for (const CellLabel& label : layout.cols) {
    const double x = box.x + cell_width * label.at;
    if (layout.slanted)
      drawing.add(Text{.kind = "col-label", .at = {x + 2, box.y - 8}, .content = label.text, .degrees = -45});
    else drawing.add(Text{.kind = "col-label", .at = {x, box.y - 8}, .content = label.text, .anchor = Anchor::middle});
  }
  const auto title = [](const std::string& text, double room) {
    return clipped(visible(text), kLabelSize, std::max(room, 120.0));
  };
  if (!map.col_title.empty())
    drawing.add(Text{.kind = "col-title",
                     .at = {box.x, layout.col_title_y + 4},
                     .content = title(map.col_title, drawing.width - box.x - kMargin),
                     .color = Role::muted});
  if (!map.row_title.empty())
    drawing.add(Text{.kind = "row-title",
                     .at = {kMargin + 10, box.y + std::max(box.height, 60.0) / 2},
                     .content = title(map.row_title, box.height),
                     .anchor = Anchor::middle,
                     .degrees = -90,
                     .color = Role::muted});
}

template <class T>
Drawing weights_map(std::span<const T> weights, std::span<const std::string> source,
                    std::span<const std::string> target, const std::string& title) {
  HeatMap map;
  map.title = title;
  map.rows = static_cast<std::int64_t>(target.size());
  map.cols = static_cast<std::int64_t>(source.size());
  map.values.assign(weights.begin(), weights.end());
  map.row_labels.assign(target.begin(), target.end());
  map.col_labels.assign(source.begin(), source.end());
  map.row_title = "target";
  map.col_title = "source";
  map.numbers = CellNumbers::never;
  return draw(map);
}

}  // namespace

void check(const HeatMap& map) {
  const auto fail = [](const std::string& what) { throw Error("heat map: " + what); };
  if (map.rows < 1 || map.cols < 1) fail("expected at least one row and one column, got none");
  if (map.values.size() / static_cast<std::size_t>(map.cols) != static_cast<std::size_t>(map.rows) ||
      map.values.size() % static_cast<std::size_t>(map.cols) != 0)
    fail("expected " + std::to_string(map.rows) + " × " + std::to_string(map.cols) +
         (map.rows * map.cols == 1 ? " number, got " : " numbers, got ") + std::to_string(map.values.size()));
  const auto check_labels = [&](const std::vector<std::string>& labels, std::int64_t count, const char* what) {
    if (!labels.empty() && static_cast<std::int64_t>(labels.size()) != count)
      fail("expected " + counted(count, "label") + " of " + what + ", got " + std::to_string(labels.size()));
  };
  check_labels(map.row_labels, map.rows, "rows");
  check_labels(map.col_labels, map.cols, "columns");
  if (!(map.low < map.high) || !std::isfinite(map.high - map.low))
    fail("expected finite limits of the colours, the low one below the high one, got " + short_number(map.low) +
         " and " + short_number(map.high));
  if (map.row_block < 1 || map.col_block < 1)
    fail("expected blocks of at least one row and one column, got " + std::to_string(map.row_block) + " × " +
         std::to_string(map.col_block));
  if (map.numbers == CellNumbers::always && std::max(map.rows, map.cols) > kMaxNumberedCells)
    fail("expected at most " + std::to_string(kMaxNumberedCells) + " cells each way where numbers are shown, got " +
         std::to_string(map.rows) + " × " + std::to_string(map.cols));
}

std::pair<double, double> color_range(std::span<const double> values) {
  double low = 0, high = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low == high) return {0, 1};
  return {low, high};
}

HeatMap largest_of_blocks(const HeatMap& map, std::int64_t most_rows, std::int64_t most_cols) {
  const std::int64_t row_block = (map.rows + most_rows - 1) / most_rows;
  const std::int64_t col_block = (map.cols + most_cols - 1) / most_cols;
  if (row_block == 1 && col_block == 1) return map;
  HeatMap result;
  result.title = map.title;
  result.row_title = map.row_title;
  result.col_title = map.col_title;
  result.width = map.width;
  result.low = map.low;
  result.high = map.high;
  result.numbers = map.numbers;
  result.row_block = map.row_block * row_block;
  result.col_block = map.col_block * col_block;
  result.rows = (map.rows + row_block - 1) / row_block;
  result.cols = (map.cols + col_block - 1) / col_block;
  const auto below = [](double x) { return x < 0; };
  const auto above = [](double x) { return x > 0; };
  result.farthest = map.farthest || (std::any_of(map.values.begin(), map.values.end(), below) &&
                                     std::any_of(map.values.begin(), map.values.end(), above));
  result.values.assign(static_cast<std::size_t>(result.rows * result.cols), std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t i = 0; i < map.rows; ++i)
    for (std::int64_t j = 0; j < map.cols; ++j) {
      const double value = map.values[static_cast<std::size_t>(i * map.cols + j)];
      double& kept = result.values[static_cast<std::size_t>(i / row_block * result.cols + j / col_block)];
      // fmax prefers any number to a missing one.
      if (!result.farthest) kept = std::fmax(kept, value);
      else if (std::isnan(kept) || std::abs(value) > std::abs(kept)) kept = value;
    }
  const auto keep = [](const std::vector<std::string>& labels, std::int64_t block) {
    std::vector<std::string> kept;
    for (std::size_t n = 0; n < labels.size(); n += static_cast<std::size_t>(block)) kept.push_back(labels[n]);
    return kept;
  };
  result.row_labels = keep(map.row_labels, row_block);
  result.col_labels = keep(map.col_labels, col_block);
  return result;
}

namespace {

Drawing draw_at(const HeatMap& map, double side) {
  const Layout layout(map, side);
  Drawing drawing{.width = layout.width, .height = layout.height, .title = map.title};
  if (drawing.title.empty()) drawing.title = "heat map";
  drawing.description = std::to_string(map.rows) + " × " + std::to_string(map.cols) +
                        (map.rows * map.cols == 1 ? " cell from " : " cells from ") + short_number(map.low) + " to " +
                        short_number(map.high);
  add_title(drawing, map.title);
  const CellStyle style{.as_image = map.rows * map.cols > kMaxRects,
                        .tips = map.rows <= kMaxCellsWithTips && map.cols <= kMaxCellsWithTips,
                        .numbers = has_numbers(map)};
  drawing.add(cells_of(map, layout.box, style));
  drawing.add(color_bar(map.low, map.high, layout.bar));
  add_labels(map, layout, drawing);
  const std::string note = block_note(map);
  if (!note.empty())
    drawing.add(Text{.kind = "note",
                     .at = {kMargin, layout.height - 12},
                     .content = clipped(note, kSmallSize, layout.width - 2 * kMargin),
                     .size = kSmallSize,
                     .color = Role::muted});
  return drawing;
}

}  // namespace

Drawing draw(const HeatMap& map) {
  check(map);
  if (map.rows > kMaxCells || map.cols > kMaxCells) return draw(largest_of_blocks(map, kMaxCells, kMaxCells));
  return fitted(map.width, kSide, kLeastSide, [&](double side) { return draw_at(map, side); });
}

Drawing heat_map(std::span<const double> weights, std::span<const std::string> source_tokens,
                 std::span<const std::string> target_tokens, const std::string& title) {
  return weights_map(weights, source_tokens, target_tokens, title);
}

Drawing heat_map(std::span<const float> weights, std::span<const std::string> source_tokens,
                 std::span<const std::string> target_tokens, const std::string& title) {
  return weights_map(weights, source_tokens, target_tokens, title);
}

}  // namespace rapt::pictures
