// expected: rapt: index: expected a parameter of role relative_value, relative_vector or relative_output
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  std::int64_t index(std::int64_t offset, const rapt::TableShape&) const { return offset; }
};

rapt::Score score = rapt::custom(Wrong{});
