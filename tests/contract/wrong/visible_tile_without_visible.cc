// expected: rapt: visible_tile: expected visible() too
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  rapt::Visible visible_tile(const rapt::TileRange&) const { return rapt::Visible::some; }
};

rapt::Score score = rapt::custom(Wrong{});
