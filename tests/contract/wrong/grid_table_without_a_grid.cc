// expected: rapt: parameters: expected grid = true
#include "rapt/custom.h"

struct Wrong {
  static constexpr std::string_view formula = "a formula";
  static constexpr std::array parameters{rapt::ParameterSpec{
      .name = "t", .role = rapt::Role::relative_value, .sizes = {rapt::kAny}, .along = rapt::Along::grid_row}};
  std::int64_t index(std::int64_t offset, const rapt::TableShape&) const { return offset; }
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    return raw * at.scale + p[0];
  }
};

rapt::Score score = rapt::custom(Wrong{});
