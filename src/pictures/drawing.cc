#include "pictures/drawing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "pictures/base64.h"
#include "pictures/png.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

struct RoleColors {
  Role role;
  const char* name;
  Rgb light;
  Rgb dark;
};

constexpr std::array<RoleColors, 5> kRoles{{{Role::page, "page", {255, 255, 255}, {18, 21, 26}},
                                            {Role::ink, "ink", {26, 26, 26}, {236, 236, 236}},
                                            {Role::muted, "muted", {85, 85, 85}, {176, 176, 176}},
                                            {Role::axis, "axis", {110, 110, 110}, {140, 140, 140}},
                                            {Role::grid, "grid", {226, 226, 226}, {52, 57, 64}}}};

const RoleColors& colors_of(Role role) { return kRoles[static_cast<std::size_t>(role) - 1]; }

// DejaVu Sans and Verdana are equally wide; fallback fonts are narrower.
constexpr const char* kFonts = "'DejaVu Sans', Verdana, sans-serif";

class SvgWriter {
 public:
  explicit SvgWriter(const SvgOptions& options)
      : options_(options), dark_(options.theme == Theme::dark), automatic_(options.theme == Theme::automatic) {}

  std::string write(const Drawing& drawing) {
    const std::string width = number(drawing.width), height = number(drawing.height);
    const auto size = [&](double length) {
      return options_.unit > 0 ? number(length * options_.unit * 25.4 / 96, 3) + "mm" : number(length);
    };
    out_ += "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rapt-picture\" role=\"img\" width=\"" +
            size(drawing.width) + "\" height=\"" + size(drawing.height) + "\" viewBox=\"0 0 " + width + " " + height +
            "\" font-family=\"" + kFonts + "\">\n<title>" + xml_text(drawing.title) + "</title>\n";
    if (!drawing.description.empty()) out_ += "<desc>" + xml_text(drawing.description) + "</desc>\n";
    if (automatic_) write_style();
    write_item({Rect{"page", {0, 0, drawing.width, drawing.height}, {.fill = Role::page}}});
    for (const Item& item : drawing.items) write_item(item);
    return std::move(out_) + "</svg>\n";
  }

 private:
  void write_style() {
    out_ += "<style>@media screen and (prefers-color-scheme: dark) {";
    for (const RoleColors& role : kRoles)
      out_ += std::string(" .rapt-picture .fill-") + role.name + " {fill: " + hex(role.dark) +
              "} .rapt-picture .stroke-" + role.name + " {stroke: " + hex(role.dark) + "}";
    out_ += " }</style>\n";
  }

  void attribute(const char* name, double value, int decimals = 2) {
    // A drawing with NaN in it would be silently wrong in every viewer.
    if (!std::isfinite(value))
      throw Error(std::string("picture: ") + name + ": expected a finite number, got " + short_number(value));
    out_ += std::string(" ") + name + "=\"" + number(value, decimals) + "\"";
  }
  void attribute(const char* name, const std::string& value) { out_ += std::string(" ") + name + "=\"" + value + "\""; }

  void paint(const char* name, const Color& color) { attribute(name, hex(theme_color(color, dark_))); }

  void open(const char* tag, const std::string& kind, const Style& style) {
    out_ += std::string("<") + tag;
    std::string classes = xml_text(kind);
    const auto add_class = [&](const char* property, const Color& color) {
      if (automatic_ && color.role != Role::fixed)
        classes += (classes.empty() ? "" : " ") + std::string(property) + "-" + colors_of(color.role).name;
    };
    if (style.fill) add_class("fill", *style.fill);
    if (style.stroke) add_class("stroke", style.stroke->color);
    if (!classes.empty()) attribute("class", classes);
  }

  void write_style_attributes(const Style& style) {
    if (style.fill) paint("fill", *style.fill);
    else attribute("fill", std::string("none"));
    if (style.stroke) {
      paint("stroke", style.stroke->color);
      if (style.stroke->width != 1) attribute("stroke-width", style.stroke->width);
      std::string dashes;
      for (const double length : style.stroke->dashes.lengths()) dashes += (dashes.empty() ? "" : " ") + number(length);
      if (!dashes.empty()) attribute("stroke-dasharray", dashes);
    }
    // Cheaper than the opacity of a group, which is rendered separately first.
    if (style.opacity != 1 && style.fill) attribute("fill-opacity", style.opacity, 3);
    if (style.opacity != 1 && style.stroke) attribute("stroke-opacity", style.opacity, 3);
  }

  void close(const char* tag, const std::string& tip) {
    if (tip.empty()) out_ += "/>\n";
    else out_ += "><title>" + xml_text(tip) + "</title></" + tag + ">\n";
  }

  void write_box(const Box& box) {
    attribute("x", box.x);
    attribute("y", box.y);
    attribute("width", box.width);
    attribute("height", box.height);
  }

