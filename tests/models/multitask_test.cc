#include "models/multitask.h"

#include <gtest/gtest.h>

#include "layers/attention_log.h"
#include "rapt/error.h"
#include "support/layers.h"

namespace rapt::models::test {
namespace {

using std::int64_t;
using support::random_input;

constexpr int64_t kClasses = 3;

MultitaskConfig tiny(Sharing sharing, const std::string& reference = "skip") {
  MultitaskConfig config;
  config.tasks = "segmentation,depth,normals";
  config.sharing = sharing;
  config.reference = reference;
  config.width = 4;
  config.inner = 4;
  config.stages = 2;
  config.heads = 1;
  config.window = 2;
  return config;
}

template <class T>
std::vector<Tensor<T>> ask(const MultitaskNetwork& network, Tape<T>& tape, const std::vector<T>& values,
                           const Tensor<T>& pixels, layers::AttentionObserver<T>* observer = nullptr) {
  layers::Graph<T> graph(tape, network.parameters(), values.data(), nullptr);
  if (observer) graph.observe(*observer);
  return network(graph, pixels);
}

TEST(Multitask, Gradients) {
  for (const auto& [sharing, reference] :
       {std::pair{Sharing::none, "skip"}, {Sharing::shared, "skip"}, {Sharing::shared, "depth"}}) {
    SCOPED_TRACE(reference);
    MultitaskConfig config = tiny(sharing, reference);
    config.tasks = "depth,normals";
    const MultitaskNetwork network(config, 8, kClasses);
    Random random(1);
    support::check_layer(network.parameters(), {random_input("pixels", {64, 1, 3}, random)}, random,
                         [&](auto& graph, const auto& x) { return network(graph, x[0]); });
  }
}

TEST(Multitask, OneOutputForEachTaskInTheirOrder) {
  MultitaskConfig config = tiny(Sharing::shared);
  config.tasks = "edges,segmentation,normals";
  const MultitaskNetwork network(config, 8, kClasses);
  Random random(2);
  const auto values = support::random_numbers(random, network.parameters().size());
  Tape<double> tape(false);
  support::Held<double> pixels(random_input("pixels", {64, 2, 3}, random));
  const auto out = ask(network, tape, values, pixels.tensor(false));
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(to_string(out[0]), "[64, 2, 1]");
  EXPECT_EQ(to_string(out[1]), "[64, 2, 3]");
  EXPECT_EQ(to_string(out[2]), "[64, 2, 3]");
}

// The pictures of a batch are independent.
TEST(Multitask, PicturesAreIndependent) {
  for (const Sharing sharing : {Sharing::none, Sharing::shared}) {
    const MultitaskNetwork network(tiny(sharing), 8, kClasses);
    Random random(3);
    std::vector<float> values(static_cast<std::size_t>(network.parameters().size()));
    network.parameters().initialize(values.data(), 5);
    support::Held<float> two(random_input("pixels", {64, 2, 3}, random));
    support::Held<float> one({"pixels", {64, 1, 3}, std::vector<double>(64 * 3)});
    for (std::size_t p = 0; p < 64; ++p)
      for (std::size_t c = 0; c < 3; ++c) one.values[p * 3 + c] = two.values[(p * 2 + 1) * 3 + c];
    Tape<float> tape(false);
    const auto together = ask(network, tape, values, two.tensor(false));
    const auto alone = ask(network, tape, values, one.tensor(false));
    for (std::size_t t = 0; t < 3; ++t) {
      const int64_t channels = alone[t].size(2);
      for (int64_t p = 0; p < 64; ++p)
        for (int64_t c = 0; c < channels; ++c)
          EXPECT_EQ(alone[t].data[p * channels + c], together[t].data[(p * 2 + 1) * channels + c]);
    }
  }
}

// Without sharing, a task's output depends on its own decoder alone; with it, on the reference task's too.
TEST(Multitask, WhatATaskDependsOn) {
  const auto changes = [](Sharing sharing, const std::string& reference, const std::string& of, std::size_t seen) {
    const MultitaskNetwork network(tiny(sharing, reference), 8, kClasses);
    Random random(4);
    std::vector<double> values = support::random_numbers(random, network.parameters().size());
    support::Held<double> pixels(random_input("pixels", {64, 1, 3}, random));
    Tape<double> tape(false);
    const auto before = support::numbers_of(ask(network, tape, values, pixels.tensor(false))[seen]);
    bool found = false;
    for (const layers::Parameter& p : network.parameters().list())
      if (p.name == "decoder.1." + of + ".skip.weight") {
        found = true;
        for (int64_t n = 0; n < p.count; ++n) values[static_cast<std::size_t>(p.offset + n)] += 0.5;
      }
    EXPECT_TRUE(found);
    return support::numbers_of(ask(network, tape, values, pixels.tensor(false))[seen]) != before;
  };
  EXPECT_FALSE(changes(Sharing::none, "skip", "depth", 0));
  EXPECT_TRUE(changes(Sharing::none, "skip", "segmentation", 0));
  EXPECT_FALSE(changes(Sharing::shared, "skip", "depth", 0));
  EXPECT_TRUE(changes(Sharing::shared, "depth", "depth", 0));
  EXPECT_FALSE(changes(Sharing::shared, "depth", "normals", 0));
}

// Every stage of a shared decoder has one map; without sharing, one for each task.
TEST(Multitask, MapsOfTheDecoders) {
  const auto names = [](Sharing sharing) {
    const MultitaskNetwork network(tiny(sharing), 8, kClasses);
    Random random(5);
    std::vector<double> values = support::random_numbers(random, network.parameters().size());
    support::Held<double> pixels(random_input("pixels", {64, 1, 3}, random));
    Tape<double> tape(false);
    layers::AttentionLog<double> log;
    ask<double>(network, tape, values, pixels.tensor(false), &log);
    std::vector<std::string> list;
    for (const layers::AttentionRecord& record : log.records()) list.push_back(record.name);
    return list;
  };
  EXPECT_EQ(names(Sharing::shared),
            (std::vector<std::string>{"encoder.0.0.attention", "encoder.1.0.attention", "decoder.1.shared.attention",
                                      "decoder.0.shared.attention"}));
  EXPECT_EQ(names(Sharing::none).size(), 2U + 2U * 3U);
}

TEST(Multitask, MultiplyAdds) {
  MultitaskConfig config;
  config.tasks = "depth";
  config.sharing = Sharing::none;
  config.width = 8;
  config.inner = 16;
  config.stages = 1;
  config.window = 0;
  const MultitaskNetwork network(config, 8, kClasses);
  // 16 tokens: embedding; two blocks of q, k, v, out, scores and sums, feed-forward; skip; head.
  const int64_t block = 16 * (4 * 8 * 8 + 16 * (8 + 8) + 2 * 8 * 16);
  EXPECT_EQ(network.multiply_adds(), 16 * 12 * 8 + 2 * block + 16 * 8 * 8 + 16 * 8 * 4);
}

TEST(Multitask, BadSettingsAreErrors) {
  const auto make = [](auto change, int64_t size = 8) {
    MultitaskConfig config = tiny(Sharing::shared);
    change(config);
    const MultitaskNetwork network(config, size, kClasses);
  };
  EXPECT_NO_THROW(make([](MultitaskConfig&) {}));
  EXPECT_THROW(make([](MultitaskConfig&) {}, 10), Error);
  EXPECT_THROW(make([](MultitaskConfig& c) { c.stages = 4; }), Error);
  EXPECT_THROW(make([](MultitaskConfig& c) { c.heads = 3; }), Error);
  EXPECT_THROW(make([](MultitaskConfig& c) { c.window = 3; }), Error);
  EXPECT_THROW(make([](MultitaskConfig& c) { c.reference = "edges"; }), Error);
  EXPECT_THROW(make([](MultitaskConfig& c) { c.reference = "all"; }), Error);
  EXPECT_THROW(make([](MultitaskConfig& c) { c.tasks = "depth,depth"; }), Error);
  EXPECT_THROW(make([](MultitaskConfig& c) { c.tasks = "depths"; }), Error);
  EXPECT_THROW(make([](MultitaskConfig& c) { c.tasks = ""; }), Error);
  EXPECT_THROW(make([](MultitaskConfig& c) { c.tasks = "depth,"; }), Error);
}

}  // namespace
}  // namespace rapt::models::test
