#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "tensor/checksum.h"
#include "tensor/safetensors.h"
#include "tests/cli/run_cli.h"

// Numbers that are not finite: exit status 1, distinct from bad input.
namespace rapt::test {
namespace {

using Words = std::vector<std::string>;

CliResult train(const std::string& out, const Words& more) {
  Words all{"train",       "reverse", "--train-size", "100", "--valid-size", "20",
            "--test-size", "20",      "--max-length", "6",   "--hidden",     "8",
            "--embedding", "8",       "--batch",      "20",  "--out",        out};
  all.insert(all.end(), more.begin(), more.end());
  return run_cli(all);
}

// A run's file with right checksums, after `change` of all its numbers.
void rewrite(const std::string& path, const std::function<void(float&)>& change) {
  Safetensors file = read_safetensors(path);
  std::vector<std::vector<float>> values;
  std::vector<NamedBytes> arrays;
  nlohmann::json sums = nlohmann::json::object();
  for (const NamedArray& one : file.arrays) {
    const auto numbers = one.array.as<float>();
    values.emplace_back(numbers.begin(), numbers.end());
    for (float& x : values.back()) change(x);
    const auto* bytes = reinterpret_cast<const std::byte*>(values.back().data());
    arrays.push_back({one.name, ElementType::f32, one.array.shape(), bytes});
    sums[one.name] = checksum_text({bytes, values.back().size() * sizeof(float)});
  }
  file.metadata["checksums"] = sums.dump();
  write_safetensors(path, arrays, file.metadata);
}

void expect_failed(const CliResult& result, const Words& parts) {
  EXPECT_EQ(result.status, 1) << result.out << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  for (const std::string& part : parts) EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
}

TEST(NotFinite, ADivergingRunEnds) {
  const TemporaryDirectory dir;
  const Words message{"train: step ", ": expected a finite loss and gradient, got"};
  // Weights grow a thousandfold in each step.
  expect_failed(train(dir / "run", {"--epochs", "10", "--optimizer", "adamw", "--weight-decay", "1", "--rate", "1000"}),
                message);
  expect_failed(run_cli({"train", "shapes", "--train-size", "100", "--epochs", "5", "--optimizer", "adamw",
                         "--weight-decay", "1", "--rate", "1000", "--out", dir / "images"}),
                message);
}

TEST(NotFinite, WeightsOfARunAreRefused) {
  const TemporaryDirectory dir;
  ASSERT_EQ(train(dir / "run", {"--epochs", "1"}).status, 0);
  for (const char* name : {"model.safetensors", "state.safetensors"})
    rewrite(dir / "run" + ("/" + std::string(name)), [n = 0](float& x) mutable {
      if (n++ == 7) x = std::nanf("");
    });
  const Words model{"model.safetensors", "expected finite numbers, got nan"};
  expect_failed(run_cli({"evaluate", dir / "run"}), model);
  expect_failed(run_cli({"decode", dir / "run", "abc"}), model);
  expect_failed(train(dir / "run", {"--epochs", "2", "--resume"}), {"state.safetensors", "expected finite numbers"});
}

// Finite weights, and scores that overflow.
TEST(NotFinite, AModelThatOverflowsHasNoAnswer) {
  const TemporaryDirectory dir;
  ASSERT_EQ(train(dir / "run", {"--epochs", "1"}).status, 0);
  rewrite(dir / "run/model.safetensors", [](float& x) { x = 3e38F; });
  expect_failed(run_cli({"evaluate", dir / "run"}), {"evaluate: ", "expected a loss that is a number, got"});
  for (const Words& beam : {Words{}, Words{"--beam", "4", "--nbest", "2"}}) {
    Words words{"decode", dir / "run", "abc"};
    words.insert(words.end(), beam.begin(), beam.end());
    const CliResult result = run_cli(words);
    expect_failed(result, {"decode: line 1: expected a score that is a number, got"});
    EXPECT_EQ(result.out, "\n");
  }
}

Words image_run(const std::string& task, const std::string& out) {
  Words all{"train",       task, "--train-size", "64", "--valid-size", "16",
            "--test-size", "16", "--epochs",     "1",  "--out",        out};
  if (task == "scenes") all.insert(all.end(), {"--tasks", "segmentation,depth"});
  return all;
}

// Verbs that show a run, like evaluate and decode, make no picture or page of such numbers.
TEST(NotFinite, NothingIsShownOfAModelThatOverflows) {
  const TemporaryDirectory dir;
  ASSERT_EQ(train(dir / "reverse", {"--epochs", "1"}).status, 0);
  for (const char* task : {"shapes", "scenes"}) ASSERT_EQ(run_cli(image_run(task, dir / task)).status, 0);
  const auto expect_none = [&](const std::string& run, const Words& said) {
    std::vector<Words> commands{{"explore", run, "--out", dir / "page.html"}};
    if (run == dir / "scenes") commands.push_back({"plot", "scenes", run, "--out", dir / "plot.svg"});
    if (run == dir / "shapes") commands.push_back({"plot", "maps", run, "0", "--out", dir / "plot.svg"});
    for (const Words& command : commands) {
      const CliResult result = run_cli(command);
      expect_failed(result, said);
      EXPECT_EQ(result.err.find("-nan"), std::string::npos) << result.err;
    }
    EXPECT_EQ(names_in(dir.path().string()), (Words{"reverse", "scenes", "shapes"}));
  };
  for (const std::string& run : {dir / "reverse", dir / "shapes", dir / "scenes"}) {
    rewrite(run + "/model.safetensors", [](float& x) { x = 3e38F; });
    expect_none(run, {run, "expected numbers from the model, got "});
    rewrite(run + "/model.safetensors", [](float& x) { x = -std::nanf(""); });
    expect_none(run, {"model.safetensors", "expected finite numbers, got nan"});
  }
}

// A damaged file is still bad input.
TEST(NotFinite, DamageIsBadInput) {
  const TemporaryDirectory dir;
  ASSERT_EQ(train(dir / "run", {"--epochs", "1"}).status, 0);
  const std::string path = dir / "run/model.safetensors";
  Safetensors file = read_safetensors(path);
  std::vector<NamedBytes> arrays;
  for (const NamedArray& one : file.arrays)
    arrays.push_back(
        {one.name, one.array.type(), one.array.shape(), reinterpret_cast<const std::byte*>(one.array.data())});
  std::vector<float> other(file.arrays[0].array.bytes() / sizeof(float), std::nanf(""));
  arrays[0].data = reinterpret_cast<const std::byte*>(other.data());
  write_safetensors(path, arrays, file.metadata);
  EXPECT_EQ(run_cli({"evaluate", dir / "run"}).status, 2);
}

}  // namespace
}  // namespace rapt::test
