// expected: rapt: indices: the engine does not call this name; did you mean index?
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  std::int64_t indices(std::int64_t offset, const rapt::TableShape&) const { return offset; }
};

rapt::Score score = rapt::custom(Wrong{});
