#include "pictures/image_sheet.h"

#include <algorithm>
#include <cmath>

#include "pictures/fit.h"
#include "pictures/text.h"

namespace rapt::pictures {
namespace {

constexpr double kTile = 128;
constexpr double kLeastTile = 24;
constexpr double kGap = 10;
constexpr double kColumnTitle = 20;

const Tile& tile_at(const ImageSheet& sheet, std::size_t row, std::size_t col) {
  return sheet.tiles[row * sheet.columns.size() + col];
}

std::string colored(Rgb color, const char* layer) {
  return std::string("\x1b[") + layer + ";2;" + std::to_string(color.red) + ";" + std::to_string(color.green) + ";" +
         std::to_string(color.blue) + "m";
}

Drawing draw_at(const ImageSheet& sheet, double tile_side) {
  const auto cols = static_cast<double>(sheet.columns.size());
  const auto rows = static_cast<double>(sheet.rows.size());
  double names = 0;
  for (const std::string& name : sheet.rows) names = std::max(names, text_width(name, kLabelSize));
  const double left = kMargin + names + (names > 0 ? kGap : 0);
  const bool below = legend_goes_below(sheet.legend, sheet.width);
  const double legend = below ? 0 : legend_width(sheet.legend);
  Drawing drawing;
  drawing.width = left + cols * tile_side + (cols - 1) * kGap + legend + kMargin;
  drawing.title = sheet.title;
  const double top = add_title(drawing, sheet.title) + kColumnTitle;
  const double height = rows * tile_side + (rows - 1) * kGap;
  const std::size_t columns = below ? legend_columns(sheet.legend, drawing.width) : 1;
  const double keys = legend_height(sheet.legend, columns);
  drawing.height = top + (below ? height + kGap + keys : std::max(height, keys)) + kMargin;
  for (std::size_t c = 0; c < sheet.columns.size(); ++c)
    drawing.add(Text{"column",
                     {left + static_cast<double>(c) * (tile_side + kGap) + tile_side / 2, top - 7},
                     clipped(sheet.columns[c], kLabelSize, tile_side + kGap - 2),
                     kLabelSize,
                     Anchor::middle});
  for (std::size_t r = 0; r < sheet.rows.size(); ++r) {
    const double y = top + static_cast<double>(r) * (tile_side + kGap);
    drawing.add(Text{"row", {left - kGap, y + tile_side / 2 + 4}, sheet.rows[r], kLabelSize, Anchor::end});
    for (std::size_t c = 0; c < sheet.columns.size(); ++c) {
      const Tile& tile = tile_at(sheet, r, c);
      if (tile.pixels.empty()) continue;
      drawing.add(Cells{"tile",
                        {left + static_cast<double>(c) * (tile_side + kGap), y, tile_side, tile_side},
                        tile.rows,
                        tile.cols,
                        tile.pixels});
    }
  }
  if (below) add_legend(drawing, sheet.legend, kMargin, top + height + kGap, columns);
  else if (!sheet.legend.empty()) add_legend(drawing, sheet.legend, drawing.width - kMargin - legend, top);
  return drawing;
}

}  // namespace

Drawing draw(const ImageSheet& sheet) {
  return fitted(sheet.width, kTile, kLeastTile, [&](double side) { return draw_at(sheet, side); });
}

std::string terminal_view(const ImageSheet& sheet, const TerminalStyle& style) {
  std::string text = sheet.title.empty() ? "" : sheet.title + "\n";
  const std::size_t cols = sheet.columns.size();
  const std::size_t width =
      std::max<std::size_t>(4, std::min<std::size_t>(24, style.columns / std::max<std::size_t>(1, cols)) - 1);
  for (std::size_t r = 0; r < sheet.rows.size(); ++r) {
    text += sheet.rows[r] + "\n";
    for (const std::string& column : sheet.columns) text += in_columns(column, width, style.rich) + " ";
    text += "\n";
    // Two rows of pixels per line.
    for (std::size_t line = 0; line < width / 2; ++line) {
      for (std::size_t c = 0; c < cols; ++c) {
        const Tile& tile = tile_at(sheet, r, c);
        for (std::size_t x = 0; x < width; ++x) {
          if (tile.pixels.empty()) {
            text += " ";
            continue;
          }
          const auto at = [&](std::size_t y) {
            const auto row = static_cast<std::int64_t>(y) * tile.rows / static_cast<std::int64_t>(width / 2 * 2);
            const auto col = static_cast<std::int64_t>(x) * tile.cols / static_cast<std::int64_t>(width);
            return tile.pixels[static_cast<std::size_t>(row * tile.cols + col)];
          };
          if (style.rich) text += colored(at(2 * line), "38") + colored(at(2 * line + 1), "48") + "▀";
          else
            text += std::string(1, " .:-=+*#%@"[static_cast<std::size_t>(9.99 * std::sqrt(luminance(at(2 * line))))]);
        }
        if (style.rich && !tile.pixels.empty()) text += "\x1b[0m";
        text += " ";
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace rapt::pictures
