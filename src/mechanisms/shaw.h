#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

struct Shaw {
  static constexpr std::string_view formula = "q·(k + a[clip(j−i,±c)+c])/√Dk";
  static constexpr bool scaled = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "a", .role = Role::relative_vector, .heads = Heads::shared, .sizes = {kOdd, kKeyDim}},
  };

  // a has 2c+1 rows.
  constexpr std::int64_t index(std::int64_t offset, const TableShape& table) const {
    const std::int64_t c = (table.rows - 1) / 2;
    return clamp(offset, -c, c) + c;
  }

  template <class N, class P, class At>
  constexpr N score(N raw, const P& p, const At& at) const {
    return (raw + p[0]) * at.scale;
  }
};

}  // namespace rapt::mechanisms
