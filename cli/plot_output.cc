#include "cli/plot_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "cli/options.h"
#include "pictures/picture_file.h"

namespace rapt::cli {
namespace {

using pictures::Drawing;
using pictures::TerminalStyle;

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

// 24-bit colours have to be announced; without that, or where none are wanted, letters do.
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

void check_output(const std::string& verb, const Output& output) {
  options_of(verb, output);
  if (!output.out.empty()) pictures::picture_format(output.out);
  else if (::isatty(STDOUT_FILENO) == 0)
    throw Error(verb + ": the standard output is no terminal; pass --out FILE.svg or --out FILE.png");
  if (output.title.size() > 10000) throw Error(verb + ": --title: takes at most 10000 bytes");
}

void deliver(const std::string& verb, const Output& output, const std::function<Drawing()>& drawing,
             const std::function<std::string(const TerminalStyle&)>& view) {
  if (output.out.empty()) {
    std::cout << view(terminal_style());
    return;
  }
  write_picture(drawing(), output.out, options_of(verb, output));
  std::cerr << "wrote " << one_line(output.out) << "\n";
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
