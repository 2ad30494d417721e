#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

// δ = key − query, so center is where the head looks.
struct Quadratic {
  static constexpr std::string_view formula = "−α(‖δ‖² − 2 δ·Δ), δ = key − query on the grid";
  static constexpr bool grid = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "alpha", .heads = Heads::required},
      ParameterSpec{.name = "center", .heads = Heads::required, .sizes = {2}, .fresh = {.value = 0, .spread = 1}},
  };

  // Not from the form: here the offsets, which are integers, stay exact.
  template <class N, class P, class At>
  constexpr N score(N, const P& p, const At& at) const {
    return -p[0] * ((at.row - p[1] * 2) * at.row + (at.col - p[2] * 2) * at.col) * at.scale;
  }

  template <class N, class P>
  constexpr QuadraticForm<N> form(const P& p) const {
    return {.constant = N(0),
            .row = p[0] * p[1] * 2,
            .col = p[0] * p[2] * 2,
            .row_row = -p[0],
            .col_col = -p[0],
            .row_col = N(0)};
  }
};

}  // namespace rapt::mechanisms
