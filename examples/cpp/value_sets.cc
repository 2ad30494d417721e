// Two value sets under one map of weights: the scores are computed once.
#include "example.h"

int main() {
  constexpr std::int64_t S = 20, D = 8, words = 16, places = 2;
  const std::vector<float> q = random_numbers(S * D, 1), k = random_numbers(S * D, 2);
  const std::vector<float> embedding = random_numbers(S * words, 3), position = random_numbers(S * places, 4);
  std::vector<float> out_words(S * words), out_places(S * places), alone(S * places);

  const rapt::Inputs inputs{.q = rapt::view(q.data(), {S, D}),
                            .k = rapt::view(k.data(), {S, D}),
                            .v = {rapt::view(embedding.data(), {S, words}), rapt::view(position.data(), {S, places})}};
  rapt::Outputs outputs;
  outputs.out = {rapt::view(out_words.data(), {S, words}), rapt::view(out_places.data(), {S, places})};
  rapt::attend(inputs, outputs);

  rapt::attend(inputs.q, inputs.k, inputs.v[1], rapt::view(alone.data(), {S, places}));
  const double difference = largest_difference(out_places, alone);
  std::printf("largest difference %.1e\n", difference);
  return finish("each set is as if alone", difference < 1e-6);
}
