#include "pictures/heatmap.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "rapt/error.h"

namespace rapt::pictures {
namespace {

// Oklab: a Euclidean distance in it is about as large as the difference that is seen.
struct Oklab {
  double lightness, green_red, blue_yellow;
};

// Steps of equal length, nearly all of it lightness; green–red stays near 0.
constexpr std::array<Oklab, 6> kAnchors{{{0.235, -0.010, -0.085},
                                         {0.375, -0.012, -0.080},
                                         {0.510, -0.014, -0.030},
                                         {0.640, -0.012, 0.025},
                                         {0.780, -0.010, 0.080},
                                         {0.925, -0.018, 0.135}}};
constexpr Rgb kMissing{200, 200, 200};

constexpr std::int64_t kMaxCellsWithText = 12;
constexpr std::int64_t kMaxCellsWithTips = 64;
constexpr double kLetter = 7;  // width of a letter of a label, about
constexpr double kLine = 14;   // and its height
constexpr std::size_t kMaxLabelLength = 16;
constexpr int kBarSteps = 64;

std::uint8_t to_byte(double linear) {
  const double x = std::clamp(linear, 0.0, 1.0);
  const double encoded = x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1 / 2.4) - 0.055;
  return static_cast<std::uint8_t>(std::lround(encoded * 255));
}

Rgb to_rgb(const Oklab& c) {
  const double l = std::pow(c.lightness + 0.3963377774 * c.green_red + 0.2158037573 * c.blue_yellow, 3);
  const double m = std::pow(c.lightness - 0.1055613458 * c.green_red - 0.0638541728 * c.blue_yellow, 3);
  const double s = std::pow(c.lightness - 0.0894841775 * c.green_red - 1.2914855480 * c.blue_yellow, 3);
  return {to_byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          to_byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          to_byte(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

std::string number(double x, int decimals = 1) {
  char text[64];
  auto end = std::to_chars(text, text + sizeof text, x, std::chars_format::fixed, decimals).ptr;
  while (decimals > 0 && *(end - 1) == '0') --end;
  if (*(end - 1) == '.') --end;
  return {text, end};
}

// Two digits that count: 0.47, 0.035, 4.8e-5.
std::string short_number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "−∞" : "∞";
  const double size = std::abs(x);
  char text[64];
  if (x == std::round(x) && size < 1e4) return number(x, 0);
  if (size >= 1e-3 && size < 1e4) {
    const int decimals = std::max(size < 10 ? 2 : 0, 1 - static_cast<int>(std::floor(std::log10(size))));
    const auto end = std::to_chars(text, text + sizeof text, x, std::chars_format::fixed, decimals).ptr;
    return {text, end};
  }
  const auto end = std::to_chars(text, text + sizeof text, x, std::chars_format::scientific, 0).ptr;
  std::string result(text, end);
  // e-05 → e-5
  const std::size_t e = result.find('e');
  if (e + 2 < result.size() && result[e + 2] == '0') result.erase(e + 2, 1);
  return result;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The first characters of a long label; never half of one.
std::string shortened(const std::string& label) {
  if (characters(label) <= kMaxLabelLength) return label;
  std::size_t end = 0;
  for (std::size_t count = 0; end < label.size(); ++end)
    if ((label[end] & 0xC0) != 0x80 && count++ == kMaxLabelLength - 1) break;
  return label.substr(0, end) + "…";
}

// How many bytes of a valid UTF-8 character start here; 0: none does.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t n) { return at + n < text.size() ? static_cast<unsigned char>(text[at + n]) : 0u; };
  const auto follows = [&](std::size_t n) { return (byte(n) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0 && follows(1)) return 2;
  if (first >= 0xE0 && first < 0xF0 && follows(1) && follows(2)) {
    const unsigned code = ((first & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F);
    const bool allowed = code >= 0x800 && (code < 0xD800 || code > 0xDFFF) && code < 0xFFFE;
    return allowed ? 3 : 0;
  }
  if (first >= 0xF0 && first < 0xF5 && follows(1) && follows(2) && follows(3)) {
    const unsigned code = ((first & 0x07) << 18) | ((byte(1) & 0x3F) << 12);
    return code >= 0x10000 && code <= 0x10FFFF ? 4 : 0;
  }
  return 0;
}

class Svg {
 public:
  void open(double width, double height, const std::string& title) {
    text_ += "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" + number(height) +
             "\" viewBox=\"0 0 " + number(width) + " " + number(height) +
             "\" role=\"img\" font-family=\"sans-serif\">\n<title>" + xml_text(title) + "</title>\n";
    text_ += "<rect class=\"page\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  }
  void rect(const char* kind, double x, double y, double width, double height, Rgb fill, const std::string& tip = "") {
    text_ += std::string("<rect class=\"") + kind + "\" x=\"" + number(x, 2) + "\" y=\"" + number(y, 2) +
             "\" width=\"" + number(width, 2) + "\" height=\"" + number(height, 2) + "\" fill=\"" + hex(fill) + "\"";
    text_ += tip.empty() ? "/>\n" : "><title>" + xml_text(tip) + "</title></rect>\n";
  }
  void label(const char* kind, double x, double y, const char* anchor, double size, const std::string& content,
             const std::string& more = "") {
    text_ += std::string("<text class=\"") + kind + "\" x=\"" + number(x, 2) + "\" y=\"" + number(y, 2) +
             "\" text-anchor=\"" + anchor + "\" font-size=\"" + number(size) + "\"" + more + ">" + xml_text(content) +
             "</text>\n";
  }
  void raw(const std::string& mark) { text_ += mark; }
  std::string close() { return text_ + "</svg>\n"; }

 private:
  std::string text_;
};

std::string label_of(const std::vector<std::string>& labels, std::int64_t n) {
  return labels.empty() ? std::to_string(n + 1) : labels[static_cast<std::size_t>(n)];
}

double widest(const std::vector<std::string>& labels, std::int64_t count) {
  std::size_t most = 1;
  for (std::int64_t n = 0; n < count; ++n) most = std::max(most, characters(shortened(label_of(labels, n))));
  return static_cast<double>(most);
}

void check(const HeatMap& map) {
  const auto fail = [](const std::string& what) { throw Error("heat map: " + what); };
  if (map.rows < 1 || map.cols < 1) fail("needs at least one row and one column");
  if (static_cast<std::int64_t>(map.values.size()) != map.rows * map.cols)
    fail("has " + std::to_string(map.values.size()) + " numbers for " + std::to_string(map.rows) + " × " +
         std::to_string(map.cols) + " cells");
  if (!map.row_labels.empty() && static_cast<std::int64_t>(map.row_labels.size()) != map.rows)
    fail("needs a label for each row");
  if (!map.col_labels.empty() && static_cast<std::int64_t>(map.col_labels.size()) != map.cols)
    fail("needs a label for each column");
  if (!(map.low < map.high)) fail("low must be below high");
}

// Where everything lies, in pixels.
struct Layout {
  double cell, left, top, right, width, height;
  bool slanted;  // column labels that are too long to lie side by side

  explicit Layout(const HeatMap& map) {
    const auto longest = static_cast<double>(std::max(map.rows, map.cols));
    cell = std::clamp(std::floor(560 / longest), 2.0, 52.0);
    const double row_label = kLetter * widest(map.row_labels, map.rows);
    const double col_label = kLetter * widest(map.col_labels, map.cols);
    slanted = col_label > cell && !map.col_labels.empty();
    left = 16 + (map.row_title.empty() ? 0 : 20) + row_label + 8;
    top = 44 + (map.col_title.empty() ? 0 : 20) + (slanted ? 0.75 * col_label + 10 : 18);
    right = left + cell * static_cast<double>(map.cols);
    // Room for the colour bar and its numbers, and for a slanted last label; the title may ask for more.
    const double bar_end = right + 24 + 16 + 52;
    const double slant_end = slanted ? right + 0.75 * col_label : 0;
    width = std::max({bar_end, slant_end, 16 + 8.2 * static_cast<double>(characters(map.title)) + 16});
    height = top + std::max(cell * static_cast<double>(map.rows), 96.0) + 24;
  }
};

void draw_cells(const HeatMap& map, const Layout& layout, Svg& svg) {
  const bool tips = map.rows <= kMaxCellsWithTips && map.cols <= kMaxCellsWithTips;
  const bool numbers = map.rows <= kMaxCellsWithText && map.cols <= kMaxCellsWithText;
  for (std::int64_t i = 0; i < map.rows; ++i)
    for (std::int64_t j = 0; j < map.cols; ++j) {
      const double value = map.values[static_cast<std::size_t>(i * map.cols + j)];
      const double place = (value - map.low) / (map.high - map.low);
      const double x = layout.left + layout.cell * static_cast<double>(j);
      const double y = layout.top + layout.cell * static_cast<double>(i);
      std::string tip;
      if (tips) {
        char exact[40];
        const auto end = std::to_chars(exact, exact + sizeof exact, value, std::chars_format::general, 8).ptr;
        tip = label_of(map.row_labels, i) + " → " + label_of(map.col_labels, j) + ": " + std::string(exact, end);
      }
      svg.rect("cell", x, y, layout.cell, layout.cell, color_at(place), tip);
      if (!numbers) continue;
      const std::string content = short_number(value);
      // Dark on light cells and light on dark ones.
      const std::string ink = std::isnan(place) || place > 0.55 ? "#111111" : "#ffffff";
      const double size =
          std::min(12.0, 1.55 * layout.cell / std::max<double>(4, static_cast<double>(characters(content))));
      svg.label("value", x + layout.cell / 2, y + layout.cell / 2 + size * 0.35, "middle", size, content,
                " fill=\"" + ink + "\" pointer-events=\"none\"");
    }
}

void draw_labels(const HeatMap& map, const Layout& layout, Svg& svg) {
  svg.label("title", 16, 26, "start", 15, map.title);
  // Every n-th label where not all of them have room.
  const auto step = [&](double room) { return static_cast<std::int64_t>(std::ceil(room / layout.cell)); };
  const std::int64_t row_step = step(kLine);
  const std::int64_t col_step = layout.slanted ? row_step : step(kLetter * widest(map.col_labels, map.cols) + 4);
  for (std::int64_t i = 0; i < map.rows; i += row_step)
    svg.label("row-label", layout.left - 8, layout.top + layout.cell * (static_cast<double>(i) + 0.5) + 4, "end", 12,
              shortened(label_of(map.row_labels, i)));
  for (std::int64_t j = 0; j < map.cols; j += col_step) {
    const double x = layout.left + layout.cell * (static_cast<double>(j) + 0.5);
    const double y = layout.top - 8;
    std::string turn;
    if (layout.slanted) turn = " transform=\"rotate(-45 " + number(x, 2) + " " + number(y, 2) + ")\"";
    svg.label("col-label", x, y, layout.slanted ? "start" : "middle", 12, shortened(label_of(map.col_labels, j)), turn);
  }
  const double bottom = layout.top + layout.cell * static_cast<double>(map.rows);
  if (!map.col_title.empty())
    svg.label("col-title", (layout.left + layout.right) / 2, 50, "middle", 12, map.col_title, " fill=\"#555555\"");
  if (!map.row_title.empty()) {
    const double y = (layout.top + bottom) / 2;
    svg.label("row-title", 22, y, "middle", 12, map.row_title,
              " fill=\"#555555\" transform=\"rotate(-90 22 " + number(y, 2) + ")\"");
  }
}

void draw_bar(const HeatMap& map, const Layout& layout, Svg& svg) {
  const double x = layout.right + 24;
  const double height = std::max(layout.cell * static_cast<double>(map.rows), 96.0);
  const double step = height / kBarSteps;
  for (int n = 0; n < kBarSteps; ++n)
    // A little taller than a step, so that no gap shows between two.
    svg.rect("bar", x, layout.top + height - step * (n + 1), 16, n == 0 ? step : step + 0.5,
             color_at((n + 0.5) / kBarSteps));
  for (const double t : {0.0, 0.25, 0.5, 0.75, 1.0})
    svg.label("bar-label", x + 22, layout.top + height * (1 - t) + 4, "start", 11,
              short_number(map.low + t * (map.high - map.low)));
}

}  // namespace

Rgb color_at(double t) {
  if (std::isnan(t)) return kMissing;
  const double place = std::clamp(t, 0.0, 1.0) * (kAnchors.size() - 1);
  const auto n = std::min(static_cast<std::size_t>(place), kAnchors.size() - 2);
  const double f = place - static_cast<double>(n);
  const Oklab& a = kAnchors[n];
  const Oklab& b = kAnchors[n + 1];
  return to_rgb({std::lerp(a.lightness, b.lightness, f), std::lerp(a.green_red, b.green_red, f),
                 std::lerp(a.blue_yellow, b.blue_yellow, f)});
}

std::string hex(Rgb color) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string result = "#";
  for (const std::uint8_t part : {color.red, color.green, color.blue}) {
    result += kDigits[part >> 4];
    result += kDigits[part & 15];
  }
  return result;
}

std::string xml_text(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    const char c = text[at];
    if (length == 0 || (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F))) result += "\uFFFD";
    else if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '"') result += "&quot;";
    else if (c == '\'') result += "&#39;";
    else result += text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return result;
}

std::string heat_map_svg(const HeatMap& map) {
  check(map);
  const Layout layout(map);
  Svg svg;
  svg.open(layout.width, layout.height, map.title);
  // Neighbouring cells must not show a seam.
  svg.raw("<g shape-rendering=\"crispEdges\">\n");
  draw_cells(map, layout, svg);
  draw_bar(map, layout, svg);
  svg.raw("</g>\n");
  draw_labels(map, layout, svg);
  return svg.close();
}

}  // namespace rapt::pictures
