#pragma once

#include <span>
#include <string_view>

#include "reproduce/context.h"
#include "reproduce/section.h"

namespace rapt::reproduce {

struct Part {
  std::string_view name;
  std::string_view about;
  Section (*run)(const Context& context);
};

// In the order of the report. A new part is one file and one line in parts.cc.
std::span<const Part> all_parts();

}  // namespace rapt::reproduce
