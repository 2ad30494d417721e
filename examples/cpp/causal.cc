// Causal attention over arrays stored [batch, sequence, heads, dim], with fewer heads of keys than of queries; then one
// step of decoding, where a single new query meets all keys.
#include "example.h"

int main() {
  constexpr std::int64_t B = 2, S = 10, H = 4, Hk = 2, D = 8;
  const std::vector<float> q = random_numbers(B * S * H * D, 1);
  const std::vector<float> k = random_numbers(B * S * Hk * D, 2), v = random_numbers(B * S * Hk * D, 3);
  std::vector<float> out(q.size());

  const auto keys = rapt::view_bshd(k.data(), B, S, Hk, D);
  const auto values = rapt::view_bshd(v.data(), B, S, Hk, D);
  rapt::AttendOptions options;
  options.mask.causal = rapt::Causal::bottom_right;  // the last query sees the last key
  rapt::attend(rapt::view_bshd(q.data(), B, S, H, D), keys, values, rapt::view_bshd(out.data(), B, S, H, D), options);

  // The last query of every sequence by itself: a view into q, no copy. top_left would let it see one key only.
  rapt::ConstView last = rapt::view_bshd(q.data() + (S - 1) * H * D, B, 1, H, D);
  last.strides[0] = S * H * D;
  std::vector<float> step(B * H * D), expected;
  rapt::attend(last, keys, values, rapt::view_bshd(step.data(), B, 1, H, D), options);

  for (std::int64_t b = 0; b < B; ++b)
    expected.insert(expected.end(), out.begin() + ((b + 1) * S - 1) * H * D, out.begin() + (b + 1) * S * H * D);
  const double difference = largest_difference(step, expected);
  std::printf("largest difference %.1e\n", difference);
  return finish("a step gives the last row of the whole", difference < 1e-5);
}
