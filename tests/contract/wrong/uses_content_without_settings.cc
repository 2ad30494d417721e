// expected: rapt: uses_content: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  bool uses_content() const { return false; }
};

rapt::Score score = rapt::custom(Wrong{});
