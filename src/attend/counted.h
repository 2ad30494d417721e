#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace rapt::inline v1 {

// A count with its noun: "1 key", "12 keys", "2 batches". Regular plurals only.
std::string counted(std::integral auto count, std::string_view noun) {
  std::string text = std::to_string(count) + " " + std::string(noun);
  if (count == 1) return text;
  const bool soft = noun.ends_with("ch") && !noun.ends_with("epoch");
  if (noun.ends_with("s") || soft || noun.ends_with("x")) return text + "es";
  if (noun.ends_with("ry")) return text.replace(text.size() - 1, 1, "ies");  // query, entry
  return text + "s";
}

}  // namespace rapt::inline v1
