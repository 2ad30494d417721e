// expected: rapt: use_content: the engine does not call this name; did you mean uses_content?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  bool use_content(std::span<const double>) const { return false; }
};

rapt::Score score = rapt::custom(Wrong{});
