// softmax(q·k/√D) v in a few lines.
#include "example.h"

int main() {
  // One query that looks like the first of two keys.
  const std::vector<float> q{1, 0}, k{1, 0, 0, 1}, v{10, 20};
  std::vector<float> out(1);

  rapt::attend(rapt::view(q.data(), {1, 2}), rapt::view(k.data(), {2, 2}), rapt::view(v.data(), {2, 1}),
               rapt::view(out.data(), {1, 1}));

  const double weight = 1 / (1 + std::exp(-1 / std::sqrt(2.0)));
  std::printf("out = %g\n", static_cast<double>(out[0]));
  return finish("as on paper", std::abs(out[0] - (10 * weight + 20 * (1 - weight))) < 1e-5);
}
