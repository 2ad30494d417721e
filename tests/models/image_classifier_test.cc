#include "models/image_classifier.h"

#include <cmath>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/tensors.h"

namespace rapt::models::test {
namespace {

using std::int64_t;
constexpr ImageSizes kSizes{4, 6, 2, 3};
constexpr int64_t kImage = 4 * 6 * 2;

ImageModelConfig attention(Encoding encoding, bool full_heads = true) {
  ImageModelConfig config;
  config.attention.encoding = encoding;
  config.attention.layers = 2;
  config.attention.heads = 3;
  config.attention.width = 7;
  config.attention.inner = 5;
  config.attention.head_dim = 4;
  config.attention.full_heads = full_heads;
  return config;
}

ImageModelConfig cnn() {
  ImageModelConfig config;
  config.kind = ImageModelKind::cnn;
  config.cnn.width = 4;
  config.cnn.groups = 2;
  return config;
}

struct Named {
  const char* name;
  ImageModelConfig config;
};

class ImageModels : public testing::TestWithParam<Named> {};

std::vector<double> logits_of(const ImageClassifier& model, const std::vector<double>& values,
                              const std::vector<double>& images) {
  Tape<double> tape(false);
  layers::Graph<double> graph(tape, model.parameters(), values.data(), nullptr);
  return support::numbers_of(model.logits(graph, images.data(), static_cast<int64_t>(images.size()) / kImage));
}

// By the definition, from the logits.
double loss_of(const std::vector<double>& logits, const std::vector<int>& labels) {
  double loss = 0;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < 3; ++c) sum += std::exp(logits[3 * n + c]);
    loss += std::log(sum) - logits[3 * n + static_cast<std::size_t>(labels[n])];
  }
  return loss;
}

// Numbers of every parameter against central differences of the whole loss.
TEST_P(ImageModels, Gradients) {
  const ImageClassifier model(GetParam().config, kSizes);
  Random random(1);
  std::vector<double> values = support::random_numbers(random, model.parameters().size(), 0.5);
  const std::vector<double> images = support::random_numbers(random, 3 * kImage);
  const std::vector<int> labels{2, 0, 1};
  std::vector<double> gradients(values.size());
  Tape<double> tape;
  layers::Graph<double> graph(tape, model.parameters(), values.data(), gradients.data());
  const LossSums sums = cross_entropy(tape, model.logits(graph, images.data(), 3), labels, -1, 0.0, 1.0);
  tape.backward();
  EXPECT_NEAR(sums.loss, loss_of(logits_of(model, values, images), labels), 1e-10);
  for (const layers::Parameter& p : model.parameters().list()) {
    const auto first = gradients.begin() + p.offset;
    const auto largest =
        std::max_element(first, first + p.count, [](double a, double b) { return std::abs(a) < std::abs(b); });
    // Softmax cancels what all keys share; everything else has an effect.
    if (!p.name.ends_with("key.bias")) {
      EXPECT_GT(std::abs(*largest), 1e-12) << p.name;
    }
    for (int n = 0; n < 4; ++n) {
      const int64_t place =
          n == 0 ? largest - first : static_cast<int64_t>(random.below(static_cast<std::uint64_t>(p.count)));
      double& x = values[static_cast<std::size_t>(p.offset + place)];
      const double middle = x;
      constexpr double kStep = 1e-5;
      x = middle + kStep;
      const double above = loss_of(logits_of(model, values, images), labels);
      x = middle - kStep;
      const double below = loss_of(logits_of(model, values, images), labels);
      x = middle;
      const double slope = (above - below) / (2 * kStep);
      ASSERT_NEAR(gradients[static_cast<std::size_t>(p.offset + place)], slope, 1e-6 * (1 + std::abs(slope)))
          << p.name << " " << place;
    }
  }
}

