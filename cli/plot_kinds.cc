#include "cli/plot_kinds.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <tuple>

#include "cli/options.h"
#include "pictures/alignment.h"
#include "pictures/picture_file.h"
#include "pictures/terminal.h"
#include "solve/json_node.h"

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

// Refuses at once what could not be delivered in the end.
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

pictures::HeatMap map_at(const std::string& verb, const std::string& file, const Array& array, const MapPlace& place) {
  pictures::HeatMap map;
  map.rows = place.rows;
  map.cols = place.cols;
  map.title = place.title;
  map.values = numbers_of(array, place.offset, place.rows * place.cols);
  map.numbers = pictures::CellNumbers::never;
  require_finite(verb, file, map.values, place);
  return map;
}

std::pair<double, double> range_of(const HeatMapArguments& a, const std::vector<pictures::HeatMap>& maps) {
  if (!a.range.empty()) {
    constexpr const char* kTakes = "LOW,HIGH with LOW below HIGH";
    const auto numbers = try_numbers(a.range);
    if (!numbers || numbers->size() != 2 || !((*numbers)[0] < (*numbers)[1]))
      refuse("plot heatmap: --range", a.range, kTakes);
    return {(*numbers)[0], (*numbers)[1]};
  }
  std::vector<double> ends;
  for (const pictures::HeatMap& map : maps) {
    const auto [low, high] = std::minmax_element(map.values.begin(), map.values.end());
    ends.push_back(*low);
    ends.push_back(*high);
  }
  return pictures::color_range(ends);
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
    text += "and " + std::to_string(grid.maps.size() - kShown) + " more: --head shows one of them, --out FILE all\n";
  return text;
}

// Where each head looks after the last epoch, as a table.
std::string centers_view(const pictures::HeadCenters& centers) {
  draw(centers);
  std::vector<std::vector<std::string>> rows{{"layer", "head", "rows down", "columns right"}};
  const auto number = [](double x) { return solve::shortest(std::round(x * 1000) / 1000); };
  const std::int64_t first = (centers.epochs - 1) * centers.layers * centers.heads;
  for (std::int64_t n = 0; n < centers.layers * centers.heads; ++n) {
    const auto at = static_cast<std::size_t>(2 * (first + n));
    rows.push_back({std::to_string(n / centers.heads + 1), std::to_string(n % centers.heads + 1),
                    number(centers.centers[at]), number(centers.centers[at + 1])});
  }
  return format_table(rows);
}

}  // namespace

void plot_heat_map(const HeatMapArguments& a) {
  const std::string verb = "plot heatmap";
  check_output(verb, a.output);
  const std::vector<std::string> row_labels = read_labels(verb + ": --rows", a.rows);
  const std::vector<std::string> col_labels = read_labels(verb + ": --cols", a.cols);
  const Array array = read_plot_array(verb, a.file);
  const std::vector<MapPlace> places = map_places(verb, a.file, array, a.head);
  const auto check_labels = [&](const std::vector<std::string>& labels, std::int64_t count, const char* option) {
    if (!labels.empty() && static_cast<std::int64_t>(labels.size()) != count)
      throw Error(verb + ": " + option + ": got " + std::to_string(labels.size()) + " labels for " +
                  std::to_string(count) + (option == std::string("--rows") ? " rows" : " columns"));
  };
  check_labels(row_labels, places[0].rows, "--rows");
  check_labels(col_labels, places[0].cols, "--cols");
  if (a.values && places.size() > 1)
    throw Error(verb + ": --values: got " + std::to_string(places.size()) + " maps; takes one, use --head");

  std::vector<pictures::HeatMap> maps;
  for (const MapPlace& place : places) {
    pictures::HeatMap map = map_at(verb, a.file, array, place);
    map.row_labels = row_labels;
    map.col_labels = col_labels;
    // Many large heads need not be in memory at once.
    maps.push_back(places.size() == 1 ? std::move(map)
                                      : largest_of_blocks(map, pictures::kMaxGridCells, pictures::kMaxGridCells));
  }
  const auto [low, high] = range_of(a, maps);
  if (maps.size() == 1) {
    pictures::HeatMap& map = maps[0];
    if (!a.output.title.empty()) map.title = a.output.title;
    map.low = low;
    map.high = high;
    if (a.values) map.numbers = pictures::CellNumbers::always;
    deliver(
        verb, a.output, [&] { return draw(map); }, [&](const TerminalStyle& s) { return terminal_view(map, s); });
    return;
  }
  pictures::HeatMapGrid grid;
  grid.title = a.output.title;
  grid.low = low;
  grid.high = high;
  if (array.rank() == 4 && array.shape()[0] > 1) grid.cols = array.shape()[1];
  grid.maps = std::move(maps);
  deliver(
      verb, a.output, [&] { return draw(grid); }, [&](const TerminalStyle& s) { return grid_view(grid, s); });
}

