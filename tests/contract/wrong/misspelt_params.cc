// expected: rapt: params: the engine does not read this name; did you mean parameters?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array params{rapt::ParameterSpec{.name = "m"}};
};

rapt::Score score = rapt::custom(Wrong{});
