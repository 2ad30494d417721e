#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "cli/plot_inputs.h"
#include "pictures/text.h"
#include "solve/json_node.h"
#include "tensor/files.h"

// Files of named numbers: metrics of a run, bars and scaling lines as JSON.
namespace rapt::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kCurves = "plot curves";

// The names of numbers in the order they first appear, and for each line what it says of them.
struct Metrics {
  std::vector<std::string> fields;
  std::vector<std::map<std::string, double>> lines;
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Numbers within numbers' objects are named "valid.loss"; null is a number that is missing.
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
    metrics.lines.back()[name] = item.is_null() ? kMissing : item.get<double>();
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
    const Json value = Json::parse(part.begin(), part.end(), nullptr, false);
    if (!value.is_object())
      throw Error(std::string(kCurves) + ": " + file + ": line " + std::to_string(line) + " is not a JSON object");
    metrics.lines.emplace_back();
    collect(value, "", metrics);
  }
  if (metrics.fields.empty()) throw Error(std::string(kCurves) + ": " + file + ": there is no number in it");
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

void require_field(const Metrics& metrics, const std::string& option, const std::string& name) {
  if (std::find(metrics.fields.begin(), metrics.fields.end(), name) == metrics.fields.end())
    refuse(std::string(kCurves) + ": " + option, name, "a field of the file: " + joined(metrics.fields));
}

// What counts, rather than is measured.
bool is_counter(const std::string& name) { return name == "step" || name == "epoch"; }

std::string usual_x(const Metrics& metrics) {
  for (const char* name : {"step", "epoch"})
    if (std::find(metrics.fields.begin(), metrics.fields.end(), name) != metrics.fields.end()) return name;
  return "";
}

// Losses where there are any, else every number.
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
  if (!x.empty()) require_field(metrics, "--x", x);
  const std::vector<std::string> names = arguments.y.empty() ? usual_y(metrics, x) : split(arguments.y);
  if (names.empty())
    throw Error(std::string(kCurves) + ": " + file + ": nothing but " + joined(metrics.fields) + " is in it; use --y");
  pictures::Curves curves;
  curves.x_title = x.empty() ? "line" : x;
  for (const std::string& name : names) {
    require_field(metrics, "--y", name);
    pictures::Series series{name, {}, {}};
    for (std::size_t n = 0; n < metrics.lines.size(); ++n) {
      const auto& line = metrics.lines[n];
      // A line that does not mention it leaves no gap: not everything is measured at every step.
      const auto y = line.find(name), at = line.find(x);
      if (y == line.end() || (!x.empty() && at == line.end())) continue;
      series.x.push_back(x.empty() ? static_cast<double>(n + 1) : at->second);
      series.y.push_back(y->second);
    }
    curves.series.push_back(std::move(series));
  }
  return curves;
}

