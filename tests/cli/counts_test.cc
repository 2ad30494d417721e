#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "cli/run_report.h"
#include "models/search.h"
#include "pictures/heatmap.h"
#include "rapt/error.h"
#include "tasks/image_files.h"
#include "tasks/images.h"
#include "tensor/losses.h"
#include "tensor/recurrent.h"
#include "tests/cli/run_cli.h"

// One of something is "1 key", not "1 keys", wherever a message counts.
namespace rapt::test {
namespace {

void expect_says(const std::function<void()>& work, const std::string& part) {
  try {
    work();
    ADD_FAILURE() << "no error that says " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Counts, OfScores) {
  using training::Score;
  EXPECT_EQ(cli::named_score({"images", 1, Score::Form::count}), "1 image");
  EXPECT_EQ(cli::named_score({"sequences", 1, Score::Form::count}), "1 sequence");
  EXPECT_EQ(cli::named_score({"sequences", 20, Score::Form::count}), "20 sequences");
  EXPECT_EQ(cli::named_score({"exact_match", 1, Score::Form::fraction}), "exact match 100.00 %");
}

TEST(Counts, InErrorsOfTheLibrary) {
  Tape<float> tape;
  const std::vector<float> one(1);
  expect_says(
      [&] {
        absolute_error(tape, tape.make({2, 1}), std::span<const float>(one), 0.1, 1.0F);
      },
      "got 1 target for ");
  const std::vector<std::int64_t> lengths(2, 1);
  expect_says(
      [&] {
        recurrent<float>(tape, Cell::rnn, tape.make({1, 1, 1}),
                         {tape.make({1, 1}), tape.make({1, 1}), tape.make({1}), {}}, {}, lengths, Direction::forward);
      },
      "expected 1 length, got 2");

  tasks::ImageData data;
  data.images = Array(ElementType::u8, {1, 2, 2, 1});
  data.labels = {0};
  float image[4];
  expect_says([&] { tasks::normalized_image(data, 0, {}, image); }, "statistics of 1 channel, got 0 and 0");
  using namespace std::string_literals;
  const std::string images = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x01"s + "ab", labels = "\0\0\x08\x01\0\0\0\x01x"s;
  expect_says([&] { tasks::parse_mnist(images, "images", labels, "labels"); }, "got 1 label");

  pictures::HeatMap map;
  map.rows = map.cols = 1;
  expect_says([&] { pictures::check(map); }, "expected 1 × 1 number, got 0");
}

TEST(Counts, InErrorsOfTheTool) {
  const TemporaryDirectory dir;
  const auto refused = [](const std::vector<std::string>& command, const std::string& part) {
    const CliResult result = run_cli(command);
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  };
  save_f4(dir / "kernel.npy", {1, 1, 1, 1}, {1});
  save_f4(dir / "image.npy", {2, 2, 2}, Numbers(8, 1));
  refused({"conv", "--kernel", dir / "kernel.npy", "--image", dir / "image.npy", "--out", dir / "out"},
          "expected 1 channel in the last dimension");
  save_f4(dir / "line.npy", {3}, {1, 2, 3});
  refused({"plot", "curves", dir / "line.npy", "--y", "a,b", "--out", dir / "x.svg"}, "1 name for [3]");
  const auto solve = [&](const std::string& text, const std::string& part) {
    std::ofstream(dir / "problem.json") << text;
    refused({"solve", dir / "problem.json"}, part);
  };
  solve(R"({"X": [[1], [2]], "heads": [{"W_Q": [[1]], "b_Q": [1, 2], "W_K": [[1]], "W_V": [[1]]}]})",
        "expected 1 number, one for each output of W_Q, got 2");
  solve(R"({"X": [[1], [2]], "heads": [{"W_Q": [[1], [2]], "W_K": [[1]], "W_V": [[1]]}]})",
        "expected 1 input, one for each number of the vectors, got 2");
  solve(R"({"X": [[1], [2]], "heads": [{"W_Q": [[1]], "W_K": [[1]], "W_V": [[1]]}], "W_O": [[1], [2]]})",
        "expected 1 input, one for each number that the heads give, got 2");
}

}  // namespace
}  // namespace rapt::test
