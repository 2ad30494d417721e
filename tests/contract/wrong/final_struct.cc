// expected: rapt: expected a struct that is not final
#include "rapt/custom.h"

struct Wrong final {
  static constexpr std::string_view formula = "a formula";
};

rapt::Score score = rapt::custom(Wrong{});