  void rotate(double degrees, const Point& center) {
    if (degrees != 0)
      attribute("transform", "rotate(" + number(degrees) + " " + number(center.x) + " " + number(center.y) + ")");
  }

  void write(const Rect& rect) {
    Style style = rect.style;
    if (crisp_ && options_.seamless && style.fill && !style.stroke) style.stroke = Stroke{*style.fill, 0.3};
    open("rect", rect.kind, style);
    write_box(rect.box);
    write_style_attributes(style);
    close("rect", rect.tip);
  }

  void write(const Line& line) {
    const Style style{.stroke = line.stroke, .opacity = line.opacity};
    open("line", line.kind, style);
    attribute("x1", line.from.x);
    attribute("y1", line.from.y);
    attribute("x2", line.to.x);
    attribute("y2", line.to.y);
    write_style_attributes(style);
    close("line", line.tip);
  }

  void write(const Polyline& line) {
    const char* tag = line.closed ? "polygon" : "polyline";
    open(tag, line.kind, line.style);
    std::string points;
    for (const Point& point : line.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y))
        throw Error("picture: points: expected finite numbers, got " + short_number(point.x) + ", " +
                    short_number(point.y));
      points += (points.empty() ? "" : " ") + number(point.x) + "," + number(point.y);
    }
    attribute("points", points);
    write_style_attributes(line.style);
    if (line.style.stroke) attribute("stroke-linejoin", std::string("round"));
    close(tag, line.tip);
  }

  void write(const Ellipse& ellipse) {
    open("ellipse", ellipse.kind, ellipse.style);
    attribute("cx", ellipse.center.x);
    attribute("cy", ellipse.center.y);
    attribute("rx", ellipse.radius_x);
    attribute("ry", ellipse.radius_y);
    rotate(ellipse.degrees, ellipse.center);
    write_style_attributes(ellipse.style);
    close("ellipse", ellipse.tip);
  }

  void write(const Text& text) {
    if (text.content.empty()) return;
    open("text", text.kind, {.fill = text.color});
    attribute("x", text.at.x);
    attribute("y", text.at.y);
    if (text.anchor != Anchor::start)
      attribute("text-anchor", std::string(text.anchor == Anchor::middle ? "middle" : "end"));
    attribute("font-size", text.size);
    paint("fill", text.color);
    rotate(text.degrees, text.at);
    // What is below keeps its tooltip.
    attribute("pointer-events", std::string("none"));
    out_ += ">" + xml_text(text.content) + "</text>\n";
  }

  void write(const Cells& cells) {
    open("image", cells.kind, {});
    write_box(cells.box);
    attribute("preserveAspectRatio", std::string("none"));
    attribute("style", std::string("image-rendering: pixelated"));
    // Not every viewer honours that: an image of half pixels looks sharp in the others too.
    const auto repeat = [](double size, std::int64_t count) {
      return std::max<std::int64_t>(1, std::llround(2 * size / static_cast<double>(count)));
    };
    attribute("href", "data:image/png;base64," +
                          base64(encode_png(cells.rows, cells.cols, cells.colors, repeat(cells.box.height, cells.rows),
                                            repeat(cells.box.width, cells.cols))));
    out_ += "/>\n";
  }

  void write(const Group& group) {
    open("g", group.kind, {});
    if (group.style.crisp) attribute("shape-rendering", std::string("crispEdges"));
    out_ += ">\n";
    if (!group.style.tip.empty()) out_ += "<title>" + xml_text(group.style.tip) + "</title>\n";
    if (group.style.clip) {
      // A nested picture clips without an id, which another picture of the page might have too.
      out_ += "<svg";
      write_box(*group.style.clip);
      attribute("viewBox", number(group.style.clip->x) + " " + number(group.style.clip->y) + " " +
                               number(group.style.clip->width) + " " + number(group.style.clip->height));
      out_ += ">\n";
    }
    const bool outer = std::exchange(crisp_, crisp_ || group.style.crisp);
    for (const Item& item : group.items) write_item(item);
    crisp_ = outer;
    if (group.style.clip) out_ += "</svg>\n";
    out_ += "</g>\n";
  }

  void write_item(const Item& item) {
    std::visit([this](const auto& shape) { write(shape); }, item.shape);
  }

  SvgOptions options_;
  bool dark_;
  bool automatic_;
  bool crisp_ = false;  // within a group of cells
  std::string out_;
};

}  // namespace

Rgb theme_color(Color color, bool dark) {
  if (color.role == Role::fixed) return color.rgb;
  return dark ? colors_of(color.role).dark : colors_of(color.role).light;
}

std::string to_svg(const Drawing& drawing, const SvgOptions& options) { return SvgWriter(options).write(drawing); }

std::string to_svg(const Drawing& drawing, Theme theme) { return to_svg(drawing, SvgOptions{.theme = theme}); }

}  // namespace rapt::pictures
