// expected: rapt: unit_row: the engine does not read this name; did you mean unit_rows?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr bool unit_row = true;
};

rapt::Score score = rapt::custom(Wrong{});
