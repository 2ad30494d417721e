#include "tasks/image_experiment.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tests/tensor/temporary_directory.h"
#include "training/trainer.h"

namespace rapt::tasks::test {
namespace {

using rapt::test::TemporaryDirectory;
using Texts = std::map<std::string, std::string>;

// A few images, a small model, two epochs.
Texts small(Texts more) {
  Texts texts{{"train_size", "40"}, {"valid_size", "10"}, {"test_size", "10"}, {"epochs", "2"},   {"batch", "8"},
              {"width", "8"},       {"parts", "3"},       {"warmup", "2"},     {"dropout", "0.1"}};
  if (!more.contains("model"))
    for (const auto& [name, text] : Texts{{"heads", "2"}, {"layers", "1"}, {"inner", "8"}, {"patch", "8"}})
      texts.emplace(name, text);
  else texts.emplace("groups", "2");
  for (const auto& [name, text] : more) texts[name] = text;
  return texts;
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Without times.
std::string metrics_of(const std::filesystem::path& directory) {
  std::istringstream in(bytes_of(directory / "metrics.jsonl"));
  std::string result;
  for (std::string line; std::getline(in, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    for (const char* time : {"seconds", "images_per_second"}) json.erase(time);
    result += json.dump() + "\n";
  }
  return result;
}

// Like a new process, it knows nothing but the directory.
void go_on(const std::filesystem::path& directory, int threads, int stop_after) {
  for (;;) {
    const auto run = open_experiment(directory);
    training::Trainer trainer(run->objective(), run->training(), directory, threads);
    if (std::filesystem::exists(directory / "state.safetensors")) trainer.resume();
    training::Observer observer;
    int steps = 0;
    observer.stop = [&] { return stop_after > 0 && ++steps % stop_after == 0; };
    if (trainer.run(observer) == training::Trainer::End::finished) return;
  }
}

TEST(ImageRunsThreads, ResumedOnAnyThreadsHaveTheSameBits) {
  for (const Texts& kind : {Texts{{"encoding", "quadratic"}}, Texts{{"encoding", "gaussian"}},
                            Texts{{"encoding", "learned_2d"}}, Texts{{"model", "cnn"}}}) {
    const auto run = start_experiment("shapes", {{}, small(kind)});
    const TemporaryDirectory undisturbed, disturbed;
    run->write_config(undisturbed.path());
    run->write_config(disturbed.path());
    go_on(undisturbed.path(), 1, 0);
    go_on(disturbed.path(), 3, 2);
    EXPECT_TRUE(bytes_of(undisturbed.path() / "model.safetensors") == bytes_of(disturbed.path() / "model.safetensors"));
    EXPECT_EQ(metrics_of(undisturbed.path()), metrics_of(disturbed.path()));
  }
}

TEST(ImageRuns, KeepEverySettingInTheirConfig) {
  const auto run = start_experiment("shapes", {{},
                                               small({{"encoding", "absolute"},
                                                      {"flip", "false"},
                                                      {"crop_margin", "3"},
                                                      {"full_heads", "false"},
                                                      {"data_seed", "7"}})});
  const TemporaryDirectory directory;
  run->write_config(directory.path());
  const ImageRunConfig config = read_image_config(directory.path());
  EXPECT_EQ(config.model.attention.encoding, models::Encoding::absolute);
  EXPECT_FALSE(config.data.augmentation.flip);
  EXPECT_EQ(config.data.augmentation.crop_margin, 3);
  EXPECT_FALSE(config.model.attention.full_heads);
  EXPECT_EQ(config.data.shapes.seed, 7U);
  EXPECT_EQ(config.sizes.rows, 32);
  EXPECT_EQ(config.sizes.classes, 10);
  const TemporaryDirectory again;
  open_experiment(directory.path())->write_config(again.path());
  EXPECT_EQ(bytes_of(again.path() / "config.json"), bytes_of(directory.path() / "config.json"));
}

TEST(ImageRuns, RecordWhereHeadsLook) {
  for (const char* encoding : {"quadratic", "gaussian", "learned_2d_positions", "absolute"}) {
    const auto run = start_experiment("shapes", {{}, small({{"encoding", encoding}})});
    const auto objective = run->objective();
    std::vector<float> values(static_cast<std::size_t>(objective->parameters().size()));
    objective->parameters().initialize(values.data(), 1);
    const nlohmann::json record = objective->record(values.data());
    ASSERT_TRUE(record.contains("centers") && record.contains("covariances")) << encoding;
    EXPECT_EQ(record["centers"].size(), 1U);
    EXPECT_EQ(record["centers"][0].size(), 2U);
    EXPECT_EQ(record["covariances"][0][1].size(), 2U);
    EXPECT_GE(record["covariances"][0][1][1][1].get<double>(), 0);
  }
  EXPECT_TRUE(start_experiment("shapes", {{}, small({{"model", "cnn"}})})->objective()->record(nullptr).is_null());
}

TEST(ImageRuns, LearnTheDigits) {
  const auto run = start_experiment(
      "digits", {{}, {{"epochs", "6"}, {"model", "cnn"}, {"width", "8"}, {"warmup", "10"}, {"rate", "0.01"}}});
  const TemporaryDirectory directory;
  training::Trainer trainer(run->objective(), run->training(), directory.path(), 2);
  trainer.run({});
  EXPECT_GT(run->score(Split::test, trainer.values().data(), 2, [] { return false; })->get("accuracy"), 0.8);
}

std::string error_of(const std::string& task, const Texts& options, const std::filesystem::path& file = {}) {
  try {
    start_experiment(task, {file, options});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ImageRuns, RefuseWhatDoesNotFit) {
  EXPECT_NE(error_of("digits", {{"encoding", "cubic"}}).find("expected quadratic, gaussian"), std::string::npos);
  EXPECT_NE(error_of("digits", {{"patch", "3"}}).find("patch: expected a divisor of the image's sizes, got 3"),
            std::string::npos);
  EXPECT_NE(error_of("digits", {{"model", "cnn"}, {"heads", "3"}}).find("setting heads"), std::string::npos);
  EXPECT_NE(error_of("digits", {{"model", "cnn"}, {"groups", "5"}})
                .find("expected a number of groups that divides the channels"),
            std::string::npos);
  EXPECT_NE(error_of("digits", {{"train_size", "5"}}).find("setting train_size"), std::string::npos);
  EXPECT_NE(error_of("cifar10", {}).find("setting data"), std::string::npos);
  EXPECT_NE(error_of("mnist", {{"data", "/nowhere"}}), "");
  const TemporaryDirectory directory;
  std::ofstream(directory / "settings.json") << R"({"model": {"kind": "cnn", "heads": 3}})";
  EXPECT_NE(error_of("digits", {}, directory / "settings.json").find("heads"), std::string::npos);
  std::ofstream(directory / "settings.json") << R"({"model": {"kind": "cnn", "stages": 1}, "training": {"epochs": 3}})";
  EXPECT_EQ(error_of("digits", {}, directory / "settings.json"), "");
}

// Files of CIFAR-10's format, made here; other images in them later are noticed.
TEST(ImageRuns, GoOnOnlyWithTheirOwnImages) {
  const TemporaryDirectory directory, files;
  const auto write = [&](const std::string& name, int count, int shift) {
    std::string bytes;
    for (int n = 0; n < count; ++n) {
      bytes += static_cast<char>(n % 10);
      for (int p = 0; p < 3072; ++p) bytes += static_cast<char>((n * 7 + p * p + shift) % 251);
    }
    std::ofstream(files / name, std::ios::binary) << bytes;
  };
  for (int n = 1; n <= 5; ++n) write("data_batch_" + std::to_string(n) + ".bin", 4, n);
  write("test_batch.bin", 3, 9);
  Texts texts{{"data", files.path().string()},
              {"train_size", "6"},
              {"epochs", "1"},
              {"width", "8"},
              {"heads", "2"},
              {"layers", "1"},
              {"inner", "8"},
              {"patch", "8"}};
  const auto run = start_experiment("cifar10", {{}, texts});
  EXPECT_NE(run->about_data().find("6 images to train on"), std::string::npos);
  EXPECT_NE(run->about_data().find("3 to test"), std::string::npos);
  run->write_config(directory.path());
  EXPECT_NO_THROW(open_experiment(directory.path()));
  write("test_batch.bin", 3, 10);
  EXPECT_THROW(open_experiment(directory.path()), Error);
}

}  // namespace
}  // namespace rapt::tasks::test
