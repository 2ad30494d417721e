// expected: rapt: grid: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  bool grid() const { return true; }
};

rapt::Score score = rapt::custom(Wrong{});
