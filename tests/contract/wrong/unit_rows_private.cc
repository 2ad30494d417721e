// expected: rapt: unit_rows: expected a public
#include "rapt/custom.h"

class Wrong {
 public:
  static constexpr std::string_view formula = "a formula";

 private:
  static constexpr bool unit_rows = true;
};

rapt::Score score = rapt::custom(Wrong{});
