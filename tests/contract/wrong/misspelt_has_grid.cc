// expected: rapt: has_grid: the engine does not read this name; did you mean grid?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr bool has_grid = true;
};

rapt::Score score = rapt::custom(Wrong{});
