#include "tests/explorer/exhibits.h"

namespace rapt::explorer::test {

std::vector<float> some_weights(std::int64_t layers, std::int64_t heads, std::int64_t queries, std::int64_t keys) {
  std::vector<float> numbers;
  std::uint32_t state = 7;
  for (std::int64_t n = 0; n < layers * heads; ++n)
    for (std::int64_t i = 0; i < queries; ++i) {
      std::vector<float> row;
      float sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        state = state * 1664525U + 1013904223U;
        row.push_back(static_cast<float>(state >> 16) / 65536.0F);
        sum += row.back();
      }
      for (const float w : row) numbers.push_back(i == 1 ? 0.0F : w / sum);
    }
  return numbers;
}

Exhibit some_exhibit(std::int64_t layers, std::int64_t heads, std::int64_t queries, std::int64_t keys) {
  const std::vector<float> numbers = some_weights(layers, heads, queries, keys);
  const auto array =
      std::make_shared<const Array>(Array::of<float>({layers, heads, queries, keys}, std::span<const float>(numbers)));
  Exhibit exhibit;
  exhibit.title = "some";
  exhibit.tokens.resize(2);
  for (std::int64_t n = 0; n < queries; ++n) exhibit.tokens[0].push_back("q" + std::to_string(n));
  for (std::int64_t n = 0; n < keys; ++n) exhibit.tokens[1].push_back("k" + std::to_string(n));
  for (std::int64_t l = 0; l < layers; ++l) {
    Layer layer;
    layer.name = "layer " + std::to_string(l);
    layer.key_tokens = 1;
    layer.weights = std::make_shared<StoredWeights>(array, l);
    exhibit.layers.push_back(std::move(layer));
  }
  return exhibit;
}

}  // namespace rapt::explorer::test
