#include "tensor/json_text.h"

#include "rapt/error.h"

namespace rapt::inline v1 {

// A parser meets the same brackets and strings until it finds that the text is not JSON.
void require_json_levels(const std::string& where, std::string_view text) {
  int level = 0;
  bool quoted = false;
  for (std::size_t n = 0; n < text.size(); ++n) {
    const char c = text[n];
    if (quoted) {
      if (c == '\\') ++n;
      else quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == ']' || c == '}') {
      --level;
    } else if ((c == '[' || c == '{') && ++level > kMostJsonLevels) {
      throw Error(where + ": expected at most " + std::to_string(kMostJsonLevels) + " levels of nesting, got more");
    }
  }
}

}  // namespace rapt::inline v1
