#include "tests/training/tiny_run.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tensor/random.h"
#include "tensor/token_ids.h"

namespace rapt::training::test {

std::vector<EncodedExample> reversed_strings(int count, std::uint64_t seed, int longest) {
  Random random(seed, 5);
  std::vector<EncodedExample> examples(static_cast<std::size_t>(count));
  for (EncodedExample& one : examples) {
    one.source.resize(1 + random.below(static_cast<std::uint64_t>(longest)));
    for (int& id : one.source) id = kFirstSymbol + static_cast<int>(random.below(3));
    one.target.assign(one.source.rbegin(), one.source.rend());
  }
  return examples;
}

std::vector<Question> questions_of(const std::vector<EncodedExample>& examples) {
  std::vector<Question> questions;
  for (const EncodedExample& one : examples) questions.push_back({one.source, {one.target}});
  return questions;
}

models::ModelConfig tiny_seq2seq() {
  models::ModelConfig config;
  config.seq2seq.embedding = 8;
  config.seq2seq.hidden = 12;
  config.seq2seq.dropout = 0.1;
  return config;
}

models::ModelConfig tiny_transformer() {
  models::ModelConfig config;
  config.kind = models::Kind::transformer;
  config.transformer.width = 12;
  config.transformer.heads = 2;
  config.transformer.inner = 16;
  config.transformer.layers = 1;
  return config;
}

TinyRun::TinyRun(const models::ModelConfig& c) : config(c) {
  options.epochs = 3;
  options.batch = 16;
  options.parts = 3;
  options.rate = 0.01;
  options.label_smoothing = 0.1;
  options.schedule = Schedule::cosine;
  options.warmup = 2;
  model = std::make_shared<SequenceModel>(config,
                                          models::Sizes{kFirstSymbol + 3, kFirstSymbol + 3, longest + 1, longest + 1});
}

std::shared_ptr<Objective> TinyRun::objective(const std::vector<EncodedExample>& train,
                                              const std::vector<Question>& valid) const {
  return std::make_shared<SequenceObjective>(*model, Batches(train, options.batch, options.seed), valid,
                                             options.label_smoothing);
}

std::unique_ptr<Trainer> TinyRun::trainer(const std::filesystem::path& directory, const Processes& processes) const {
  return std::make_unique<Trainer>(
      objective(reversed_strings(examples, 1, longest), questions_of(reversed_strings(20, 2, longest))), options,
      directory, threads, processes);
}

Bits TinyRun::train(const std::filesystem::path& directory) const {
  const auto t = trainer(directory);
  return finish(*t);
}

Bits finish(Trainer& trainer, std::function<bool()> stop) {
  Observer observer;
  observer.stop = std::move(stop);
  while (trainer.run(observer) != Trainer::End::finished) {
  }
  return trainer.values();
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> timeless_metrics(const std::filesystem::path& directory) {
  std::vector<std::string> lines;
  std::istringstream in(bytes_of(directory / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    nlohmann::json json = nlohmann::json::parse(line);
    std::vector<std::string> times;
    for (const auto& [name, value] : json.items())
      if (name == "seconds" || name.ends_with("s_per_second")) times.push_back(name);
    EXPECT_EQ(times.size(), 2U);
    for (const std::string& time : times) json.erase(time);
    lines.push_back(json.dump());
  }
  return lines;
}

void expect_same_run(const std::filesystem::path& got, const std::filesystem::path& want, const std::string& what) {
  EXPECT_TRUE(bytes_of(got / "model.safetensors") == bytes_of(want / "model.safetensors")) << what;
  EXPECT_EQ(timeless_metrics(got), timeless_metrics(want)) << what;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace rapt::training::test
