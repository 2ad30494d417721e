// expected: rapt: parameters: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{"m"};
};

rapt::Score score = rapt::custom(Wrong{});
