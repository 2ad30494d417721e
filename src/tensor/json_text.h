#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace rapt::inline v1 {

// Deeper nesting was written neither by a person nor by Rapt, and would overflow a thread's stack when the tree is
// copied, printed or destroyed.
inline constexpr int kMostJsonLevels = 32;

// Throws rapt::Error, beginning with `where`, for JSON that is nested deeper, without building it.
void require_json_levels(const std::string& where, std::string_view text);

// The value of untrusted text; discarded if it is not JSON. All files, and texts inside files, are read by this.
template <class Json = nlohmann::json>
Json parse_json(const std::string& where, std::string_view text) {
  require_json_levels(where, text);
  return Json::parse(text.begin(), text.end(), nullptr, false);
}

}  // namespace rapt::inline v1
