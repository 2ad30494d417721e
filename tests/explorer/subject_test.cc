#include <gtest/gtest.h>

#include "explorer/image_subject.h"
#include "explorer/scene_subject.h"
#include "explorer/sequence_subject.h"
#include "layers/attention_log.h"
#include "rapt/error.h"
#include "rapt/trained_model.h"
#include "tasks/experiment.h"
#include "tensor/grid.h"
#include "tests/tensor/temporary_directory.h"
#include "training/trainer.h"

namespace rapt::explorer::test {
namespace {

// A run of one epoch, as `rapt train` makes it.
void train(const std::string& directory, const char* task, std::map<std::string, std::string> options) {
  options["epochs"] = "1";
  const auto run = tasks::start_experiment(task, {{}, options});
  std::filesystem::create_directories(directory);
  run->write_config(directory);
  training::Trainer(run->objective(), run->training(), directory, 1).run({});
}

std::map<std::string, std::string> small_reverse(std::map<std::string, std::string> more) {
  more.insert({{"train_size", "40"}, {"valid_size", "5"}, {"test_size", "5"}, {"max_length", "5"}, {"batch", "16"}});
  return more;
}

void expect_rows_sum_to_one(const Exhibit& exhibit) {
  for (const Layer& layer : exhibit.layers) {
    const std::int64_t keys = layer.weights->keys();
    ASSERT_EQ(static_cast<std::int64_t>(exhibit.tokens.at(layer.key_tokens).size()), keys) << layer.name;
    ASSERT_EQ(static_cast<std::int64_t>(exhibit.tokens.at(layer.query_tokens).size()), layer.weights->queries());
    std::vector<float> row(static_cast<std::size_t>(keys));
    for (std::int64_t h = 0; h < layer.weights->heads(); ++h)
      for (std::int64_t i = 0; i < layer.weights->queries(); ++i) {
        layer.weights->rows(h, i, i + 1, row.data());
        double sum = 0;
        for (const float w : row) sum += static_cast<double>(w);
        EXPECT_NEAR(sum, 1, 1e-5) << layer.name << " " << h << " " << i;
      }
  }
}

TEST(SequenceSubject, ShowsEveryLayerOfATransformer) {
  const rapt::test::TemporaryDirectory dir;
  train(dir / "run", "reverse",
        small_reverse({{"model", "transformer"}, {"width", "16"}, {"heads", "2"}, {"inner", "16"}, {"layers", "2"}}));
  const SequenceSubject subject(dir / "run");
  const Exhibit exhibit = subject.show("abca");
  ASSERT_EQ(exhibit.layers.size(), 6U);
  EXPECT_EQ(exhibit.layers[0].name, "encoder.0.self");
  EXPECT_EQ(exhibit.layers[0].group, Group::encoder);
  EXPECT_EQ(exhibit.layers[2].group, Group::decoder);
  EXPECT_EQ(exhibit.layers[3].group, Group::cross);
  expect_rows_sum_to_one(exhibit);
  EXPECT_EQ(exhibit.target, TrainedModel(dir / "run")("abca"));
  // The decoder sees no later token.
  std::vector<float> first(static_cast<std::size_t>(exhibit.layers[2].weights->keys()));
  exhibit.layers[2].weights->rows(1, 0, 1, first.data());
  EXPECT_NEAR(first[0], 1, 1e-6);

  ASSERT_EQ(exhibit.steps.size(), exhibit.tokens[2].size());
  EXPECT_EQ(exhibit.steps.back().chosen.token, "<end>");
  for (const Step& step : exhibit.steps) {
    double sum = 0;
    for (std::size_t n = 0; n < step.others.size(); ++n) {
      sum += step.others[n].probability;
      if (n > 0) {
        EXPECT_LE(step.others[n].probability, step.others[n - 1].probability);
      }
    }
    EXPECT_NEAR(sum, 1, 1e-5);  // eight symbols in all
  }

  const Exhibit forced = subject.show("abca", "dd");
  EXPECT_EQ(forced.target, "dd");
  EXPECT_EQ(forced.tokens[2], (std::vector<std::string>{"d", "d", "<end>"}));
  EXPECT_THROW(subject.show(""), Error);
  EXPECT_THROW(subject.show("ab\xff"), Error);
}

// An example of the data can be shown again from its text.
TEST(SequenceSubject, FindsAnExample) {
  const rapt::test::TemporaryDirectory dir;
  train(dir / "reverse", "reverse", small_reverse({{"hidden", "8"}}));
  train(dir / "case", "case",
        {{"hidden", "8"}, {"train_size", "40"}, {"valid_size", "5"}, {"test_size", "5"}, {"max_length", "12"}});
  for (const char* run : {"reverse", "case"}) {
    const SequenceSubject subject(dir / run);
    const std::string text = subject.example();
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(subject.show(text).text, text);
  }
}

// The alignment that `rapt decode` draws is the map of a recurrent model.
TEST(SequenceSubject, AgreesWithAlignments) {
  const rapt::test::TemporaryDirectory dir;
  train(dir / "run", "reverse", small_reverse({{"attention", "additive"}, {"hidden", "8"}}));
  const Exhibit exhibit = SequenceSubject(dir / "run").show("dab");
  const TrainedModel model(dir / "run");
  const std::string text = "dab";
  const AttentionMap map = model.attention(text, model.decode(std::span(&text, 1))[0][0]);
  ASSERT_EQ(exhibit.layers.size(), 1U);
  EXPECT_EQ(exhibit.layers[0].mechanism, "additive");
  ASSERT_EQ(exhibit.tokens[2], map.target);
  std::vector<float> rows(map.weights.size());
  exhibit.layers[0].weights->rows(0, 0, static_cast<std::int64_t>(map.target.size()), rows.data());
  for (std::size_t n = 0; n < rows.size(); ++n) EXPECT_NEAR(rows[n], map.weights[n], 1e-6);
}

TEST(SequenceSubject, RefusesAModelWithoutAttention) {
  const rapt::test::TemporaryDirectory dir;
  train(dir / "run", "reverse", small_reverse({{"attention", "none"}, {"hidden", "8"}}));
  EXPECT_THROW(SequenceSubject(dir / "run"), Error);
}

// As in `rapt decode`: each symbol once, and the target's apart.
TEST(SequenceSubject, SaysWhatIsUnknown) {
  const rapt::test::TemporaryDirectory dir;
  train(dir / "run", "reverse", small_reverse({{"hidden", "8"}}));
  const SequenceSubject subject(dir / "run");
  EXPECT_TRUE(subject.show("abca").warnings.empty());
  const std::string rest = " is not in the vocabulary; it is read as unknown";
  EXPECT_EQ(subject.show("aZé?Z", "bY").warnings,
            (std::vector<std::string>{"'Z'" + rest, "'é'" + rest, "'?'" + rest, "target: 'Y'" + rest}));
}

// Where the library puts every cell of a grid: [place in its window, window].
std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> windows_of(std::int64_t side, std::int64_t window) {
  Tape<float> tape(false);
  const Tensor<float> cells = tape.make({side * side, 1, 1});
  for (std::int64_t n = 0; n < side * side; ++n) cells.data[n] = static_cast<float>(n);
  const Tensor<float> moved = to_windows(tape, cells, Grid{side, side}, window);
  const std::int64_t windows = moved.size(1);
  std::vector<std::int64_t> place(static_cast<std::size_t>(side * side)), which = place;
  for (std::int64_t n = 0; n < side * side; ++n) {
    const auto cell = static_cast<std::size_t>(std::lround(moved.data[n]));
    place[cell] = n / windows;
    which[cell] = n % windows;
  }
  return {place, which};
}

TEST(SceneSubject, ShowsTheMapsOfEveryStage) {
  const rapt::test::TemporaryDirectory dir;
  const std::map<std::string, std::string> small{
      {"size", "16"}, {"train_size", "4"}, {"valid_size", "2"}, {"test_size", "3"}, {"width", "8"},
      {"inner", "8"}, {"patch", "2"},      {"window", "4"},     {"batch", "2"},     {"tasks", "depth,edges"}};
  train(dir / "run", "scenes", small);
  ASSERT_FALSE(is_image_run(dir / "run"));
  const SceneSubject subject(dir / "run");
  const Exhibit exhibit = subject.show("2");
  ASSERT_EQ(exhibit.layers.size(), 4U);
  EXPECT_EQ(exhibit.layers[0].name, "encoder.0.0");
  EXPECT_EQ(exhibit.layers[0].group, Group::encoder);
  EXPECT_EQ(exhibit.layers[0].grid, (std::array<std::int64_t, 2>{8, 8}));
  EXPECT_EQ(exhibit.layers[0].mechanism, "scaled_dot, 4 windows");
  EXPECT_EQ(exhibit.layers[1].grid, (std::array<std::int64_t, 2>{4, 4}));
  EXPECT_EQ(exhibit.layers[1].mechanism, "scaled_dot");
  EXPECT_EQ(exhibit.layers[3].name, "decoder.0.shared");
  EXPECT_EQ(exhibit.layers[3].group, Group::decoder);
  EXPECT_EQ(exhibit.picture.pixels.size(), 3U * 16U * 16U);
  expect_rows_sum_to_one(exhibit);

  // The same scene in all layers: each pair of cells has the weight that its window gave it, or none.
  const tasks::SceneRunConfig config = tasks::read_scene_config(dir / "run");
  const models::MultitaskNetwork network = tasks::make_network(config);
  const std::vector<float> values = tasks::best_weights(dir / "run", network.parameters());
  const training::PixelExamples all = tasks::load_scenes(config.data, tasks::Split::test, 1);
  EXPECT_EQ(exhibit.picture.pixels, std::vector<float>(all.rgb.end() - 3 * 16 * 16, all.rgb.end()));
  layers::AttentionLog<float> log;
  training::predict(network, values.data(), all, 2, &log);
  const layers::AttentionRecord& record = log.records().at(0);
  const auto [place, which] = windows_of(8, 4);
  // In parts that begin and end within windows.
  std::vector<float> map(64 * 64), window(16 * 16);
  for (const auto& [begin, end] : {std::pair{0, 3}, {3, 13}, {13, 64}})
    exhibit.layers[0].weights->rows(1, begin, end, map.data() + begin * 64);
  for (std::int64_t w = 0; w < 4; ++w) {
    record.weights(w, 1, 0, 16, window.data());
    for (std::size_t i = 0; i < 64; ++i)
      for (std::size_t j = 0; which[i] == w && j < 64; ++j)
        EXPECT_NEAR(map[i * 64 + j], which[j] == w ? window[static_cast<std::size_t>(place[i] * 16 + place[j])] : 0.0F,
                    1e-6)
            << i << " " << j;
  }
  for (const char* bad : {"", "-1", "3", "x"}) EXPECT_THROW(subject.show(bad), Error) << bad;

  std::map<std::string, std::string> apart = small;
  apart["sharing"] = "none";
  train(dir / "apart", "scenes", apart);
  const Exhibit own = SceneSubject(dir / "apart").show("0");
  ASSERT_EQ(own.layers.size(), 6U);
  EXPECT_EQ(own.layers[5].name, "decoder.0.edges");
  expect_rows_sum_to_one(own);
}

TEST(ImageSubject, ShowsWhereHeadsLook) {
  const rapt::test::TemporaryDirectory dir;
  train(dir / "run", "digits", {{"layers", "2"}, {"heads", "3"}, {"width", "12"}, {"inner", "12"}});
  ASSERT_TRUE(is_image_run(dir / "run"));
  const ImageSubject subject(dir / "run");
  const Exhibit exhibit = subject.show("3");
  ASSERT_EQ(exhibit.layers.size(), 2U);
  EXPECT_EQ(exhibit.layers[0].grid, (std::array<std::int64_t, 2>{4, 4}));
  EXPECT_EQ(exhibit.layers[0].mechanism, "quadratic");
  EXPECT_EQ(exhibit.picture.rows, 8);
  EXPECT_EQ(exhibit.picture.pixels.size(), 64U);
  ASSERT_EQ(exhibit.epochs.size(), 1U);
  EXPECT_EQ(exhibit.epochs[0].centers.size(), 2U);
  EXPECT_EQ(exhibit.epochs[0].centers[0].size(), 3U);
  expect_rows_sum_to_one(exhibit);
  for (const char* bad : {"", "-1", "100000", "x", "3x", " 3"}) EXPECT_THROW(subject.show(bad), Error) << bad;
  train(dir / "cnn", "digits", {{"model", "cnn"}, {"stages", "1"}, {"blocks", "1"}, {"width", "4"}});
  EXPECT_THROW(ImageSubject(dir / "cnn"), Error);
}

}  // namespace
}  // namespace rapt::explorer::test
