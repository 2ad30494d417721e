#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

// The four terms are two products: (q+u)·k and (q+v)·r.
struct TransformerXl {
  static constexpr std::string_view formula = "(q·k + q·r + u·k + v·r)/√Dk, r = r[j−i+origin]";
  static constexpr bool scaled = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "r", .role = Role::relative_vector, .sizes = {kPositions, kKeyDim}},
      ParameterSpec{.name = "u", .role = Role::query_shift, .heads = Heads::required, .sizes = {kKeyDim}},
      ParameterSpec{.name = "v", .role = Role::relative_query_shift, .heads = Heads::required, .sizes = {kKeyDim}},
  };

  // The row of distance 0; −1: rows − Sk, the last row being that of the farthest key after the first query.
  static constexpr std::array settings{SettingSpec{.name = "origin", .value = -1, .low = -1, .high = 1e9}};

  constexpr std::int64_t index(std::int64_t offset, const TableShape& table) const {
    const auto origin = static_cast<std::int64_t>(table.settings[0]);
    return offset + (origin < 0 ? table.rows - table.keys : origin);
  }

  template <class N, class P, class At>
  constexpr N score(N raw, const P& p, const At& at) const {
    return (raw + p[0]) * at.scale;
  }
};

}  // namespace rapt::mechanisms
