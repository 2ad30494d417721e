// Recitation 8: an encoder without positions cannot tell a sentence from the same words in another order.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "models/transformer.h"
#include "pictures/bars.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"
#include "tensor/token_ids.h"

namespace rapt::reproduce {
namespace {

using Sentence = std::vector<int>;

const std::array<std::string, 6> kWords{"I", "like", "11-785", "more", "than", "10-707"};

struct Case {
  std::string name;
  std::string attention;
  layers::Positions positions;
};

// One sentence per column of the batch, all of the same length.
models::Batch batch_of(const std::vector<Sentence>& sentences) {
  models::Batch batch;
  batch.size = static_cast<int>(sentences.size());
  batch.source_steps = static_cast<int>(sentences.front().size());
  for (int step = 0; step < batch.source_steps; ++step)
    for (const Sentence& sentence : sentences) batch.source.push_back(sentence[static_cast<std::size_t>(step)]);
  batch.source_lengths.assign(sentences.size(), batch.source_steps);
  return batch;
}

std::vector<Sentence> all_orders() {
  Sentence words(kWords.size());
  std::iota(words.begin(), words.end(), kFirstSymbol);
  std::vector<Sentence> orders;
  do orders.push_back(words);
  while (std::next_permutation(words.begin(), words.end()));
  return orders;
}

// The document's sentence and its swap: the two course numbers change places.
std::vector<Sentence> sentence_and_swap() {
  Sentence words(kWords.size());
  std::iota(words.begin(), words.end(), kFirstSymbol);
  Sentence swapped = words;
  std::swap(swapped[2], swapped[5]);
  return {words, swapped};
}

// How differently an encoder with fresh weights sees a sentence: each word's vector against the same word's in the
// first sentence; the largest difference of all.
double largest_difference(const Case& model, const std::vector<Sentence>& sentences, std::uint64_t seed) {
  models::TransformerConfig config;
  config.width = 64;
  config.heads = 4;
  config.inner = 128;
  config.layers = 6;
  config.dropout = 0;
  config.attention = model.attention;
  config.positions = model.positions;
  models::Sizes sizes;
  sizes.source_symbols = sizes.target_symbols = kFirstSymbol + static_cast<std::int64_t>(kWords.size());
  sizes.max_length = sizes.max_target = static_cast<std::int64_t>(kWords.size()) + 1;
  layers::Parameters parameters;
  const models::Transformer transformer(config, sizes, parameters);
  std::vector<double> values(static_cast<std::size_t>(parameters.size()));
  parameters.initialize(values.data(), seed);
  Tape<double> tape(false);
  layers::Graph<double> graph(tape, parameters, values.data(), nullptr);
  const Tensor<double> out = transformer.encode(graph, batch_of(sentences));  // [steps, sentences, width]
  const auto row = [&](std::int64_t step, std::int64_t sentence) {
    return out.data + step * out.strides[0] + sentence * out.strides[1];
  };
  double largest = 0;
  for (std::size_t n = 1; n < sentences.size(); ++n)
    for (std::size_t step = 0; step < kWords.size(); ++step) {
      const auto& first = sentences.front();
      const auto home = std::find(first.begin(), first.end(), sentences[n][step]) - first.begin();
      const double* a = row(home, 0);
      const double* b = row(static_cast<std::int64_t>(step), static_cast<std::int64_t>(n));
      for (std::int64_t c = 0; c < out.size(2); ++c) largest = std::max(largest, std::abs(a[c] - b[c]));
    }
  return largest;
}

}  // namespace

Section run_order(const Context& context) {
  Section section{"The Transformer order test", "Recitation 8, Transformer encoder"};
  section.say(
      "An encoder of six blocks, width 64, four heads, in double precision and with random weights, reads “I like "
      "11-785 more than 10-707” and the same sentence with the two courses swapped. Every word's output vector is "
      "compared with the same word's vector in the other sentence. What follows from attention alone holds for any "
      "weights, so several are drawn.");
  const std::vector<Case> cases{{"no positions", "scaled_dot", layers::Positions::none},
                                {"sinusoidal, added", "scaled_dot", layers::Positions::sinusoidal},
                                {"one-hot, added", "scaled_dot", layers::Positions::one_hot},
                                {"learned, added", "scaled_dot", layers::Positions::learned},
                                {"rotary", "scaled_dot", layers::Positions::rotary},
                                {"none added, ALiBi scores", "alibi", layers::Positions::none}};
  const std::uint64_t draws = context.quick ? 3 : 10;
  Table table{"Largest difference between a word's vectors in the two sentences; smallest and largest over " +
                  std::to_string(draws) + " draws of the weights",
              {"positions", "smallest", "largest"},
              {}};
  double without = 0, with = 0;
  pictures::Bars bars{
      "What a swap of two words changes", "largest difference of a word's vector", {}, {{"greatest", {}}}};
  for (std::size_t n = 0; n < cases.size(); ++n) {
    double least = INFINITY, greatest = 0;
    for (std::uint64_t draw = 0; draw < draws; ++draw) {
      context.progress(static_cast<std::int64_t>(n * draws + draw),
                       static_cast<std::int64_t>((cases.size() + 1) * draws), cases[n].name);
      const double difference = largest_difference(cases[n], sentence_and_swap(), context.seed + draw);
      least = std::min(least, difference);
      greatest = std::max(greatest, difference);
    }
    if (n == 0) without = greatest;
    if (n == 1) with = least;
    table.rows.push_back({cases[n].name, significant(least, 2), significant(greatest, 2)});
    bars.groups.push_back(cases[n].name);
    bars.series[0].values.push_back(greatest);
  }
  section.add(std::move(table));
  section.show("order", draw(bars), "The largest change of any word's vector, over all draws.");

  const std::vector<Sentence> orders = all_orders();
  const double any = largest_difference(cases.front(), orders, context.seed);
  section.claims.push_back({"Recitation 8", "Without positions the output for the swapped sentence is identical",
                            "identical", "largest difference " + significant(without, 2), "at most 1e-12",
                            without <= 1e-12});
  section.claims.push_back(
      {"Recitation 8", "The same for every order of the six words", "identical",
       grouped(static_cast<std::int64_t>(orders.size())) + " orders, largest difference " + significant(any, 2),
       "at most 1e-12", any <= 1e-12});
  section.claims.push_back({"Recitation 8", "With sinusoidal positions added the two are told apart", "not identical",
                            "least difference " + significant(with, 2), "at least 1e-3", with >= 1e-3});
  section.say("The part on positions compares the encodings in trained models.");
  section.add(Commands{{"rapt reproduce order"}});
  return section;
}

}  // namespace rapt::reproduce