void plot_alignment(const AlignmentArguments& a) {
  const std::string verb = "plot alignment";
  check_output(verb, a.output);
  pictures::Alignment alignment;
  alignment.title = a.output.title;
  alignment.source = read_labels(verb + ": --source", a.source);
  alignment.target = read_labels(verb + ": --target", a.target);
  const Array array = read_plot_array(verb, a.file);
  const std::vector<MapPlace> places = map_places(verb, a.file, array, a.head);
  if (places.size() != 1)
    throw Error(verb + ": " + a.file + ": got " + std::to_string(places.size()) + " maps; takes one, use --head");
  const MapPlace& place = places[0];
  const auto check_tokens = [&](std::vector<std::string>& tokens, std::int64_t count, const char* option) {
    if (tokens.empty())
      for (std::int64_t n = 1; n <= count; ++n) tokens.push_back(std::to_string(n));
    if (static_cast<std::int64_t>(tokens.size()) != count)
      throw Error(verb + ": " + option + ": got " + std::to_string(tokens.size()) + " tokens for " +
                  std::to_string(count) + " of the array " + to_string(array.shape()) + " [target, source]");
  };
  check_tokens(alignment.target, place.rows, "--target");
  check_tokens(alignment.source, place.cols, "--source");
  pictures::HeatMap map = map_at(verb, a.file, array, place);
  alignment.weights = map.values;
  deliver(
      verb, a.output, [&] { return draw(alignment); },
      [&](const TerminalStyle& s) {
        draw(alignment);  // the same demands on the weights
        map.title = alignment.title;
        map.row_labels = alignment.target;
        map.col_labels = alignment.source;
        std::tie(map.low, map.high) = pictures::color_range(map.values);
        return terminal_view(map, s);
      });
}

void plot_curves(const CurvesArguments& a) {
  check_output("plot curves", a.output);
  pictures::Curves curves = read_curves(a.curves);
  curves.title = a.output.title;
  deliver(
      "plot curves", a.output, [&] { return draw(curves); },
      [&](const TerminalStyle& s) { return terminal_view(curves, s); });
}

void plot_bars(const TableArguments& a) {
  check_output("plot bars", a.output);
  pictures::Bars bars = read_bars(a.file, a.field);
  if (!a.output.title.empty()) bars.title = a.output.title;
  deliver(
      "plot bars", a.output, [&] { return draw(bars); },
      [&](const TerminalStyle& s) { return terminal_view(bars, s); });
}

void plot_scaling(const TableArguments& a) {
  check_output("plot scaling", a.output);
  pictures::Scaling scaling = read_scaling(a.file, a.field);
  if (!a.output.title.empty()) scaling.title = a.output.title;
  deliver(
      "plot scaling", a.output, [&] { return draw(scaling); },
      [&](const TerminalStyle& s) {
        draw(scaling);  // the same demands on the data
        return terminal_view(
            pictures::Curves{scaling.title, scaling.x_title, scaling.y_title, scaling.series, true, true}, s);
      });
}

void plot_centers(const CentersArguments& a) {
  check_output("plot centers", a.output);
  pictures::HeadCenters centers = read_centers(a.files);
  centers.title = a.output.title;
  deliver(
      "plot centers", a.output, [&] { return draw(centers); },
      [&](const TerminalStyle&) { return centers_view(centers); });
}

}  // namespace rapt::cli
