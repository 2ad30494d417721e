#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace rapt::inline v1 {

// What is nested deeper was not written by a person or by Rapt, and would take more than a thread's stack where the tree is
// copied, printed or destroyed.
inline constexpr int kMostJsonLevels = 32;

// Throws rapt::Error, beginning with `where`, for a text of JSON that is nested deeper. Nothing is built of it.
void require_json_levels(const std::string& where, std::string_view text);

// The value of a text from outside; discarded where it is not JSON. All files, and texts inside files, are read by this.
template <class Json = nlohmann::json>
Json parse_json(const std::string& where, std::string_view text) {
  require_json_levels(where, text);
  return Json::parse(text.begin(), text.end(), nullptr, false);
}

}  // namespace rapt::inline v1
