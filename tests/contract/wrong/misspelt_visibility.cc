// expected: rapt: visibility: the engine does not call this name; did you mean visible?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class At>
  auto visibility(const At& at) const {
    return at.j <= at.i;
  }
};

rapt::Score score = rapt::custom(Wrong{});
