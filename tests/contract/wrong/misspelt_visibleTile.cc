// expected: rapt: visibleTile: the engine does not call this name; did you mean visible_tile?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class At>
  auto visible(const At& at) const {
    return at.j <= at.i;
  }
  rapt::Visible visibleTile(const rapt::TileRange&) const { return rapt::Visible::some; }
};

rapt::Score score = rapt::custom(Wrong{});
