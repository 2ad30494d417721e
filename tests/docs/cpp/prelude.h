#pragma once

#include <rapt/rapt.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "kerple.h"

// What the pages' code takes for granted: sizes, and memory with numbers in it.
constexpr std::int64_t B = 2, H = 4, Hk = 2, S = 24, Sq = 8, Sk = 24, D = 16, Dv = 8, R = 4, C = 6;

inline float* numbers() {
  static std::vector<std::vector<float>> all;
  all.emplace_back(B * H * S * S * D);
  for (std::size_t n = 0; n < all.back().size(); ++n)
    all.back()[n] = static_cast<float>((n * 7 + all.size()) % 11) / 11.0F;
  return all.back().data();
}

inline float *q = numbers(), *k = numbers(), *v = numbers(), *v2 = numbers(), *out = numbers(), *out2 = numbers(),
             *lse = numbers(), *bias = numbers(), *per_head = numbers(), *slopes = numbers(), *table = numbers(),
             *grad_out = numbers(), *dq = numbers(), *dk = numbers(), *dv = numbers(), *dbias = numbers(),
             *d_per_head = numbers(), *weights = numbers(), *entropy = numbers(), *position = numbers();
inline std::vector<std::uint8_t> visible(B* H* S* S, 1);
