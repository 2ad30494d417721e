// expected: rapt: visible_tile: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class At>
  auto visible(const At& at) const {
    return at.j <= at.i;
  }
  bool visible_tile(const rapt::TileRange& tile) const { return tile.first_key <= tile.last_query; }
};

rapt::Score score = rapt::custom(Wrong{});
