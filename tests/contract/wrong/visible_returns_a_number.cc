// expected: rapt: visible: expected a public
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  template <class At>
  auto visible(const At& at) const {
    return at.offset();
  }
};

rapt::Score score = rapt::custom(Wrong{});
