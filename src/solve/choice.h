#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attend/either.h"
#include "rapt/dtype.h"
#include "rapt/error.h"

// Choices by name, in options and in files. `argument` is what errors begin with, as in "attend: --window".
namespace rapt {

// Throws "ARGUMENT: expected EXPECTED, got 'TEXT'".
[[noreturn]] inline void refuse(std::string_view argument, std::string_view text, std::string_view expected) {
  throw Error(std::string(argument) + ": expected " + std::string(expected) + ", got '" + std::string(text) + "'");
}

template <class T>
using Choices = std::initializer_list<std::pair<std::string_view, T>>;

// The choice of that name; the error lists all names.
template <class T>
T parse_choice(std::string_view argument, std::string_view text, Choices<T> choices) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
  }
  refuse(argument, text, either(names));
}

inline Dtype parse_dtype(std::string_view argument, std::string_view text) {
  return parse_choice<Dtype>(argument, text,
                             {{"f32", Dtype::f32}, {"f64", Dtype::f64}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}});
}

}  // namespace rapt
