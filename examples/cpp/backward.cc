// Gradient descent on the queries: forward, loss, backward.
#include "example.h"

int main() {
  constexpr std::int64_t H = 2, S = 8, D = 4;
  std::vector<float> q = random_numbers(H * S * D, 1);
  const std::vector<float> k = random_numbers(H * S * D, 2), v = random_numbers(H * S * D, 3);
  const std::vector<float> target = random_numbers(H * S * D, 4);
  std::vector<float> out(q.size()), grad_out(q.size()), grad_q(q.size());

  const rapt::Inputs inputs{.q = rapt::view(q.data(), {H, S, D}),
                            .k = rapt::view(k.data(), {H, S, D}),
                            .v = {rapt::view(v.data(), {H, S, D})}};
  rapt::Saved saved;  // keeps the maximum and the sum of every row, so that backward need not recompute them
  rapt::Outputs outputs;
  outputs.out = {rapt::view(out.data(), {H, S, D})};
  outputs.saved = &saved;
  rapt::Gradients gradients;
  gradients.q = rapt::view(grad_q.data(), {H, S, D});  // what is left out is not computed

  double first = 0, last = 0;
  for (int step = 0; step < 100; ++step) {
    rapt::attend(inputs, outputs);
    last = 0;
    for (std::size_t n = 0; n < out.size(); ++n) {
      grad_out[n] = out[n] - target[n];
      last += 0.5 * static_cast<double>(grad_out[n]) * static_cast<double>(grad_out[n]);
    }
    if (step == 0) first = last;
    rapt::attend_backward(inputs, {outputs.out[0]}, {rapt::view(grad_out.data(), {H, S, D})}, &saved, gradients);
    for (std::size_t n = 0; n < q.size(); ++n) q[n] -= 0.5F * grad_q[n];
  }
  std::printf("loss %.3f → %.3f\n", first, last);
  return finish("the loss fell", last < 0.9 * first);
}
