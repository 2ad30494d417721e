#include "solve/json_node.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/files.h"
#include "tensor/json_text.h"

namespace rapt::solve {
namespace {

constexpr std::uint64_t kMaxFileBytes = 64 << 20;
constexpr std::int64_t kMaxMatrixSide = 1 << 14;
constexpr int kMaxBases = 8;

// Text as JSON writes it: quoted, on one line.
std::string quoted(const std::string& text) {
  const std::string start = text.size() > 40 ? text.substr(0, 40) + "…" : text;
  return nlohmann::json(start).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// With U+FFFD for bytes of a file that are not UTF-8.
std::string readable(const std::string& text) {
  const std::string clean = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(clean).get<std::string>();
}

// The kind of a value, in words.
std::string kind_of(const nlohmann::json& value) {
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_string()) return "the string " + quoted(value.get<std::string>());
  if (value.is_object()) return "an object";
  if (value.is_null()) return "null";
  return value.dump();
}

nlohmann::json parse(const std::string& verb, const std::string& file, const FileReader& reader) {
  const std::string text = reader(file);
  require_json_levels(verb + ": " + file, text);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    std::string what = e.what();
    if (const auto end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    throw Error(verb + ": " + file + ": expected valid JSON, got: " + readable(what));
  }
}

nlohmann::json read_with_bases(const std::string& verb, const std::string& file, const FileReader& reader, int depth) {
  nlohmann::json value = parse(verb, file, reader);
  if (!value.is_object() || !value.contains("base")) return value;
  const JsonNode node(verb, file, value);
  if (depth == kMaxBases)
    node.at("base").fail("expected a chain of at most " + std::to_string(kMaxBases) + " files, got a longer one");
  const std::filesystem::path base = std::filesystem::path(file).parent_path() / node.at("base").text();
  nlohmann::json result = read_with_bases(verb, base.string(), reader, depth + 1);
  JsonNode(verb, base.string(), result).require_object();
  value.erase("base");
  result.merge_patch(value);
  return result;
}

}  // namespace

JsonNode::JsonNode(std::string verb, std::string file, const nlohmann::json& value)
    : verb_(std::move(verb)), file_(std::move(file)), value_(&value) {}

JsonNode::JsonNode(const JsonNode& parent, const nlohmann::json& value, std::string path)
    : verb_(parent.verb_), file_(parent.file_), path_(std::move(path)), value_(&value) {}

void JsonNode::fail(const std::string& what) const { throw Error(where() + ": " + what); }

std::string JsonNode::where() const { return verb_ + ": " + file_ + (path_.empty() ? "" : ": " + path_); }

std::string JsonNode::kind() const { return kind_of(*value_); }

void JsonNode::require_object() const {
  if (!value_->is_object()) fail("expected an object {…}, got " + kind_of(*value_));
}

bool JsonNode::has(std::string_view key) const { return value_->is_object() && value_->contains(std::string(key)); }

JsonNode JsonNode::at(std::string_view key) const {
  require_object();
  const std::string name(key);
  if (!value_->contains(name)) fail("expected the key \"" + name + "\", got none");
  return JsonNode(*this, (*value_)[name], path_.empty() ? name : path_ + "." + name);
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return at(key);
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_->is_array() || value_->empty()) fail("expected a list [ … ] of at least one, got " + kind_of(*value_));
  std::vector<JsonNode> result;
  for (std::size_t n = 0; n < value_->size(); ++n)
    result.push_back(JsonNode(*this, (*value_)[n], path_ + "[" + std::to_string(n) + "]"));
  return result;
}

void JsonNode::allow_only(std::initializer_list<std::string_view> keys, std::string_view prefix_allowed) const {
  require_object();
  for (const auto& [key, unused] : value_->items()) {
    if (!prefix_allowed.empty() && key.starts_with(prefix_allowed)) continue;
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    std::string known;
    for (const std::string_view name : keys) known += (known.empty() ? "" : ", ") + std::string(name);
    fail("expected the keys " + known + ", got " + quoted(key));
  }
}

