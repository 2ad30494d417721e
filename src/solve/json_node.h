#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "solve/matrix.h"

namespace rapt::solve {

// A node of a JSON file that knows its path, for error messages: "FILE: heads[1].W_Q: …".
class JsonNode {
 public:
  JsonNode(std::string verb, std::string file, const nlohmann::json& value);

  [[noreturn]] void fail(const std::string& what) const;
  std::string where() const;  // "VERB: FILE: KEY", as errors begin
  std::string kind() const;   // "a list of 3", as errors end
  // The same path with another value, which must outlive the node.
  JsonNode with_value(const nlohmann::json& value) const { return JsonNode(*this, value, path_); }
  const nlohmann::json& value() const { return *value_; }

  bool has(std::string_view key) const;
  JsonNode at(std::string_view key) const;  // throws if the key is missing
  std::optional<JsonNode> find(std::string_view key) const;
  std::vector<JsonNode> items() const;  // of a list
  // Refuses unknown keys: a misspelt one would be silently ignored.
  void allow_only(std::initializer_list<std::string_view> keys, std::string_view prefix_allowed = {}) const;

  void require_object() const;
  std::string text() const;
  bool boolean() const;
  double number() const;
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  std::vector<double> numbers() const;  // a list of at least one number
  std::vector<std::int64_t> integers(std::int64_t low, std::int64_t high) const;
  std::vector<std::string> texts() const;
  // [[…], …], or one row […]; {"ones": [r, c]}, {"zeros": [r, c]}, {"identity": n}.
  Matrix matrix() const;

 private:
  JsonNode(const JsonNode& parent, const nlohmann::json& value, std::string path);

  std::string verb_;
  std::string file_;
  std::string path_;
  const nlohmann::json* value_;
};

// Reads a file's text: from the disk, or from the examples embedded in the tool.
using FileReader = std::function<std::string(const std::string& file)>;
std::string read_from_disk(const std::string& file);

// Reads a file. The key "base" names another file beside it, to which this one is a JSON merge patch.
nlohmann::json read_json_file(const std::string& verb, const std::string& file,
                              const FileReader& reader = read_from_disk);

// The shortest text that gives the same double: 0.1, 3, 1e-05.
std::string shortest(double x);

}  // namespace rapt::solve
