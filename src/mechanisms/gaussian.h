#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

struct Gaussian {
  static constexpr std::string_view formula = "−½ ‖Γ(δ−Δ)‖², δ = key − query on the grid";
  static constexpr bool grid = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "center", .heads = Heads::required, .sizes = {2}, .fresh = {.value = 0, .spread = 1}},
      ParameterSpec{.name = "gamma", .heads = Heads::required, .sizes = {2, 2}},
  };

  // Not from the form, whose terms cancel near a centre far from the query.
  template <class N, class P, class At>
  constexpr N score(N, const P& p, const At& at) const {
    const N x = at.row - p[0];
    const N y = at.col - p[1];
    const N u = p[2] * x + p[3] * y;
    const N v = p[4] * x + p[5] * y;
    return (u * u + v * v) * -0.5 * at.scale;
  }

  // The precision matrix is A = ΓᵀΓ; the form is −½ (δ−Δ)ᵀ A (δ−Δ), written out.
  template <class N, class P>
  constexpr QuadraticForm<N> form(const P& p) const {
    const N a = p[2] * p[2] + p[4] * p[4];
    const N b = p[2] * p[3] + p[4] * p[5];
    const N c = p[3] * p[3] + p[5] * p[5];
    const N ra = a * p[0] + b * p[1];
    const N rb = b * p[0] + c * p[1];
    return {.constant = (ra * p[0] + rb * p[1]) * -0.5,
            .row = ra,
            .col = rb,
            .row_row = a * -0.5,
            .col_col = c * -0.5,
            .row_col = -b};
  }
};

}  // namespace rapt::mechanisms
