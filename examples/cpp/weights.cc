// What one head looks at: its weights, and statistics of every row, from the fused pass.
#include "example.h"

int main() {
  constexpr std::int64_t H = 3, Sq = 5, Sk = 9, D = 4, top = 2, head = 1;
  const std::vector<float> q = random_numbers(H * Sq * D, 1), k = random_numbers(H * Sk * D, 2),
                           v = random_numbers(H * Sk * D, 3);
  std::vector<float> out(H * Sq * D), weights(Sq * Sk), entropy(H * Sq), position(H * Sq), top_weights(H * Sq * top);
  std::vector<std::int64_t> top_keys(H * Sq * top);

  rapt::Outputs outputs;
  outputs.out = {rapt::view(out.data(), {H, Sq, D})};
  // Only the requested rows and heads are ever stored; the statistics are linear in the rows.
  outputs.weights = {
      {.batch = 0, .head = head, .row_begin = 0, .row_end = Sq, .out = rapt::view(weights.data(), {Sq, Sk})}};
  outputs.statistics.entropy = rapt::view(entropy.data(), {H, Sq, 1});
  outputs.statistics.position = rapt::view(position.data(), {H, Sq, 1});
  outputs.statistics.top_k = top;
  outputs.statistics.top_indices = top_keys.data();
  outputs.statistics.top_weights = rapt::view(top_weights.data(), {H, Sq, top});
  rapt::attend({.q = rapt::view(q.data(), {H, Sq, D}),
                .k = rapt::view(k.data(), {H, Sk, D}),
                .v = {rapt::view(v.data(), {H, Sk, D})}},
               outputs);

  bool holds = true;
  for (std::int64_t i = 0; i < Sq; ++i) {
    const std::int64_t row = head * Sq + i;
    double sum = 0, mean = 0, nats = 0;
    for (std::int64_t j = 0; j < Sk; ++j) {
      const double w = weights[i * Sk + j];
      std::printf("%5.2f", w);
      sum += w;
      mean += w * static_cast<double>(j);
      nats -= w * std::log(w);
    }
    std::printf("   entropy %.2f  position %.2f  most on key %ld\n", static_cast<double>(entropy[row]),
                static_cast<double>(position[row]), static_cast<long>(top_keys[row * top]));
    holds = holds && std::abs(sum - 1) < 1e-5 && std::abs(mean - position[row]) < 1e-4 &&
            std::abs(nats - entropy[row]) < 1e-4;
    holds = holds && weights[i * Sk + top_keys[row * top]] ==
                         *std::max_element(weights.begin() + i * Sk, weights.begin() + (i + 1) * Sk);
  }
  return finish("the statistics follow from the weights", holds);
}
