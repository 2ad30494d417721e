#include "training/checkpoint.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tensor/random.h"
#include "tensor/safetensors.h"
#include "tests/tensor/temporary_directory.h"
#include "tests/training/tiny_run.h"

namespace rapt::training::test {
namespace {

using layers::Initial;
using layers::Parameters;
using rapt::test::TemporaryDirectory;

struct Small {
  Parameters parameters;
  Bits values, mean, square, average;

  explicit Small(std::vector<std::pair<std::string, std::vector<std::int64_t>>> list = {{"a.weight", {3, 5}},
                                                                                        {"b", {2}}}) {
    for (const auto& [name, shape] : list) parameters.add(name, shape, Initial::normal(1));
    const auto size = static_cast<std::size_t>(parameters.size());
    for (auto* numbers : {&values, &mean, &square, &average}) numbers->resize(size);
    parameters.initialize(values.data(), 1);
    parameters.initialize(mean.data(), 2);
    parameters.initialize(square.data(), 3);
    parameters.initialize(average.data(), 4);
  }
  State state() { return {&values, &mean, &square, &average, {}}; }
};

Progress some_progress() { return {3, 7, 31, 0.1 + 0.2, 1234567890123, 99, 0.75, 1e-300, 2, 17.25, true}; }

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// The error of load_state, which must name the file.
std::string complaint(const std::string& path, Small& into) {
  const std::string message = error_of([&] {
    State state = into.state();
    load_state(path, into.parameters, state);
  });
  EXPECT_NE(message.find(path), std::string::npos) << message;
  return message;
}

TEST(Checkpoints, ComeBackBitForBit) {
  const TemporaryDirectory directory;
  Small from;
  State saved = from.state();
  saved.progress = some_progress();
  save_state(directory / "state", from.parameters, saved);
  Small to;
  for (auto* numbers : {&to.values, &to.mean, &to.square, &to.average})
    std::fill(numbers->begin(), numbers->end(), 0.0F);
  State loaded = to.state();
  load_state(directory / "state", to.parameters, loaded);
  EXPECT_EQ(to.values, from.values);
  EXPECT_EQ(to.mean, from.mean);
  EXPECT_EQ(to.square, from.square);
  EXPECT_EQ(to.average, from.average);
  const Progress& p = loaded.progress;
  const Progress want = some_progress();
  EXPECT_EQ(p.epoch, want.epoch);
  EXPECT_EQ(p.batch, want.batch);
  EXPECT_EQ(p.step, want.step);
  EXPECT_EQ(p.loss, want.loss);
  EXPECT_EQ(p.units, want.units);
  EXPECT_EQ(p.correct, want.correct);
  EXPECT_EQ(p.best_score, want.best_score);
  EXPECT_EQ(p.best_loss, want.best_loss);
  EXPECT_EQ(p.best_epoch, want.best_epoch);
  EXPECT_EQ(p.seconds, want.seconds);
  EXPECT_EQ(p.finished, want.finished);
  save_weights(directory / "weights", from.parameters, from.values.data());
  std::fill(to.values.begin(), to.values.end(), 0.0F);
  load_weights(directory / "weights", to.parameters, to.values.data());
  EXPECT_EQ(to.values, from.values);
}

// A loss is a sum of many: no digit of it may be lost.
TEST(Checkpoints, KeepEveryDigitOfTheLoss) {
  const TemporaryDirectory directory;
  Small small;
  Random random(1);
  for (int n = 0; n < 20; ++n) {
    State state = small.state();
    state.progress.loss = std::exp(20 * random.normal()) * random.normal();
    save_state(directory / "state", small.parameters, state);
    State loaded = small.state();
    load_state(directory / "state", small.parameters, loaded);
    ASSERT_EQ(loaded.progress.loss, state.progress.loss);
  }
}

TEST(Checkpoints, ForeignFilesAreRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory / "state.safetensors";
  Small small;
  const State state = small.state();
  save_state(path, small.parameters, state);
  Small other_shape({{"a.weight", {5, 3}}, {"b", {2}}});
  EXPECT_NE(complaint(path, other_shape).find("[3, 5]"), std::string::npos);
  Small other_name({{"c.weight", {3, 5}}, {"b", {2}}});
  EXPECT_NE(complaint(path, other_name).find("c.weight"), std::string::npos);
  Small fewer({{"a.weight", {3, 5}}});
  EXPECT_FALSE(complaint(path, fewer).empty());
  Small more({{"a.weight", {3, 5}}, {"b", {2}}, {"d", {1}}});
  EXPECT_FALSE(complaint(path, more).empty());
  // Another optimiser.
  Small plain;
  plain.square.clear();
  EXPECT_FALSE(complaint(path, plain).empty());
  save_state(path, plain.parameters, plain.state());
  EXPECT_FALSE(complaint(path, small).empty());
  // Weights without progress, as a finished model.
  save_weights(path, small.parameters, small.values.data());
  EXPECT_NE(complaint(path, small).find("progress"), std::string::npos);
  EXPECT_FALSE(complaint(directory / "missing", small).empty());
  // Numbers of another type, and another program's file.
  const std::vector<double> wide(15);
  const std::vector<NamedBytes> doubles{
      {"a.weight", ElementType::f64, {3, 5}, reinterpret_cast<const std::byte*>(wide.data())},
      {"b", ElementType::f64, {2}, reinterpret_cast<const std::byte*>(wide.data())}};
  write_safetensors(path, doubles, {{"format", "pt"}});
  EXPECT_FALSE(complaint(path, small).empty());
  const std::string message = error_of([&] { load_weights(path, small.parameters, small.values.data()); });
  EXPECT_NE(message.find(path), std::string::npos);
  EXPECT_NE(message.find("f64"), std::string::npos);
}

TEST(Checkpoints, TruncatedAndDamagedFilesAreRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory / "state.safetensors";
  Small small;
  save_state(path, small.parameters, small.state());
  const std::string good = bytes_of(path);
  for (std::size_t n = 0; n < good.size(); n += n < 20 ? 1 : 13) {
    write(path, good.substr(0, n));
    ASSERT_FALSE(complaint(path, small).empty()) << n;
  }
  write(path, good + "x");
  EXPECT_FALSE(complaint(path, small).empty());
  // One bit of any byte, of the header and of the numbers.
  for (std::size_t n = 0; n < good.size(); ++n) {
    std::string bad = good;
    bad[n] = static_cast<char>(bad[n] ^ (1 << n * 5 % 8));
    write(path, bad);
    ASSERT_FALSE(complaint(path, small).empty()) << "byte " << n << " of " << good.size();
  }
  write(path, good);
  State state = small.state();
  EXPECT_EQ(error_of([&] { load_state(path, small.parameters, state); }), "");
}

TEST(Checkpoints, DamagedWeightsAreRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory / "model.safetensors";
  Small small;
  save_weights(path, small.parameters, small.values.data());
  const std::string good = bytes_of(path);
  for (std::size_t n = 0; n < good.size(); ++n) {
    std::string bad = good;
    bad[n] = static_cast<char>(bad[n] ^ (1 << n * 3 % 8));
    write(path, bad);
    const std::string message = error_of([&] { load_weights(path, small.parameters, small.values.data()); });
    ASSERT_NE(message.find(path), std::string::npos) << "byte " << n << ": " << message;
  }
}

TEST(Checkpoints, WeightsThatAreNoNumbersAreRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory / "model.safetensors";
  for (const float bad : {std::nanf(""), HUGE_VALF}) {
    Small small;
    small.values[16] = bad;
    save_weights(path, small.parameters, small.values.data());
    const std::string message = error_of([&] { load_weights(path, small.parameters, small.values.data()); });
    EXPECT_NE(message.find("'b': expected finite numbers, got"), std::string::npos) << message;
  }
}

TEST(Checkpoints, BadProgressIsRefused) {
  const TemporaryDirectory directory;
  const std::string path = directory / "state.safetensors";
  Small small;
  save_state(path, small.parameters, small.state());
  const Safetensors file = read_safetensors(path);
  std::vector<NamedBytes> arrays;
  for (const NamedArray& a : file.arrays)
    arrays.push_back({a.name, a.array.type(), a.array.shape(), reinterpret_cast<const std::byte*>(a.array.data())});
  const auto with = [&](const std::string& progress) {
    // Files from before there were checksums can be read too.
    write_safetensors(path, arrays, {{"format", "rapt run 1"}, {"progress", progress}});
    return error_of([&] {
      State state = small.state();
      load_state(path, small.parameters, state);
    });
  };
  const nlohmann::json good = nlohmann::json::parse(file.metadata.at("progress"));
  EXPECT_EQ(with(good.dump()), "");
  for (const char* bad : {"", "{", "[]", "null", "{}", "NaN", "{\"epoch\": NaN}", "17"})
    EXPECT_NE(with(bad).find(path), std::string::npos) << bad;
  for (const auto& [key, value] : good.items()) {
    nlohmann::json without = good;
    without.erase(key);
    EXPECT_NE(with(without.dump()).find(path), std::string::npos) << key;
    for (const nlohmann::json& wrong : {nlohmann::json("7"), nlohmann::json(nullptr), nlohmann::json::array()}) {
      nlohmann::json changed = good;
      changed[key] = wrong;
      EXPECT_NE(with(changed.dump()).find(path), std::string::npos) << changed;
    }
  }
  for (const char* key : {"epoch", "batch", "step", "units", "correct", "best_epoch"})
    for (const nlohmann::json& wrong :
         {nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json(1e30), nlohmann::json(18446744073709551615U)}) {
      nlohmann::json changed = good;
      changed[key] = wrong;
      EXPECT_NE(with(changed.dump()).find(path), std::string::npos) << changed;
    }
}

// A run's own files, seen through the trainer.
TEST(Checkpoints, TrainersRefuseStatesOfOtherRuns) {
  const TemporaryDirectory directory;
  TinyRun run;
  run.train(directory.path());
  const TinyRun other(tiny_transformer());
  EXPECT_NE(error_of([&] { other.trainer(directory.path())->resume(); }).find("state.safetensors"), std::string::npos);
  // Stopped in the fourth batch; the data has two now.
  const TemporaryDirectory stopped;
  int steps = 0;
  Observer observer;
  observer.stop = [&] { return ++steps == 4; };
  run.trainer(stopped.path())->run(observer);
  run.examples = 20;
  EXPECT_NE(error_of([&] { run.trainer(stopped.path())->resume(); }).find("state.safetensors"), std::string::npos);
  const TemporaryDirectory empty;
  EXPECT_NE(error_of([&] { run.trainer(empty.path())->resume(); }).find("state.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace rapt::training::test
