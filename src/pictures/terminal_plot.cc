#include <algorithm>
#include <array>
#include <cmath>

#include "pictures/axis.h"
#include "pictures/terminal.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr const char* kMarks = "*o+x#@%&";

std::string colored(std::size_t series, const std::string& text) {
  const Rgb c = theme_color(look_of(series).color, true);
  return "\x1b[38;2;" + std::to_string(c.red) + ";" + std::to_string(c.green) + ";" + std::to_string(c.blue) + "m" +
         text + "\x1b[0m";
}

// Dots on a grid of characters: 2 × 4 per character in Braille, one in ASCII. The last series with a dot there gives
// the colour.
class Canvas {
 public:
  Canvas(std::size_t columns, std::size_t lines, bool rich)
      : columns_(columns), lines_(lines), rich_(rich), dots_(columns * lines), series_(columns * lines) {}

  double width() const { return static_cast<double>(columns_ * (rich_ ? 2 : 1) - 1); }
  double height() const { return static_cast<double>(lines_ * (rich_ ? 4 : 1) - 1); }

  void line(Point a, Point b, std::size_t series) {
    const double steps = std::max({std::abs(b.x - a.x), std::abs(b.y - a.y), 1.0});
    for (double n = 0; n <= steps; ++n) dot({std::lerp(a.x, b.x, n / steps), std::lerp(a.y, b.y, n / steps)}, series);
  }

  void dot(Point p, std::size_t series) {
    const auto x = static_cast<std::size_t>(std::clamp(std::round(p.x), 0.0, width()));
    const auto y = static_cast<std::size_t>(std::clamp(std::round(p.y), 0.0, height()));
    constexpr std::array<std::array<unsigned, 2>, 4> kBits{{{1, 8}, {2, 16}, {4, 32}, {64, 128}}};
    const std::size_t at = rich_ ? y / 4 * columns_ + x / 2 : y * columns_ + x;
    dots_[at] |= rich_ ? kBits[y % 4][x % 2] : 1;
    series_[at] = series;
  }

  std::string text(std::size_t line) const {
    std::string result;
    for (std::size_t n = line * columns_; n < (line + 1) * columns_; ++n) {
      if (dots_[n] == 0) result += ' ';
      else if (rich_) result += colored(series_[n], braille(dots_[n]));
      else result += kMarks[series_[n] % 8];
    }
    return result;
  }

 private:
  // U+2800 and the dots, in UTF-8.
  static std::string braille(unsigned dots) {
    return {'\xe2', static_cast<char>(0xa0 | (dots >> 6)), static_cast<char>(0x80 | (dots & 63))};
  }

  std::size_t columns_, lines_;
  bool rich_;
  std::vector<unsigned> dots_;
  std::vector<std::size_t> series_;
};

std::string title_line(const std::string& title, std::size_t columns, bool rich) {
  const std::string text = visible(title);
  return text.empty() ? "" : in_columns(text, std::min(columns, terminal_columns(text)), rich) + "\n";
}

void draw_series(Canvas& canvas, const Series& series, std::size_t n, const Scale& x, const Scale& y) {
  bool before = false;
  Point last;
  for (std::size_t k = 0; k < series.x.size(); ++k) {
    const bool shown = std::isfinite(series.x[k]) && std::isfinite(series.y[k]) && !(x.log && series.x[k] <= 0) &&
                       !(y.log && series.y[k] <= 0);
    if (shown) {
      const Point p{x.at(series.x[k]), y.at(series.y[k])};
      canvas.line(before ? last : p, p, n);
      last = p;
    }
    before = shown;
  }
}

}  // namespace

std::string terminal_view(const Curves& curves, const TerminalStyle& style) {
  draw(curves);  // for its checks of the data
  const std::size_t columns = std::max<std::size_t>(style.columns, 40) - 1;
  const std::size_t lines = std::clamp<std::size_t>(style.lines, 12, 40) - 6;
  constexpr std::size_t kLabel = 9;
  Canvas canvas(columns - kLabel - 1, lines, style.rich);
  std::vector<double> xs, ys;
  for (const Series& series : curves.series) {
    xs.insert(xs.end(), series.x.begin(), series.x.end());
    ys.insert(ys.end(), series.y.begin(), series.y.end());
  }
  Scale x = scale_of(xs, curves.log_x), y = scale_of(ys, curves.log_y);
  x.to = canvas.width();
  y.from = canvas.height();
  y.to = 0;
  for (std::size_t n = 0; n < curves.series.size(); ++n) draw_series(canvas, curves.series[n], n, x, y);

  std::string text = title_line(curves.title, columns, style.rich);
  for (std::size_t line = 0; line < lines; ++line) {
    const std::string label = line == 0 ? short_number(y.high) : line + 1 == lines ? short_number(y.low) : "";
    text += in_columns(label, kLabel, style.rich, true) + (style.rich ? "│" : "|") + canvas.text(line) + "\n";
  }
  const std::string right = short_number(x.high);
  const std::size_t room = columns - kLabel - 1 - std::min(columns - kLabel - 1, terminal_columns(right));
  text += std::string(kLabel + 1, ' ') + in_columns(short_number(x.low), room, style.rich) +
          in_columns(right, terminal_columns(right), style.rich) + "\n";
  for (std::size_t n = 0; n < curves.series.size(); ++n) {
    const std::string name = visible(curves.series[n].name);
    const std::string mark = style.rich ? colored(n, "━━") : std::string(1, kMarks[n % 8]);
    text += "  " + mark + " " + in_columns(name, std::min(columns - 6, terminal_columns(name)), style.rich) + "\n";
  }
  return text;
}

std::string terminal_view(const Bars& bars, const TerminalStyle& style) {
  draw(bars);
  const NumberFormat numbers = bar_numbers(bars);
  const std::size_t columns = std::max<std::size_t>(style.columns, 40) - 1;
  std::size_t label = 1;
  double largest = 0;
  const auto name_of = [&](std::size_t group, std::size_t n) {
    const std::string group_name = visible(bars.groups[group]);
    return bars.series.size() == 1 ? group_name : group_name + ", " + visible(bars.series[n].name);
  };
  for (std::size_t g = 0; g < bars.groups.size(); ++g)
    for (std::size_t n = 0; n < bars.series.size(); ++n) {
      label = std::max(label, terminal_columns(name_of(g, n)));
      if (std::isfinite(bars.series[n].values[g])) largest = std::max(largest, std::abs(bars.series[n].values[g]));
    }
  label = std::min(label, columns / 2);
  const std::size_t room = columns - label - 12;
  std::string text = title_line(bars.title, columns, style.rich);
  for (std::size_t g = 0; g < bars.groups.size(); ++g)
    for (std::size_t n = 0; n < bars.series.size(); ++n) {
      const double value = bars.series[n].values[g];
      const bool shown = std::isfinite(value);
      const auto length = static_cast<std::size_t>(
          shown && largest > 0 ? std::lround(std::abs(value) / largest * static_cast<double>(room)) : 0);
      std::string bar;
      for (std::size_t k = 0; k < length; ++k) bar += style.rich ? "█" : "#";
      const std::string number_text = shown ? numbers.text(value) : "-";
      text += in_columns(name_of(g, n), label, style.rich) + " " + (style.rich ? colored(n, bar) : bar) + " " +
              in_columns(number_text, terminal_columns(number_text), style.rich) + "\n";
    }
  return text;
}

}  // namespace rapt::pictures
