#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "mechanisms/describe.h"
#include "rapt/c.h"
#include "rapt/hooks.h"

namespace rapt::inline v1::c {

// A mechanism or a normaliser as C sees it. Texts end with a NUL; a deque does not move them.
struct Listed {
  Listed(std::string_view its_name, std::string_view its_formula, std::span<const ParameterSpec> its_parameters)
      : name(keep(std::string(its_name))), formula(keep(std::string(its_formula))) {
    for (const ParameterSpec& spec : its_parameters)
      parameters.push_back({keep(std::string(spec.name)), keep(shape_text(spec)), keep(role_text(spec)),
                            static_cast<std::int32_t>(spec.heads), spec.required ? 1 : 0});
  }

  const char* keep(std::string text) { return texts.emplace_back(std::move(text)).c_str(); }

  std::deque<std::string> texts;
  const char* name;
  const char* formula;
  std::vector<rapt_parameter_info> parameters;
};

template <class T>
const T* element(const std::vector<T>& list, std::size_t index) {
  return index < list.size() ? &list[index] : nullptr;
}

}  // namespace rapt::inline v1::c
