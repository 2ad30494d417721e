#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "pictures/bars.h"
#include "pictures/centers.h"
#include "pictures/curves.h"
#include "pictures/heatmap.h"
#include "pictures/heatmap_grid.h"
#include "pictures/scaling.h"
#include "tensor/array.h"

// Input of the kinds of `rapt plot`. Errors begin with "plot KIND: ".
namespace rapt::cli {

// Labels from the command line, or from a file with one per line.
struct LabelArguments {
  std::string words;
  std::string file;
};

// Empty if neither is given. `option` names it in errors: "plot heatmap: --rows".
std::vector<std::string> read_labels(const std::string& option, const LabelArguments& arguments);

// "a, b, c", for errors.
std::string joined(const std::vector<std::string>& names);

// A .npy file that fits into memory together with a copy.
Array read_plot_array(const std::string& verb, const std::string& file);

// A range of its numbers as doubles.
std::vector<double> numbers_of(const Array& array, std::int64_t first, std::int64_t count);

// One attention map [R, C] out of [R, C], [H, R, C] or [B, H, R, C].
struct MapPlace {
  std::int64_t offset = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::string title;  // "head 3"; empty where the array holds one map
};

// The map of --head; all maps if `head` is empty.
std::vector<MapPlace> map_places(const std::string& verb, const std::string& file, const Array& array,
                                 const std::string& head);

// Throws, naming the place, if a number is not finite.
void require_finite(const std::string& verb, const std::string& file, const std::vector<double>& values,
                    const MapPlace& place);

struct CurveArguments {
  std::vector<std::string> files;
  std::string x;
  std::string y;
  bool log = false;
  bool log_x = false;
};

// metrics.jsonl, runs' directories, or arrays [N] or [N, S]; lines of several are named after them.
pictures::Curves read_curves(const CurveArguments& arguments);

// {"groups": […], "series": [{"name": …, "values": […]}]}, or what `rapt bench --json` prints; `field` is of the latter.
pictures::Bars read_bars(const std::string& file, const std::string& field);

// {"series": [{"name": …, "x": […], "y": […]}], "slopes": […]}, or what `rapt bench --json` prints.
pictures::Scaling read_scaling(const std::string& file, const std::string& field);

// A file of centres, and perhaps one of covariances.
pictures::HeadCenters read_centers(const std::vector<std::string>& files);

}  // namespace rapt::cli
