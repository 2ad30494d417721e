#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "cli/options.h"
#include "cli/plot_inputs.h"
#include "tensor/files.h"
#include "tensor/json_text.h"

// Curves over steps: metrics of runs, and arrays.
namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCurves = "plot curves";
constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMaxSeries = 64;

// Metric names in order of first appearance, and each line's values.
struct Metrics {
  std::vector<std::string> fields;
  std::vector<std::map<std::string, double>> lines;
};

// Nested objects give names such as "valid.loss"; null is a missing number.
void collect(const Json& value, const std::string& prefix, Metrics& metrics) {
  for (const auto& [key, item] : value.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (item.is_object()) {
      collect(item, name, metrics);
      continue;
    }
    if (!item.is_number() && !item.is_null()) continue;
    if (std::find(metrics.fields.begin(), metrics.fields.end(), name) == metrics.fields.end())
      metrics.fields.push_back(name);
    metrics.lines.back()[name] = item.is_null() ? kGap : item.get<double>();
  }
}

Metrics read_metrics(const std::string& file) {
  const std::string text = read_file(file);
  Metrics metrics;
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (part.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = std::string(kCurves) + ": " + file + ": line " + std::to_string(line);
    const Json value = parse_json<Json>(where, part);
    if (!value.is_object())
      throw Error(where + ": expected a JSON object, got " +
                  (value.is_discarded() ? "text that is not JSON" : "JSON of type " + std::string(value.type_name())));
    metrics.lines.emplace_back();
    collect(value, "", metrics);
  }
  if (metrics.fields.empty())
    throw Error(std::string(kCurves) + ": " + file + ": expected at least one number, got none");
  return metrics;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    parts.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    rest.remove_prefix(comma + 1);
  }
}

void require_field(const Metrics& metrics, const std::string& option, const std::string& name,
                   const std::string& file) {
  if (std::find(metrics.fields.begin(), metrics.fields.end(), name) == metrics.fields.end())
    refuse(std::string(kCurves) + ": " + option, name, "a field of " + file + ": " + joined(metrics.fields));
}

// Counters, not measurements.
bool is_counter(const std::string& name) { return name == "step" || name == "epoch"; }

std::string usual_x(const Metrics& metrics) {
  for (const char* name : {"step", "epoch"})
    if (std::find(metrics.fields.begin(), metrics.fields.end(), name) != metrics.fields.end()) return name;
  return "";
}

// Losses if there are any, otherwise every number.
std::vector<std::string> usual_y(const Metrics& metrics, const std::string& x) {
  std::vector<std::string> losses, others;
  for (const std::string& field : metrics.fields) {
    if (field == x || is_counter(field)) continue;
    (field.find("loss") != std::string::npos ? losses : others).push_back(field);
  }
  return losses.empty() ? others : losses;
}

pictures::Curves metric_curves(const CurveArguments& arguments, const std::string& file) {
  const Metrics metrics = read_metrics(file);
  const std::string x = arguments.x.empty() ? usual_x(metrics) : arguments.x;
  if (!x.empty()) require_field(metrics, "--x", x, file);
  const std::vector<std::string> names = arguments.y.empty() ? usual_y(metrics, x) : split(arguments.y);
  if (names.empty())
    throw Error(std::string(kCurves) + ": " + file + ": expected a measured number beside " + joined(metrics.fields) +
                ", or --y, got neither");
  pictures::Curves curves;
  curves.x_title = x.empty() ? "line" : x;
  for (const std::string& name : names) {
    require_field(metrics, "--y", name, file);
    pictures::Series series{name, {}, {}};
    for (std::size_t n = 0; n < metrics.lines.size(); ++n) {
      const auto& line = metrics.lines[n];
      // Lines that lack it leave no gap, as not everything is measured at every step.
      const auto y = line.find(name), at = line.find(x);
      if (y == line.end() || (!x.empty() && at == line.end())) continue;
      series.x.push_back(x.empty() ? static_cast<double>(n + 1) : at->second);
      series.y.push_back(y->second);
    }
    curves.series.push_back(std::move(series));
  }
  return curves;
}

