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

// A place in a JSON file that knows its name, so that whatever is wrong there can be told: "FILE: heads[1].W_Q: …".
class JsonNode {
 public:
  JsonNode(std::string verb, std::string file, const nlohmann::json& value);

  [[noreturn]] void fail(const std::string& what) const;
  std::string where() const;  // "VERB: FILE: KEY", as errors begin
  std::string kind() const;   // "a list of 3", as errors end
  // The same place with another value in it, which must outlive the node.
  JsonNode with_value(const nlohmann::json& value) const { return JsonNode(*this, value, path_); }
  const nlohmann::json& value() const { return *value_; }

  bool has(std::string_view key) const;
  JsonNode at(std::string_view key) const;  // the key must be there
  std::optional<JsonNode> find(std::string_view key) const;
  std::vector<JsonNode> items() const;  // of a list
  // Refuses keys that nothing reads: a misspelt one would be silently ignored.
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

// Where the texts of files come from: the disk, or the examples that the tool carries.
using FileReader = std::function<std::string(const std::string& file)>;
std::string read_from_disk(const std::string& file);

// Reads a file. A key "base" names another file beside it, which this one changes (JSON merge patch).
nlohmann::json read_json_file(const std::string& verb, const std::string& file,
                              const FileReader& reader = read_from_disk);

// A double as short as it can be written without loss: 0.1, 3, 1e-05.
std::string shortest(double x);

}  // namespace rapt::solve
