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

// Messages say "1 key", not "1 keys".
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
  const CliResult conv = [&] {
    save_f4(dir / "one.npy", {1, 1, 1, 1}, {1});
    save_f4(dir / "grey.npy", {2, 2, 1}, Numbers(4, 1));
    return run_cli({"conv", "--kernel", dir / "one.npy", "--image", dir / "grey.npy", "--out", dir / "layer"});
  }();
  EXPECT_NE(conv.out.find("1 to 1 channel,"), std::string::npos) << conv.out << conv.err;
  const auto refused = [](const std::vector<std::string>& command, const std::string& part) {
    const CliResult result = run_cli(command);
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  };
  save_f4(dir / "kernel.npy", {1, 1, 1, 1}, {1});
  save_f4(dir / "image.npy", {2, 2, 2}, Numbers(8, 1));
  refused({"conv", "--kernel", dir / "kernel.npy", "--image", dir / "image.npy", "--out", dir / "out"},
          "expected 1 channel in the last dimension");
  // attend: --key-lengths for one batch, and rows of one number.
  save_f4(dir / "one_wide.npy", {3, 1}, {1, 2, 3});
  save_f4(dir / "wide.npy", {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto attend = [&](const std::string& q, const std::string& k, std::vector<std::string> more,
                          const std::string& part) {
    std::vector<std::string> command{"attend", "--q", dir / q, "--k", dir / k, "--v", dir / k, "--out", dir / "out"};
    command.insert(command.end(), more.begin(), more.end());
    refused(command, part);
  };
  attend("one_wide.npy", "one_wide.npy", {"--key-lengths", "1,2"}, "key-lengths: expected one number, got 2");
  attend("wide.npy", "one_wide.npy", {}, "expected rows of 1 number to score as the keys have, got 2");
  attend("one_wide.npy", "one_wide.npy", {"--score", "additive", "--param", "w=1,2"}, "expected 1 number");
  attend("one_wide.npy", "one_wide.npy", {"--bias", dir / "wide.npy"}, "expected shape [1, 1, 1 or 3, 3], got ");
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
