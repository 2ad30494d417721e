#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

struct Shaw {
  static constexpr std::string_view formula =
      "q·(k + a[clip(j−i,±c)+c])/√Dk; with values: out also gets Σ w·values[clip(j−i,±c)+c]";
  static constexpr bool scaled = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "a", .role = Role::relative_vector, .heads = Heads::shared, .sizes = {kOdd, kKeyDim}},
      ParameterSpec{.name = "values",
                    .role = Role::relative_output,
                    .heads = Heads::shared,
                    .sizes = {kOdd, kValueDim},
                    .required = false},
  };

  // Both tables have 2c+1 rows, each with its own c.
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
