// expected: rapt: parameters: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static std::array<rapt::ParameterSpec, 1> parameters;
};

rapt::Score score = rapt::custom(Wrong{});