// An image's result does not depend on its batch, bit for bit.
TEST_P(ImageModels, ImagesStandAlone) {
  const ImageClassifier model(GetParam().config, kSizes);
  Random random(2);
  std::vector<float> values(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialize(values.data(), 5);
  std::vector<float> images;
  for (const double x : support::random_numbers(random, 5 * kImage)) images.push_back(static_cast<float>(x));
  const auto logits = [&](int64_t first, int64_t count) {
    Tape<float> tape(false);
    layers::Graph<float> graph(tape, model.parameters(), values.data(), nullptr);
    return support::numbers_of(model.logits(graph, images.data() + first * kImage, count));
  };
  const std::vector<double> all = logits(0, 5);
  ASSERT_EQ(all.size(), 15U);
  for (int64_t n = 0; n < 5; ++n)
    EXPECT_EQ(logits(n, 1), std::vector<double>(all.begin() + 3 * n, all.begin() + 3 * (n + 1))) << n;
}

INSTANTIATE_TEST_SUITE_P(All, ImageModels,
                         testing::Values(Named{"quadratic", attention(Encoding::quadratic)},
                                         Named{"gaussian", attention(Encoding::gaussian)},
                                         Named{"learned_2d", attention(Encoding::learned_2d)},
                                         Named{"learned_2d_positions", attention(Encoding::learned_2d_positions)},
                                         Named{"absolute", attention(Encoding::absolute)},
                                         Named{"sinusoidal", attention(Encoding::sinusoidal)},
                                         Named{"narrow_heads", attention(Encoding::learned_2d, false)},
                                         Named{"cnn", cnn()}),
                         [](const auto& test) { return std::string(test.param.name); });

// Patches are read row by row: another order of the pixels within a patch is another order of the embedding's rows.
TEST(ImageModelShapes, PatchesHoldTheirOwnPixels) {
  const ImageClassifier model(attention(Encoding::quadratic), kSizes);
  EXPECT_EQ(model.attention()->grid(), (std::array<int64_t, 2>{2, 3}));
  std::vector<double> values(static_cast<std::size_t>(model.parameters().size()));
  model.parameters().initialize(values.data(), 3);
  Random random(4);
  std::vector<double> image = support::random_numbers(random, kImage);
  const std::vector<double> before = logits_of(model, values, image);
  // Pixels (0,0) and (1,1) lie in one patch, as numbers 0 and 3 of it.
  for (std::size_t d = 0; d < 2; ++d) std::swap(image[d], image[(1 * 6 + 1) * 2 + d]);
  EXPECT_NE(logits_of(model, values, image), before);
  for (const layers::Parameter& p : model.parameters().list())
    if (p.name == "embedding.weight")
      for (int64_t d = 0; d < 2 * 7; ++d)
        std::swap(values[static_cast<std::size_t>(p.offset + d)],
                  values[static_cast<std::size_t>(p.offset + 3 * 14 + d)]);
  // Every other patch would need its pixels changed as well.
  for (std::size_t r = 0; r < 4; r += 2)
    for (std::size_t c = 0; c < 6; c += 2)
      for (std::size_t d = 0; d < 2 && r + c > 0; ++d)
        std::swap(image[(r * 6 + c) * 2 + d], image[((r + 1) * 6 + c + 1) * 2 + d]);
  support::expect_close(logits_of(model, values, image), before, 1e-12, "logits");
}

TEST(ImageModelShapes, PatchesMustFillTheImage) {
  ImageModelConfig config = attention(Encoding::quadratic);
  config.attention.patch = 4;
  EXPECT_THROW(ImageClassifier(config, kSizes), Error);
  config = cnn();
  config.cnn.groups = 3;
  EXPECT_THROW(ImageClassifier(config, kSizes), Error);
}

// Counted by hand.
TEST(ImageModelShapes, MultiplyAdds) {
  // 6 patches of 8 numbers to 7; each layer: 3 heads of 7 to 7, mixed over 2 + 3 places, and 7 → 5 → 7; 7 → 3.
  EXPECT_EQ(ImageClassifier(attention(Encoding::quadratic), kSizes).multiply_adds(),
            6 * 8 * 7 + 2 * 6 * (21 * 7 + 21 * 5 + 2 * 7 * 5) + 7 * 3);
  // 24 pixels: 2 → 4; a block of 4 → 4 twice; at 2 × 3 pixels 4 → 8, 8 → 8 and 4 → 8 around; 8 → 3.
  EXPECT_EQ(ImageClassifier(cnn(), kSizes).multiply_adds(),
            24 * 9 * 2 * 4 + 24 * 9 * 4 * 4 * 2 + 6 * 9 * (4 * 8 + 8 * 8) + 6 * 4 * 8 + 8 * 3);
}

}  // namespace
}  // namespace rapt::models::test