pictures::Curves array_curves(const CurveArguments& arguments) {
  const Array array = read_plot_array(kCurves, arguments.file);
  if (array.rank() != 1 && array.rank() != 2)
    throw Error(std::string(kCurves) + ": " + arguments.file + ": got an array " + to_string(array.shape()) +
                "; takes [N] or [N, S]");
  if (!arguments.x.empty()) throw Error(std::string(kCurves) + ": --x: the numbers of an array have no names");
  const std::int64_t count = array.shape()[0], width = array.rank() == 2 ? array.shape()[1] : 1;
  constexpr std::int64_t kMaxSeries = 64;
  if (width > kMaxSeries)
    throw Error(std::string(kCurves) + ": " + arguments.file + ": got " + std::to_string(width) +
                " series; takes at most " + std::to_string(kMaxSeries));
  std::vector<std::string> names = arguments.y.empty() ? std::vector<std::string>{} : split(arguments.y);
  if (!names.empty() && static_cast<std::int64_t>(names.size()) != width)
    refuse(std::string(kCurves) + ": --y", arguments.y,
           std::to_string(width) + " names for " + to_string(array.shape()));
  const std::vector<double> values = numbers_of(array, 0, array.count());
  pictures::Curves curves;
  for (std::int64_t s = 0; s < width; ++s) {
    const std::string stem = std::filesystem::path(arguments.file).stem().string();
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

// A list of numbers; null stands for one that is missing.
std::vector<double> numbers_or_null(const solve::JsonNode& node) {
  std::vector<double> values;
  for (const solve::JsonNode& item : node.items()) values.push_back(item.value().is_null() ? kMissing : item.number());
  return values;
}

std::string text_at(const solve::JsonNode& node, const char* key) {
  const auto found = node.find(key);
  return found ? found->text() : "";
}

// A row of `rapt bench --json`: what was measured, and one of its numbers.
struct BenchRow {
  std::string name;
  std::string direction;
  std::string shape;
  double length = 0;
  double value = kMissing;
};

std::vector<BenchRow> bench_rows(const solve::JsonNode& root, const std::string& field) {
  std::vector<BenchRow> rows;
  for (const solve::JsonNode& node : root.at("rows").items()) {
    BenchRow row;
    row.name = node.at("name").text();
    row.direction = text_at(node, "direction");
    const std::vector<std::int64_t> shape = node.at("shape").integers(1, std::numeric_limits<std::int64_t>::max());
    if (shape.size() != 4) node.at("shape").fail("takes [B, H, S, D]");
    for (const std::int64_t size : shape) row.shape += (row.shape.empty() ? "" : ",") + std::to_string(size);
    row.length = static_cast<double>(shape[2]);
    const auto found = node.find(field);
    if (!found) {
      std::vector<std::string> names;
      for (const auto& [key, item] : node.value().items())
        if (item.is_number()) names.push_back(key);
      node.fail("there is no field '" + field + "'; takes " + joined(names));
    }
    row.value = found->value().is_null() ? kMissing : found->number();
    rows.push_back(std::move(row));
  }
  return rows;
}

template <class T, class F>
T& find_or_add(std::vector<T>& items, F&& matches, T fresh) {
  for (T& item : items)
    if (matches(item)) return item;
  items.push_back(std::move(fresh));
  return items.back();
}

pictures::Bars bench_bars(const solve::JsonNode& root, const std::string& field) {
  pictures::Bars bars;
  bars.value_title = field;
  const std::vector<BenchRow> rows = bench_rows(root, field);
  const auto group_of = [](const BenchRow& row) { return row.name + " " + row.shape; };
  for (const BenchRow& row : rows)
    if (std::find(bars.groups.begin(), bars.groups.end(), group_of(row)) == bars.groups.end())
      bars.groups.push_back(group_of(row));
  for (const BenchRow& row : rows) {
    pictures::BarSeries& series = find_or_add(
        bars.series, [&](const pictures::BarSeries& s) { return s.name == row.direction; },
        pictures::BarSeries{row.direction, std::vector<double>(bars.groups.size(), kMissing)});
    const auto group = std::find(bars.groups.begin(), bars.groups.end(), group_of(row));
    series.values[static_cast<std::size_t>(group - bars.groups.begin())] = row.value;
  }
  return bars;
}

pictures::Scaling bench_scaling(const solve::JsonNode& root, const std::string& field) {
  pictures::Scaling scaling;
  scaling.x_title = "sequence length";
  scaling.y_title = field;
  for (const BenchRow& row : bench_rows(root, field)) {
    const std::string name = row.name + (row.direction.empty() ? "" : " " + row.direction);
    pictures::Series& series = find_or_add(
        scaling.series, [&](const pictures::Series& s) { return s.name == name; }, pictures::Series{name, {}, {}});
    series.x.push_back(row.length);
    series.y.push_back(row.value);
  }
  return scaling;
}

}  // namespace

pictures::Curves read_curves(const CurveArguments& arguments) {
  std::error_code ignored;
  const std::filesystem::path path = arguments.file;
  pictures::Curves curves;
  if (path.extension() == ".npy") curves = array_curves(arguments);
  else if (std::filesystem::is_directory(path, ignored))
    curves = metric_curves(arguments, (path / "metrics.jsonl").string());
  else curves = metric_curves(arguments, arguments.file);
  curves.log_y = arguments.log;
  curves.log_x = arguments.log_x;
  return curves;
}

pictures::Bars read_bars(const std::string& file, const std::string& field) {
  const nlohmann::json json = solve::read_json_file("plot bars", file);
  const solve::JsonNode root("plot bars", file, json);
  root.require_object();
  if (root.has("rows")) return bench_bars(root, field.empty() ? "seconds" : field);
  root.allow_only({"title", "value", "groups", "series"});
  pictures::Bars bars;
  bars.title = text_at(root, "title");
  bars.value_title = text_at(root, "value");
  bars.groups = root.at("groups").texts();
  for (const solve::JsonNode& node : root.at("series").items()) {
    node.require_object();
    node.allow_only({"name", "values"});
    bars.series.push_back({node.at("name").text(), numbers_or_null(node.at("values"))});
  }
  return bars;
}

pictures::Scaling read_scaling(const std::string& file, const std::string& field) {
  const nlohmann::json json = solve::read_json_file("plot scaling", file);
  const solve::JsonNode root("plot scaling", file, json);
  root.require_object();
  if (root.has("rows")) return bench_scaling(root, field.empty() ? "seconds" : field);
  root.allow_only({"title", "x", "y", "series", "slopes"});
  pictures::Scaling scaling;
  scaling.title = text_at(root, "title");
  scaling.x_title = text_at(root, "x");
  scaling.y_title = text_at(root, "y");
  for (const solve::JsonNode& node : root.at("series").items()) {
    node.require_object();
    node.allow_only({"name", "x", "y"});
    scaling.series.push_back({node.at("name").text(), node.at("x").numbers(), numbers_or_null(node.at("y"))});
  }
  if (const auto slopes = root.find("slopes")) scaling.slopes = slopes->numbers();
  return scaling;
}

}  // namespace rapt::cli
