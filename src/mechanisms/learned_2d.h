#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

struct Learned2d {
  static constexpr std::string_view formula = "q·(row[δ₁+R−1] + col[δ₂+C−1] + c·k)/√Dk";
  static constexpr bool scaled = true;
  static constexpr bool grid = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "row",
                    .role = Role::relative_vector,
                    .heads = Heads::shared,
                    .sizes = {kGridRows, kKeyDim},
                    .along = Along::grid_row},
      ParameterSpec{.name = "col",
                    .role = Role::relative_vector,
                    .heads = Heads::shared,
                    .sizes = {kGridCols, kKeyDim},
                    .along = Along::grid_col},
  };
  static constexpr std::array settings{SettingSpec{.name = "content", .value = 0, .low = 0, .high = 1}};

  constexpr bool uses_content(std::span<const double> s) const { return s[0] != 0; }

  // The table has 2·size − 1 rows, the middle one for offset 0.
  constexpr std::int64_t index(std::int64_t offset, const TableShape& table) const {
    return offset + (table.rows - 1) / 2;
  }

  // Without content the engine passes a raw score of 0.
  template <class N, class P, class At>
  constexpr N score(N raw, const P& p, const At& at) const {
    return (p[0] + p[1] + raw) * at.scale;
  }
};

}  // namespace rapt::mechanisms
