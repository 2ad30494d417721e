#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "cli/options.h"
#include "cli/plot_inputs.h"
#include "pictures/text.h"
#include "solve/json_node.h"
#include "tensor/files.h"

// Named numbers from JSON files, for bars and scaling lines.
namespace rapt::cli {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// A list of numbers; null is a missing one.
std::vector<double> numbers_or_null(const solve::JsonNode& node) {
  std::vector<double> values;
  for (const solve::JsonNode& item : node.items()) values.push_back(item.value().is_null() ? kMissing : item.number());
  return values;
}

std::string text_at(const solve::JsonNode& node, const char* key) {
  const auto found = node.find(key);
  return found ? found->text() : "";
}

// A row of `rapt bench --json`: its label and one of its numbers.
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
    if (shape.size() != 4) node.at("shape").fail("expected [B, H, S, D], got " + counted(shape.size(), "number"));
    for (const std::int64_t size : shape) row.shape += (row.shape.empty() ? "" : ",") + std::to_string(size);
    row.length = static_cast<double>(shape[2]);
    const auto found = node.find(field);
    if (!found) {
      std::vector<std::string> names;
      for (const auto& [key, item] : node.value().items())
        if (item.is_number()) names.push_back(key);
      node.fail("expected one of the fields " + joined(names) + ", got '" + field + "'");
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