std::string JsonNode::text() const {
  if (!value_->is_string()) fail("expected a string, got " + kind_of(*value_));
  return value_->get<std::string>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) fail("expected true or false, got " + kind_of(*value_));
  return value_->get<bool>();
}

double JsonNode::number() const {
  if (!value_->is_number()) fail("expected a number, got " + kind_of(*value_));
  const double x = value_->get<double>();
  if (!std::isfinite(x)) fail("expected a finite number, got " + value_->dump());
  return x;
}

std::int64_t JsonNode::integer(std::int64_t low, std::int64_t high) const {
  const bool fits =
      value_->is_number_integer() &&
      (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (!fits || value_->get<std::int64_t>() < low || value_->get<std::int64_t>() > high)
    fail("expected an integer from " + std::to_string(low) + " to " + std::to_string(high) + ", got " +
         kind_of(*value_));
  return value_->get<std::int64_t>();
}

std::vector<double> JsonNode::numbers() const {
  std::vector<double> result;
  for (const JsonNode& item : items()) result.push_back(item.number());
  return result;
}

std::vector<std::int64_t> JsonNode::integers(std::int64_t low, std::int64_t high) const {
  std::vector<std::int64_t> result;
  for (const JsonNode& item : items()) result.push_back(item.integer(low, high));
  return result;
}

std::vector<std::string> JsonNode::texts() const {
  std::vector<std::string> result;
  for (const JsonNode& item : items()) result.push_back(item.text());
  return result;
}

Matrix JsonNode::matrix() const {
  if (value_->is_object()) {
    allow_only({"ones", "zeros", "identity"});
    if (value_->size() != 1)
      fail("expected one of {\"ones\": [r, c]}, {\"zeros\": [r, c]}, {\"identity\": n}, got " +
           counted(value_->size(), "key"));
    if (const auto size = find("identity")) {
      const std::int64_t n = size->integer(1, 1024);
      Matrix result(n, n);
      for (std::int64_t i = 0; i < n; ++i) result(i, i) = 1;
      return result;
    }
    const JsonNode shape = has("ones") ? at("ones") : at("zeros");
    const std::vector<std::int64_t> sizes = shape.integers(1, 1024);
    if (sizes.size() != 2) shape.fail("expected [rows, columns], got " + counted(sizes.size(), "number"));
    return Matrix(sizes[0], sizes[1], has("ones") ? 1 : 0);
  }
  const std::vector<JsonNode> rows = items();
  if (!rows.front().value().is_array()) {
    const std::vector<double> row = numbers();
    return reshape(row, 1, static_cast<std::int64_t>(row.size()));
  }
  Matrix result;
  for (const JsonNode& item : rows) {
    const std::vector<double> row = item.numbers();
    const auto cols = static_cast<std::int64_t>(row.size());
    if (result.rows == 0) result.cols = cols;
    if (cols != result.cols)
      item.fail("expected a row of " + counted(result.cols, "number") + " as those before, got " +
                std::to_string(cols));
    result.data.insert(result.data.end(), row.begin(), row.end());
    ++result.rows;
  }
  if (result.rows > kMaxMatrixSide || result.cols > kMaxMatrixSide)
    fail("expected a matrix of at most 16384 rows and columns, got " + std::to_string(result.rows) + " × " +
         std::to_string(result.cols));
  return result;
}

std::string read_from_disk(const std::string& file) { return read_file(file, kMaxFileBytes); }

nlohmann::json read_json_file(const std::string& verb, const std::string& file, const FileReader& reader) {
  return read_with_bases(verb, file, reader, 0);
}

std::string shortest(double x) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, x == 0 ? 0.0 : x).ptr;
  return {text, end};
}

}  // namespace rapt::solve
