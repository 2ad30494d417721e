#pragma once

#include "rapt/mechanism.h"

namespace rapt::mechanisms {

// δ = key − query, so center is where the head looks.
struct Quadratic {
  static constexpr std::string_view formula = "−α(‖δ‖² − 2 δ·Δ), δ = key − query on the grid";
  static constexpr bool grid = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "alpha", .heads = Heads::required},
      ParameterSpec{.name = "center", .heads = Heads::required, .sizes = {2}},
  };

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
