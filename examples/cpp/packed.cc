// Sequences of unequal length, packed end to end: no padding is computed, and no sequence sees another.
#include "example.h"

int main() {
  constexpr std::int64_t H = 2, D = 8, total = 12;
  const std::vector<std::int64_t> starts{0, 3, 4, 12};  // three sequences of 3, 1 and 8
  const std::vector<float> q = random_numbers(H * total * D, 1), k = random_numbers(H * total * D, 2),
                           v = random_numbers(H * total * D, 3);
  std::vector<float> out(q.size()), apart(q.size());

  rapt::AttendOptions options;
  options.mask.causal = rapt::Causal::top_left;  // counted from the start of each sequence
  options.mask.query_starts = starts;
  options.mask.key_starts = starts;
  rapt::attend(rapt::view(q.data(), {H, total, D}), rapt::view(k.data(), {H, total, D}),
               rapt::view(v.data(), {H, total, D}), rapt::view(out.data(), {H, total, D}), options);

  // The same, one sequence at a time: views of its rows.
  rapt::AttendOptions alone;
  alone.mask.causal = rapt::Causal::top_left;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    const auto rows = [&](auto* data) {
      auto view = rapt::view(data, {H, total, D});
      view.shape[2] = starts[s + 1] - starts[s];
      view.data = data + starts[s] * D;
      return view;
    };
    rapt::attend(rows(q.data()), rows(k.data()), rows(v.data()), rows(apart.data()), alone);
  }
  const double difference = largest_difference(out, apart);
  std::printf("largest difference %.1e\n", difference);
  return finish("packed is the same as apart", difference < 1e-5);
}
