// expected: rapt: parameters: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  std::array<rapt::ParameterSpec, 1> parameters{rapt::ParameterSpec{.name = "m"}};
};

rapt::Score score = rapt::custom(Wrong{});
