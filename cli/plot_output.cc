#include "cli/plot_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "cli/options.h"
#include "cli/outputs.h"
#include "pictures/text.h"
#include "tensor/files.h"

namespace rapt::cli {
namespace {

using pictures::Drawing;
using pictures::TerminalStyle;

constexpr double kUsualPoints = 9;  // a label of 12 units, 96 of them to the inch
constexpr double kInch = 96;

[[noreturn]] void expected(const std::string& option, const std::string& what, const std::string& got) {
  throw Error(option + ": expected " + what + ", got '" + got + "'");
}

// In 96ths of an inch; 0 if not given.
double width_of(const std::string& verb, const std::string& text) {
  if (text.empty()) return 0;
  const std::string what = "a length from 2cm to 100cm with its unit, such as 8.5cm or 3.3in";
  double unit = 0;
  for (const auto& [name, size] : {std::pair{"cm", kInch / 2.54}, {"mm", kInch / 25.4}, {"in", kInch}})
    if (text.ends_with(name)) unit = size;
  const auto value = unit == 0 ? std::nullopt : try_numbers(text.substr(0, text.size() - 2));
  if (!value || value->size() != 1) expected(verb + ": --width", what, text);
  const double width = unit * (*value)[0], centimeters = width / kInch * 2.54;
  if (!(centimeters >= 2 - 1e-9 && centimeters <= 100 + 1e-9)) expected(verb + ": --width", what, text);
  return width;
}

double points_of(const std::string& verb, const std::string& text) {
  if (text.empty()) return kUsualPoints;
  const auto value = try_numbers(text);
  if (!value || value->size() != 1 || !((*value)[0] >= 4 && (*value)[0] <= 40))
    expected(verb + ": --font-size", "points from 4 to 40", text);
  return (*value)[0];
}

// In the unit of what was asked, rounded up: "8.8cm", "88mm" or "3.5in".
std::string length_text(double width, std::string_view asked) {
  if (asked.ends_with("in")) return pictures::number(std::ceil(10 * width / kInch) / 10, 1) + "in";
  const double millimeters = std::ceil(width / kInch * 25.4);
  return asked.ends_with("mm") ? pictures::number(millimeters, 0) + "mm" : pictures::number(millimeters / 10, 1) + "cm";
}

// Scales the drawing: labels are --font-size points high, and the whole is --width wide.
Drawing sized(const std::string& verb, const Output& output, const std::function<Drawing(double)>& drawing,
              pictures::PictureOptions& options) {
  if (output.width.empty() && output.font_size.empty()) return drawing(0);
  options.unit = points_of(verb, output.font_size) / kUsualPoints;
  // Without --width, as wide as with the usual letters.
  const double asked = width_of(verb, output.width);
  const double width = (asked > 0 ? asked : drawing(0).width) / options.unit;
  Drawing result = drawing(width);
  if (result.width <= width + 0.1) return result;
  const std::string least = "at least " + length_text(result.width * options.unit, output.width) +
                            " for these labels at " + pictures::number(points_of(verb, output.font_size)) + " points";
  if (asked > 0) expected(verb + ": --width", least, output.width);
  expected(verb + ": --font-size", "a size that leaves room for the picture, or --width of " + least, output.font_size);
}

pictures::PictureOptions options_of(const std::string& verb, const Output& output) {
  using pictures::Theme;
  pictures::PictureOptions options;
  options.theme = parse_choice<Theme>(verb + ": --theme", output.theme,
                                      {{"light", Theme::light}, {"dark", Theme::dark}, {"auto", Theme::automatic}});
  constexpr const char* kTakes = "a number from 0.5 to 8";
  options.scale = parse_number(verb + ": --scale", output.scale, kTakes);
  if (options.scale < 0.5 || options.scale > 8) refuse(verb + ": --scale", output.scale, kTakes);
  return options;
}

// Terminals announce 24-bit colours; without them, or if colours are off, letters stand for values.
TerminalStyle terminal_style() {
  TerminalStyle style;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    style.columns = size.ws_col;
    style.lines = size.ws_row;
  }
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string colors = variable("COLORTERM");
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = variable(name);
  const bool utf8 = locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  style.rich = (colors == "truecolor" || colors == "24bit") && variable("NO_COLOR").empty() && utf8;
  return style;
}

}  // namespace

pictures::PictureFormat format_of(const std::string& argument, const std::string& name, const std::string& format) {
  using pictures::PictureFormat;
  constexpr const char* kEndings = ".svg, .png or .pdf";
  const std::string verb = argument.substr(0, argument.find(": "));
  const std::optional<PictureFormat> named = pictures::format_of_name(name);
  if (format.empty()) {
    if (!named) expected(argument, std::string("a name that ends in ") + kEndings + ", or --format with it", name);
    return *named;
  }
  const auto chosen = parse_choice<PictureFormat>(
      verb + ": --format", format,
      {{"svg", PictureFormat::svg}, {"png", PictureFormat::png}, {"pdf", PictureFormat::pdf}});
  if (named && *named != chosen) expected(verb + ": --format", "what the name " + name + " says", format);
  return chosen;
}

void check_output(const std::string& verb, const Output& output) {
  options_of(verb, output);
  width_of(verb, output.width);
  points_of(verb, output.font_size);
  if (output.no_title && !output.title.empty()) throw Error(verb + ": expected --title or --no-title, got both");
  for (const auto& [option, text] : {std::pair{": --xlabel", output.xlabel}, {": --ylabel", output.ylabel}})
    if (text.size() > 10000 || !pictures::is_utf8(text))
      throw Error(verb + option + ": expected at most 10000 bytes of UTF-8");
  if (output.out.empty() && !output.format.empty()) throw Error(verb + ": --format: expected --out with it, got none");
  if (!output.out.empty()) {
    format_of(verb + ": --out", output.out, output.format);
    check_output_file(verb + ": --out", output.out);
  } else if (::isatty(STDOUT_FILENO) == 0) {
    throw Error(verb + ": --out: expected FILE.svg, FILE.png or FILE.pdf where standard output is not a terminal, " +
                "got none");
  }
  if (output.title.size() > 10000)
    throw Error(verb + ": --title: expected at most 10,000 bytes, got " + std::to_string(output.title.size()));
}

void deliver(const std::string& verb, const Output& output, const std::function<Drawing(double)>& drawing,
             const std::function<std::string(const TerminalStyle&)>& view) {
  if (output.out.empty()) {
    std::cout << view(terminal_style());
    return;
  }
  pictures::PictureOptions options = options_of(verb, output);
  const Drawing picture = sized(verb, output, drawing, options);
  write_file(output.out, encode_picture(picture, format_of(verb + ": --out", output.out, output.format), options));
  if (output.out != "-") std::cerr << "wrote " << one_line(output.out) << "\n";
}

std::string grid_view(const pictures::HeatMapGrid& grid, TerminalStyle style) {
  constexpr std::size_t kShown = 8;
  style.lines = std::min<std::size_t>(style.lines, 20);
  std::string text;
  for (std::size_t n = 0; n < grid.maps.size() && n < kShown; ++n) {
    pictures::HeatMap map = grid.maps[n];
    map.low = grid.low;
    map.high = grid.high;
    text += terminal_view(map, style) + "\n";
  }
  if (grid.maps.size() > kShown)
    text += "and " + std::to_string(grid.maps.size() - kShown) + " more: --out FILE shows all\n";
  return text;
}

}  // namespace rapt::cli
