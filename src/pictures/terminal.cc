#include "pictures/terminal.h"

#include <algorithm>
#include <cmath>

#include "pictures/text.h"

namespace rapt::pictures {
namespace {

constexpr std::size_t kMaxLabel = 14;
constexpr std::size_t kMaxCell = 6;  // columns of one cell
constexpr const char* kRamp = " .:-=+*#%@";
constexpr std::size_t kRampSteps = 10;

std::string paint(int layer, Rgb c) {
  return "\x1b[" + std::to_string(layer) + ";2;" + std::to_string(c.red) + ";" + std::to_string(c.green) + ";" +
         std::to_string(c.blue) + "m";
}

double place(const HeatMap& map, std::int64_t i, std::int64_t j) {
  return (map.values[static_cast<std::size_t>(i * map.cols + j)] - map.low) / (map.high - map.low);
}

Rgb color(const HeatMap& map, std::int64_t i, std::int64_t j) {
  return color_of(map.values[static_cast<std::size_t>(i * map.cols + j)], map.low, map.high);
}

char shade(double t) {
  if (std::isnan(t)) return '?';
  return kRamp[static_cast<std::size_t>(std::lround(std::clamp(t, 0.0, 1.0) * (kRampSteps - 1)))];
}

std::string label_of(const std::vector<std::string>& labels, std::int64_t n, std::int64_t block) {
  return labels.empty() ? std::to_string(n * block + 1) : visible(labels[static_cast<std::size_t>(n)]);
}

std::size_t label_width(const HeatMap& map) {
  std::size_t most = 1;
  for (std::int64_t i = 0; i < map.rows; ++i)
    most = std::max(most, terminal_columns(label_of(map.row_labels, i, map.row_block)));
  return std::min(most, kMaxLabel);
}

// Column labels above the columns, if all fit.
std::string col_header(const HeatMap& map, std::size_t indent, std::size_t cell, bool rich) {
  std::string line(indent, ' ');
  for (std::int64_t j = 0; j < map.cols; ++j) {
    const std::string label = label_of(map.col_labels, j, map.col_block);
    if (terminal_columns(label) >= cell && map.cols > 1) return {};
    line += in_columns(label, cell, rich);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string scale_line(const HeatMap& map, std::size_t indent, bool rich) {
  std::string line(indent, ' ');
  const auto text = [&](double x) { return in_columns(short_number(x), terminal_columns(short_number(x)), rich); };
  line += text(map.low) + " ";
  for (std::size_t n = 0; n < kRampSteps * 2; ++n) {
    const double t = static_cast<double>(n) / (kRampSteps * 2 - 1);
    if (rich) line += paint(48, color_of(map.low + (map.high - map.low) * t, map.low, map.high)) + " ";
    else if (n % 2 == 0) line += kRamp[n / 2];
  }
  if (rich) line += "\x1b[0m";
  return line + " " + text(map.high) + "\n";
}

// A line of half blocks: the upper halves show one row of pixels, the lower halves the next.
std::string half_blocks(const HeatMap& map, std::size_t top, std::size_t cell) {
  std::string line;
  const std::size_t pixels = static_cast<std::size_t>(map.rows) * cell;
  for (std::int64_t j = 0; j < map.cols; ++j) {
    const Rgb upper = color(map, static_cast<std::int64_t>(top / cell), j);
    line += paint(38, upper);
    if (top + 1 < pixels) line += paint(48, color(map, static_cast<std::int64_t>((top + 1) / cell), j));
    else line += "\x1b[49m";
    for (std::size_t n = 0; n < cell; ++n) line += "▀";
  }
  return line + "\x1b[0m\n";
}

}  // namespace

std::string in_columns(const std::string& text, std::size_t columns, bool rich, bool right) {
  if (columns == 0) return {};
  std::string result;
  std::size_t used = 0;
  const bool fits = terminal_columns(text) <= columns;
  bool full = false;
  each_code(text, [&](char32_t code, std::string_view bytes) {
    const std::size_t width = terminal_columns(bytes);
    if (full || used + width > columns - (fits ? 0 : 1)) {
      full = true;
      return;
    }
    // The minus sign has an ASCII form; no other such character has one.
    if (rich || code < 0x80) result += bytes;
    else result += code == 0x2212 ? std::string("-") : std::string(width, '?');
    used += width;
  });
  if (!fits) {
    result += rich ? "…" : ".";
    ++used;
  }
  const std::string space(columns - std::min(columns, used), ' ');
  return right ? space + result : result + space;
}

std::string terminal_view(const HeatMap& given, const TerminalStyle& style) {
  check(given);
  const std::size_t columns = std::max<std::size_t>(style.columns, 20),
                    lines = std::max<std::size_t>(style.lines, 8) - 4;
  const auto most = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  const HeatMap map = largest_of_blocks(given, most(style.rich ? 2 * lines : lines), most(columns - kMaxLabel - 2));
  const std::size_t label = label_width(map), indent = label + 1;
  const auto cols = static_cast<std::size_t>(map.cols), rows = static_cast<std::size_t>(map.rows);
  std::string text;
  if (!map.title.empty()) {
    const std::string title = visible(map.title);
    text += in_columns(title, std::min(columns - 1, terminal_columns(title)), style.rich) + "\n";
  }
  const std::size_t widest_cell = std::clamp<std::size_t>((columns - indent) / cols, 1, kMaxCell);
  if (style.rich) {
    // A character is about twice as high as it is wide, so a half line is a square.
    const std::size_t cell = std::clamp<std::size_t>(std::min(widest_cell, 2 * lines / rows), 1, kMaxCell);
    text += col_header(map, indent, cell, true);
    for (std::size_t top = 0; top < rows * cell; top += 2) {
      const std::size_t row = top / cell;
      // Beside the line of its first pixels.
      const bool first = top == 0 || (top - 1) / cell != row || cell == 1;
      text += in_columns(first ? label_of(map.row_labels, most(row), map.row_block) : "", label, true, true) + " " +
              half_blocks(map, top, cell);
    }
  } else {
    const std::size_t cell = std::min<std::size_t>(widest_cell, 2);
    for (std::size_t i = 0; i < rows; ++i) {
      text += in_columns(label_of(map.row_labels, most(i), map.row_block), label, false, true) + " ";
      for (std::size_t j = 0; j < cols; ++j) text.append(cell, shade(place(map, most(i), most(j))));
      text += "\n";
    }
  }
  return text + scale_line(map, indent, style.rich);
}

}  // namespace rapt::pictures
