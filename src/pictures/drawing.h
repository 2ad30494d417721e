#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "pictures/color.h"

// A picture in memory: shapes with coordinates in pixels from the top left. It knows nothing of files; to_svg() writes
// it as SVG, from which pictures/png.h makes the PNG.
namespace rapt::pictures {

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

// Colours that change between light and dark pages; `fixed` ones do not.
enum class Role : std::uint8_t { fixed, page, ink, muted, axis, grid };

struct Color {
  Color(Rgb color) : rgb(color) {}    // NOLINT: a colour is a colour
  Color(Role which) : role(which) {}  // NOLINT
  Role role = Role::fixed;
  Rgb rgb;
};

// Lengths of dashes and gaps in turn, up to four; none: a line without gaps.
class Dashes {
 public:
  constexpr Dashes() = default;
  constexpr Dashes(std::initializer_list<double> lengths) {
    for (const double length : lengths)
      if (count_ < lengths_.size()) lengths_[count_++] = length;
  }
  std::span<const double> lengths() const { return {lengths_.data(), count_}; }
  friend auto operator<=>(const Dashes&, const Dashes&) = default;

 private:
  std::array<double, 4> lengths_{};
  std::size_t count_ = 0;
};

struct Stroke {
  Color color = Role::axis;
  double width = 1;
  Dashes dashes = {};
};

struct Style {
  std::optional<Color> fill = std::nullopt;
  std::optional<Stroke> stroke = std::nullopt;
  double opacity = 1;
};

enum class Anchor : std::uint8_t { start, middle, end };

// In each shape `kind` becomes the class, for style sheets and tests; `tip` is its tooltip.
struct Rect {
  std::string kind;
  Box box;
  Style style;
  std::string tip = {};
};

struct Line {
  std::string kind;
  Point from;
  Point to;
  Stroke stroke;
  double opacity = 1;
  std::string tip = {};
};

struct Polyline {
  std::string kind;
  std::vector<Point> points;
  Style style;
  bool closed = false;
  std::string tip = {};
};

struct Ellipse {
  std::string kind;
  Point center;
  double radius_x = 1;
  double radius_y = 1;
  double degrees = 0;  // clockwise
  Style style = {};
  std::string tip = {};
};

struct Text {
  std::string kind;
  Point at;  // on the base line
  std::string content;
  double size = 12;
  Anchor anchor = Anchor::start;
  double degrees = 0;
  Color color = Role::ink;
};

// Many cells as one image: row by row, each drawn as a rectangle without smoothing.
struct Cells {
  std::string kind;
  Box box;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<Rgb> colors;
};

struct Item;

struct GroupStyle {
  std::string tip = {};
  bool crisp = false;                      // edges on whole pixels: no seams between cells
  std::optional<Box> clip = std::nullopt;  // nothing is drawn outside
};

struct Group {
  explicit Group(std::string group_kind, GroupStyle group_style = {});
  std::string kind;
  GroupStyle style;
  std::vector<Item> items;
};

struct Item {
  std::variant<Rect, Line, Polyline, Ellipse, Text, Cells, Group> shape;
};

inline Group::Group(std::string group_kind, GroupStyle group_style)
    : kind(std::move(group_kind)), style(std::move(group_style)) {}

struct Drawing {
  double width = 0;
  double height = 0;
  std::string title;  // screen readers say it too
  std::string description = {};
  std::vector<Item> items = {};

  template <class Shape>
  void add(Shape shape) {
    items.push_back({std::move(shape)});
  }
};

// automatic: light, or dark if the reader's system asks for it.
enum class Theme : std::uint8_t { light, dark, automatic };

Rgb theme_color(Color color, bool dark);

struct SvgOptions {
  Theme theme = Theme::light;
  double unit = 0;        // 96ths of an inch for a unit of the drawing, written in millimetres; 0: pixels of a screen
  bool seamless = false;  // cells overlap their neighbours slightly, since PDF viewers smooth every edge
};

// A self-contained file. It uses no ids, so several may be put into one page.
std::string to_svg(const Drawing& drawing, const SvgOptions& options);
std::string to_svg(const Drawing& drawing, Theme theme = Theme::light);

}  // namespace rapt::pictures
