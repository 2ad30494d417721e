#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "attend/either.h"
#include "rapt/error.h"
#include "tasks/fields.h"
#include "tensor/json_text.h"

// Visitors of fields.h: to JSON, from JSON, and from the text of options.
namespace rapt::inline v1::tasks {

template <class E>
std::string known_names() {
  std::vector<std::string_view> names;
  for (const auto& entry : Names<E>::list) names.push_back(entry.first);
  return either(names);
}

template <class E>
E parse_name(const std::string& what, const std::string& text) {
  for (const auto& [name, value] : Names<E>::list)
    if (name == text) return value;
  throw Error(what + ": expected " + known_names<E>() + ", got '" + text + "'");
}

class FieldWriter {
 public:
  explicit FieldWriter(nlohmann::ordered_json& json) : json_(json) {}

  template <class T>
  void operator()(const char* name, const T& value, const char*) {
    if constexpr (std::is_enum_v<T>) json_[name] = name_of(value);
    else json_[name] = value;
  }
  template <class T>
  void operator()(const char* name, const T& value, double, double, const char*) {
    json_[name] = value;
  }

 private:
  nlohmann::ordered_json& json_;
};

template <class T>
void check_range(const std::string& what, const T& value, double low, double high) {
  const auto x = static_cast<double>(value);
  if (x >= low && x <= high) return;
  const auto text = [](double n) {
    return nlohmann::json(n == std::floor(n) && std::abs(n) < 1e15 ? nlohmann::json(static_cast<std::int64_t>(n))
                                                                   : nlohmann::json(n))
        .dump();
  };
  throw Error(what + ": expected " + text(low) + " to " + text(high) + ", got " + text(x));
}

// Removes the fields it finds from the object; what is left is unknown.
class FieldReader {
 public:
  FieldReader(std::string file, nlohmann::json& json) : file_(std::move(file)), json_(json) {}

  template <class T>
  void operator()(const char* name, T& value, const char*) {
    take(name, [&](const nlohmann::json& found) {
      if constexpr (std::is_enum_v<T>) value = parse_name<T>(what(name), found.get<std::string>());
      else found.get_to(value);
    });
  }
  template <class T>
  void operator()(const char* name, T& value, double low, double high, const char*) {
    take(name, [&](const nlohmann::json& found) {
      if (!found.is_number() || (std::is_integral_v<T> && !found.is_number_integer()))
        throw Error(what(name) + ": expected a " + (std::is_integral_v<T> ? "whole " : "") + "number, got " +
                    found.dump());
      check_range(what(name), found.get<double>(), low, high);
      found.get_to(value);
    });
  }

  // Throws if any field is left.
  void done() const {
    if (!json_.empty()) throw Error(file_ + ": expected settings that exist here, got '" + json_.begin().key() + "'");
  }

 private:
  std::string what(const char* name) const { return file_ + ": " + name; }
  template <class F>
  void take(const char* name, F&& f) {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    try {
      f(*found);
    } catch (const nlohmann::json::exception& e) {
      throw Error(what(name) + ": got " + found->dump() + ": " + e.what());
    }
    json_.erase(found);
  }

  std::string file_;
  nlohmann::json& json_;
};

// Sets fields from options given as text: {"hidden", "128"}. Removes what it finds from the map.
class FieldSetter {
 public:
  explicit FieldSetter(std::map<std::string, std::string>& texts) : texts_(texts) {}

  template <class T>
  void operator()(const char* name, T& value, const char*) {
    take(name, [&](const std::string& text) {
      if constexpr (std::is_enum_v<T>) value = parse_name<T>(what(name), text);
      else if constexpr (std::is_same_v<T, bool>) {
        if (text != "true" && text != "false") throw Error(what(name) + ": expected true or false, got '" + text + "'");
        value = text == "true";
      } else {
        value = text;
      }
    });
  }
  template <class T>
  void operator()(const char* name, T& value, double low, double high, const char*) {
    take(name, [&](const std::string& text) {
      const nlohmann::json number = parse_json(what(name), text);
      if (!number.is_number() || (std::is_integral_v<T> && !number.is_number_integer()))
        throw Error(what(name) + ": expected a " + (std::is_integral_v<T> ? "whole " : "") + "number, got '" + text +
                    "'");
      check_range(what(name), number.get<double>(), low, high);
      number.get_to(value);
    });
  }

 private:
  static std::string what(const char* name) { return std::string("setting ") + name; }
  template <class F>
  void take(const char* name, F&& f) {
    const auto found = texts_.find(name);
    if (found == texts_.end()) return;
    f(found->second);
    texts_.erase(found);
  }

  std::map<std::string, std::string>& texts_;
};

}  // namespace rapt::inline v1::tasks
