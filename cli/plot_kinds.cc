#include "cli/plot_kinds.h"

#include <algorithm>
#include <tuple>

#include "attend/counted.h"
#include "cli/options.h"
#include "pictures/alignment.h"
#include "pictures/terminal.h"

namespace rapt::cli {
namespace {

using pictures::TerminalStyle;

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
      throw Error(verb + ": " + option + ": expected " + counted(count, "label") + ", one for each " +
                  (option == std::string("--rows") ? "row" : "column") + ", got " + std::to_string(labels.size()));
  };
  check_labels(row_labels, places[0].rows, "--rows");
  check_labels(col_labels, places[0].cols, "--cols");
  if (a.values && places.size() > 1)
    throw Error(verb + ": --values: expected one map, which --head chooses, got " + std::to_string(places.size()));

  std::vector<pictures::HeatMap> maps;
  for (const MapPlace& place : places) {
    pictures::HeatMap map = map_at(verb, a.file, array, place);
    map.row_labels = row_labels;
    map.col_labels = col_labels;
    // One head at a time: many large ones need not fit into memory.
    maps.push_back(places.size() == 1 ? std::move(map)
                                      : largest_of_blocks(map, pictures::kMaxGridCells, pictures::kMaxGridCells));
  }
  const auto [low, high] = range_of(a, maps);
  if (maps.size() == 1) {
    pictures::HeatMap& map = maps[0];
    map.title = a.output.title_or(map.title);
    map.row_title = a.output.ylabel;
    map.col_title = a.output.xlabel;
    map.low = low;
    map.high = high;
    if (a.values) map.numbers = pictures::CellNumbers::always;
    deliver(
        verb, a.output, [&](double width) { return draw_with(map, width); },
        [&](const TerminalStyle& s) { return terminal_view(map, s); });
    return;
  }
  pictures::HeatMapGrid grid;
  grid.title = a.output.title_or("");
  grid.row_title = a.output.ylabel;
  grid.col_title = a.output.xlabel;
  grid.low = low;
  grid.high = high;
  if (array.rank() == 4 && array.shape()[0] > 1) grid.cols = array.shape()[1];
  grid.maps = std::move(maps);
  deliver(
      verb, a.output, [&](double width) { return draw_with(grid, width); },
      [&](const TerminalStyle& s) { return grid_view(grid, s); });
}

void plot_alignment(const AlignmentArguments& a) {
  const std::string verb = "plot alignment";
  check_output(verb, a.output);
  pictures::Alignment alignment;
  alignment.title = a.output.title_or("");
  alignment.source = read_labels(verb + ": --source", a.source);
  alignment.target = read_labels(verb + ": --target", a.target);
  const Array array = read_plot_array(verb, a.file);
  const std::vector<MapPlace> places = map_places(verb, a.file, array, a.head);
  if (places.size() != 1)
    throw Error(verb + ": " + a.file + ": expected one map, which --head chooses, got " +
                std::to_string(places.size()));
  const MapPlace& place = places[0];
  const auto check_tokens = [&](std::vector<std::string>& tokens, std::int64_t count, const char* option) {
    if (tokens.empty())
      for (std::int64_t n = 1; n <= count; ++n) tokens.push_back(std::to_string(n));
    if (static_cast<std::int64_t>(tokens.size()) != count)
      throw Error(verb + ": " + option + ": expected " + counted(count, "token") + " for the array " +
                  to_string(array.shape()) + " [target, source], got " + std::to_string(tokens.size()));
  };
  check_tokens(alignment.target, place.rows, "--target");
  check_tokens(alignment.source, place.cols, "--source");
  pictures::HeatMap map = map_at(verb, a.file, array, place);
  alignment.weights = map.values;
  deliver(
      verb, a.output, [&](double width) { return draw_with(alignment, width); },
      [&](const TerminalStyle& s) {
        draw(alignment);  // checks the weights as a picture would
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
  curves.title = a.output.title_or("");
  curves.x_title = a.output.xlabel_or(curves.x_title);
  curves.y_title = a.output.ylabel_or(curves.y_title);
  deliver(
      "plot curves", a.output, [&](double width) { return draw_with(curves, width); },
      [&](const TerminalStyle& s) { return terminal_view(curves, s); });
}

void plot_bars(const TableArguments& a) {
  check_output("plot bars", a.output);
  pictures::Bars bars = read_bars(a.file, a.field);
  bars.title = a.output.title_or(bars.title);
  bars.value_title = a.output.xlabel_or(bars.value_title);
  bars.group_title = a.output.ylabel;
  deliver(
      "plot bars", a.output, [&](double width) { return draw_with(bars, width); },
      [&](const TerminalStyle& s) { return terminal_view(bars, s); });
}

void plot_scaling(const TableArguments& a) {
  check_output("plot scaling", a.output);
  pictures::Scaling scaling = read_scaling(a.file, a.field);
  scaling.title = a.output.title_or(scaling.title);
  scaling.x_title = a.output.xlabel_or(scaling.x_title);
  scaling.y_title = a.output.ylabel_or(scaling.y_title);
  deliver(
      "plot scaling", a.output, [&](double width) { return draw_with(scaling, width); },
      [&](const TerminalStyle& s) {
        draw(scaling);  // checks the data as a picture would
        return terminal_view(
            pictures::Curves{scaling.title, scaling.x_title, scaling.y_title, scaling.series, true, true}, s);
      });
}

}  // namespace rapt::cli
