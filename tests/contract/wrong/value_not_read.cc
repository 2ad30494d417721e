// expected: rapt: parameters: expected a score() or form()
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{rapt::ParameterSpec{.name = "m"}};
};

rapt::Score score = rapt::custom(Wrong{});
