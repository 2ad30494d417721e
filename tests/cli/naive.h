#pragma once

#include <cmath>
#include <cstdint>
#include <functional>

#include "tests/cli/run_cli.h"

namespace rapt::test {

// Scaled dot attention written out, in double precision. Every array is [B, H, S, D].
struct Naive {
  std::int64_t B = 1, H = 1, Sq = 1, Sk = 1, D = 1, Dv = 1;
  Numbers q, k, v;
  std::function<double(int b, int h, int i, int j, double score)> change = [](int, int, int, int, double s) {
    return s;
  };

  Numbers weights, out, lse;

  std::size_t at(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t rows, std::int64_t d,
                 std::int64_t dim) const {
    return static_cast<std::size_t>(((b * H + h) * rows + s) * dim + d);
  }

  void forward() {
    weights.assign(static_cast<std::size_t>(B * H * Sq * Sk), 0);
    out.assign(static_cast<std::size_t>(B * H * Sq * Dv), 0);
    lse.assign(static_cast<std::size_t>(B * H * Sq), 0);
    for (int b = 0; b < B; ++b)
      for (int h = 0; h < H; ++h)
        for (int i = 0; i < Sq; ++i) {
          double sum = 0;
          for (int j = 0; j < Sk; ++j) {
            double score = 0;
            for (int d = 0; d < D; ++d) score += q[at(b, h, i, Sq, d, D)] * k[at(b, h, j, Sk, d, D)];
            const double weight = std::exp(change(b, h, i, j, score / std::sqrt(double(D))));
            weights[at(b, h, i, Sq, j, Sk)] = weight;
            sum += weight;
          }
          lse[at(b, h, i, Sq, 0, 1)] = std::log(sum);
          for (int j = 0; j < Sk; ++j) {
            if (sum > 0) weights[at(b, h, i, Sq, j, Sk)] /= sum;
            for (int d = 0; d < Dv; ++d)
              out[at(b, h, i, Sq, d, Dv)] += weights[at(b, h, i, Sq, j, Sk)] * v[at(b, h, j, Sk, d, Dv)];
          }
        }
  }

  // The gradient with respect to the final scores, [B, H, Sq, Sk].
  Numbers score_gradient(const Numbers& grad) const {
    Numbers result(weights.size());
    for (int b = 0; b < B; ++b)
      for (int h = 0; h < H; ++h)
        for (int i = 0; i < Sq; ++i) {
          double mean = 0;
          for (int pass = 0; pass < 2; ++pass)
            for (int j = 0; j < Sk; ++j) {
              double by_weight = 0;
              for (int d = 0; d < Dv; ++d) by_weight += grad[at(b, h, i, Sq, d, Dv)] * v[at(b, h, j, Sk, d, Dv)];
              const std::size_t pair = at(b, h, i, Sq, j, Sk);
              if (pass == 0) mean += weights[pair] * by_weight;
              else result[pair] = weights[pair] * (by_weight - mean);
            }
        }
    return result;
  }
};

inline Naive random_problem(std::int64_t B, std::int64_t H, std::int64_t Sq, std::int64_t Sk, std::int64_t D,
                            std::int64_t Dv) {
  Naive p;
  p.B = B, p.H = H, p.Sq = Sq, p.Sk = Sk, p.D = D, p.Dv = Dv;
  p.q = pseudo_random(static_cast<std::size_t>(B * H * Sq * D), 1);
  p.k = pseudo_random(static_cast<std::size_t>(B * H * Sk * D), 2);
  p.v = pseudo_random(static_cast<std::size_t>(B * H * Sk * Dv), 3);
  return p;
}

}  // namespace rapt::test