pictures::Curves array_curves(const CurveArguments& arguments, const std::string& file) {
  const Array array = read_plot_array(kCurves, file);
  if (array.rank() != 1 && array.rank() != 2)
    throw Error(std::string(kCurves) + ": " + file + ": expected [N] or [N, S], got an array " +
                to_string(array.shape()));
  if (!arguments.x.empty()) refuse(std::string(kCurves) + ": --x", arguments.x, "a file with named fields beside it");
  const std::int64_t count = array.shape()[0], width = array.rank() == 2 ? array.shape()[1] : 1;
  if (width > static_cast<std::int64_t>(kMaxSeries))
    throw Error(std::string(kCurves) + ": " + file + ": expected at most " + std::to_string(kMaxSeries) +
                " series, got " + std::to_string(width));
  std::vector<std::string> names = arguments.y.empty() ? std::vector<std::string>{} : split(arguments.y);
  if (!names.empty() && static_cast<std::int64_t>(names.size()) != width)
    refuse(std::string(kCurves) + ": --y", arguments.y, counted(width, "name") + " for " + to_string(array.shape()));
  const std::vector<double> values = numbers_of(array, 0, array.count());
  pictures::Curves curves;
  for (std::int64_t s = 0; s < width; ++s) {
    const std::string stem = std::filesystem::path(file).stem().string();
    pictures::Series series{!names.empty() ? names[static_cast<std::size_t>(s)]
                            : width == 1   ? stem
                                           : std::to_string(s),
                            {},
                            {}};
    for (std::int64_t n = 0; n < count; ++n) {
      series.x.push_back(static_cast<double>(n + 1));
      series.y.push_back(values[static_cast<std::size_t>(n * width + s)]);
    }
    curves.series.push_back(std::move(series));
  }
  return curves;
}

pictures::Curves curves_of(const CurveArguments& arguments, const std::string& file) {
  std::error_code ignored;
  const std::filesystem::path path = file;
  if (path.extension() == ".npy") return array_curves(arguments, file);
  if (std::filesystem::is_directory(path, ignored)) return metric_curves(arguments, (path / "metrics.jsonl").string());
  return metric_curves(arguments, file);
}

// Parts of a path that may name a run: without "metrics.jsonl", or the extension of another file.
std::vector<std::string> path_parts(const std::string& file) {
  std::error_code ignored;
  std::filesystem::path path = std::filesystem::path(file).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == "." || path.filename() == "..")
    path = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == "metrics.jsonl" && path.has_parent_path()) path = path.parent_path();
  else if (!std::filesystem::is_directory(path, ignored)) path.replace_extension();
  std::vector<std::string> parts;
  for (const auto& part : path) parts.push_back(part.string());
  return parts;
}

// The fewest trailing parts that tell all files apart: "dot" and "additive", or "a/seed1" and "b/seed1".
std::vector<std::string> short_names(const std::vector<std::string>& files) {
  std::vector<std::vector<std::string>> parts;
  std::size_t longest = 1;
  for (const std::string& file : files) {
    parts.push_back(path_parts(file));
    longest = std::max(longest, parts.back().size());
  }
  std::vector<std::string> names;
  for (std::size_t count = 1; count <= longest; ++count) {
    names.clear();
    for (const auto& path : parts) {
      std::string name;
      for (std::size_t n = path.size() - std::min(count, path.size()); n < path.size(); ++n)
        name += (name.empty() || name.ends_with('/') ? "" : "/") + path[n];
      names.push_back(name);
    }
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return names;
  }
  return files;
}

}  // namespace

pictures::Curves read_curves(const CurveArguments& arguments) {
  const std::vector<std::string>& files = arguments.files;
  for (std::size_t n = 0; n < files.size(); ++n)
    if (std::find(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(n), files[n]) !=
        files.begin() + static_cast<std::ptrdiff_t>(n))
      throw Error(std::string(kCurves) + ": expected different files, got " + files[n] + " twice");
  pictures::Curves curves = curves_of(arguments, files[0]);
  if (files.size() > 1) {
    std::vector<pictures::Curves> each{std::move(curves)};
    for (std::size_t n = 1; n < files.size(); ++n) each.push_back(curves_of(arguments, files[n]));
    const std::vector<std::string> names = short_names(files);
    curves = {};
    curves.x_title = each[0].x_title;
    // A single metric of several runs labels the axis; several metrics label their lines too.
    bool same = true;
    for (const pictures::Curves& one : each)
      same = same && one.series.size() == 1 && one.series[0].name == each[0].series[0].name;
    const bool arrays = each[0].x_title.empty();
    if (same && !arrays) curves.y_title = each[0].series[0].name;
    for (std::size_t n = 0; n < each.size(); ++n) {
      if (each[n].x_title != curves.x_title)
        throw Error(std::string(kCurves) + ": expected files over one x, got '" + curves.x_title + "' of " + files[0] +
                    " and '" + each[n].x_title + "' of " + files[n] + "; use --x");
      for (pictures::Series& series : each[n].series) {
        const bool named = each[n].series.size() > 1 || !(same || arrays);
        series.name = named ? names[n] + ", " + series.name : names[n];
        curves.series.push_back(std::move(series));
      }
    }
  }
  if (curves.series.size() > kMaxSeries)
    throw Error(std::string(kCurves) + ": expected at most " + std::to_string(kMaxSeries) + " lines, got " +
                std::to_string(curves.series.size()));
  curves.log_y = arguments.log;
  curves.log_x = arguments.log_x;
  return curves;
}

}  // namespace rapt::cli
