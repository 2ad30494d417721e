// expected: rapt: is_scaled: the engine does not read this name; did you mean scaled?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr bool is_scaled = true;
};

rapt::Score score = rapt::custom(Wrong{});
