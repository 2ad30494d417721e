// Every detectable mistake of a C program gives a status and a text that names it, never an exception.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "rapt/c.h"

namespace {

// A valid call that tests then break: B 1, H 2, Sq 3, Sk 4, D 2.
struct Good {
  std::vector<float> numbers = std::vector<float>(64, 0.5F);
  std::vector<float> written = std::vector<float>(64, -1.0F);
  std::vector<uint8_t> seen = std::vector<uint8_t>(64, 1);
  rapt_array q = rapt_bhsd(numbers.data(), RAPT_F32, 1, 2, 3, 2);
  rapt_array k = rapt_bhsd(numbers.data(), RAPT_F32, 1, 2, 4, 2);
  rapt_array v = rapt_bhsd(numbers.data(), RAPT_F32, 1, 2, 4, 2);
  rapt_array out = rapt_bhsd(written.data(), RAPT_F32, 1, 2, 3, 2);
  rapt_parameter slopes{"m", rapt_bhsd(numbers.data(), RAPT_F32, 1, 1, 1, 2)};
  rapt_inputs inputs{};
  rapt_outputs outputs{};
  rapt_gradients gradients{};
  rapt_options options{};
  rapt_statistics statistics{};

  Good() {
    rapt_inputs_init(&inputs, sizeof inputs);
    inputs.q = q;
    inputs.k = k;
    inputs.v = &v;
    inputs.v_count = 1;
    rapt_outputs_init(&outputs, sizeof outputs);
    outputs.out = &out;
    outputs.out_count = 1;
    rapt_gradients_init(&gradients, sizeof gradients);
    rapt_options_init(&options, sizeof options);
    rapt_statistics_init(&statistics, sizeof statistics);
  }

  int forward() const { return rapt_attend_forward(&inputs, &outputs, &options); }
  int backward() const { return rapt_attend_backward(&inputs, &q, &q, nullptr, &gradients, &options); }
};

void expect_refused(const std::string& text, const std::function<void(Good&)>& spoil, bool backward = false) {
  SCOPED_TRACE(text);
  Good good;
  ASSERT_EQ(good.forward(), RAPT_OK) << rapt_last_error();
  ASSERT_STREQ(rapt_last_error(), "");
  good.written.assign(good.written.size(), -1.0F);
  spoil(good);
  EXPECT_EQ(backward ? good.backward() : good.forward(), RAPT_BAD_INPUT);
  EXPECT_NE(std::string(rapt_last_error()).find(text), std::string::npos) << rapt_last_error();
  EXPECT_EQ(good.written, std::vector<float>(64, -1.0F));
}

TEST(CApiErrors, NullPointers) {
  Good good;
  EXPECT_EQ(rapt_attend(nullptr, &good.k, &good.v, &good.out, nullptr), RAPT_BAD_INPUT);
  EXPECT_STREQ(rapt_last_error(), "rapt_attend: q: expected a pointer, got NULL");
  EXPECT_EQ(rapt_attend(&good.q, nullptr, &good.v, &good.out, nullptr), RAPT_BAD_INPUT);
  EXPECT_EQ(rapt_attend(&good.q, &good.k, nullptr, &good.out, nullptr), RAPT_BAD_INPUT);
  EXPECT_EQ(rapt_attend(&good.q, &good.k, &good.v, nullptr, nullptr), RAPT_BAD_INPUT);
  EXPECT_STREQ(rapt_last_error(), "rapt_attend: out: expected a pointer, got NULL");
  EXPECT_EQ(rapt_attend_forward(nullptr, &good.outputs, nullptr), RAPT_BAD_INPUT);
  EXPECT_STREQ(rapt_last_error(), "rapt_attend_forward: inputs: expected a pointer, got NULL");
  EXPECT_EQ(rapt_attend_forward(&good.inputs, nullptr, nullptr), RAPT_BAD_INPUT);
  EXPECT_EQ(rapt_attend_backward(nullptr, &good.q, &good.q, nullptr, &good.gradients, nullptr), RAPT_BAD_INPUT);
  EXPECT_EQ(rapt_attend_backward(&good.inputs, nullptr, &good.q, nullptr, &good.gradients, nullptr), RAPT_BAD_INPUT);
  EXPECT_STREQ(rapt_last_error(), "rapt_attend_backward: out: expected an array of 1, got NULL");
  EXPECT_EQ(rapt_attend_backward(&good.inputs, &good.q, nullptr, nullptr, &good.gradients, nullptr), RAPT_BAD_INPUT);
  EXPECT_EQ(rapt_attend_backward(&good.inputs, &good.q, &good.q, nullptr, nullptr, nullptr), RAPT_BAD_INPUT);
  EXPECT_STREQ(rapt_last_error(), "rapt_attend_backward: gradients: expected a pointer, got NULL");
  rapt_saved_free(nullptr);
  rapt_options_init(nullptr, 8);
}

TEST(CApiErrors, ArraysAndCountsWithoutData) {
  expect_refused("q: expected an array [B, H, S, D], got no data", [](Good& g) { g.inputs.q.data = nullptr; });
  expect_refused("v: expected an array of 1, got NULL", [](Good& g) { g.inputs.v = nullptr; });
  expect_refused("v: expected at least one value set, got none", [](Good& g) { g.inputs.v_count = 0; });
  expect_refused("out: expected an array of 1, got NULL", [](Good& g) { g.outputs.out = nullptr; });
  expect_refused("weights: expected an array of 2, got NULL", [](Good& g) { g.outputs.weights_count = 2; });
  expect_refused("parameters: expected an array of 1, got NULL", [](Good& g) { g.options.parameter_count = 1; });
  expect_refused("settings: expected an array of 1, got NULL", [](Good& g) { g.options.setting_count = 1; });
  expect_refused("key_lengths: expected an array of 1, got NULL", [](Good& g) { g.options.key_length_count = 1; });
  expect_refused("query_starts: expected an array of 2, got NULL", [](Good& g) { g.options.start_count = 2; });
  expect_refused(
      "gradient of v: expected an array of 1, got NULL", [](Good& g) { g.gradients.v_count = 1; }, true);
  expect_refused(
      "gradients of parameters: expected an array of 1, got NULL", [](Good& g) { g.gradients.parameter_count = 1; },
      true);
}

TEST(CApiErrors, NamesThatAreNull) {
  expect_refused("parameter 0: name: expected a pointer, got NULL", [](Good& g) {
    g.slopes.name = nullptr;
    g.options.parameters = &g.slopes;
    g.options.parameter_count = 1;
  });
  static const rapt_setting nameless{nullptr, 1};
  expect_refused("setting 0: name: expected a pointer, got NULL", [](Good& g) {
    g.options.settings = &nameless;
    g.options.setting_count = 1;
  });
  expect_refused(
      "gradient of parameter 0: name: expected a pointer, got NULL",
      [](Good& g) {
        g.slopes.name = nullptr;
        g.gradients.parameters = &g.slopes;
        g.gradients.parameter_count = 1;
      },
      true);
}

TEST(CApiErrors, WrongCodes) {
  for (const int32_t dtype : {-1, 4, 5, 1000}) {
    const std::string got = ": expected dtype 0 (f32), 1 (f64), 2 (bf16) or 3 (f16), got " + std::to_string(dtype);
    expect_refused("q" + got, [&](Good& g) { g.inputs.q.dtype = dtype; });
    expect_refused("v[0]" + got, [&](Good& g) { g.v.dtype = dtype; });
    expect_refused("out[0]" + got, [&](Good& g) { g.out.dtype = dtype; });
    expect_refused("statistics: entropy" + got, [&](Good& g) {
      g.statistics.entropy = g.out;
      g.statistics.entropy.dtype = dtype;
      g.outputs.statistics = &g.statistics;
    });
  }
  expect_refused("mask: expected dtype 4 (RAPT_BOOL)",
                 [](Good& g) { g.options.mask = rapt_bhsd(g.seen.data(), RAPT_F32, 1, 1, 3, 4); });
  for (const int32_t code : {-1, 9}) {
    const std::string got = " (see rapt/c.h), got " + std::to_string(code);
    expect_refused("causal: expected 0 to 2" + got, [&](Good& g) { g.options.causal = code; });
    expect_refused("normalizer: expected 0 to 4" + got, [&](Good& g) { g.options.normalizer = code; });
    expect_refused("path: expected 0 to 2" + got, [&](Good& g) { g.options.path = code; });
  }
  expect_refused("threads: expected 1 or more, or 0 for the default, got -1", [](Good& g) { g.options.threads = -1; });
}

TEST(CApiErrors, WhatTheEngineRefuses) {
  expect_refused("v: expected 4 keys as in k, got 3", [](Good& g) { g.v.shape[2] = 3; });
  expect_refused("out[0]: expected shape [1, 2, 3, 2], got [1, 2, 3, 3]", [](Good& g) { g.out.shape[3] = 3; });
  expect_refused("got 'scaled-dot'", [](Good& g) { g.options.score = "scaled-dot"; });
  expect_refused("parameter 'm': expected [2], got none", [](Good& g) { g.options.score = "alibi"; });
  expect_refused("expected no parameters, got parameter 'm'", [](Good& g) {
    g.options.parameters = &g.slopes;
    g.options.parameter_count = 1;
  });
  expect_refused("scale: expected a finite number, got nan", [](Good& g) {
    g.options.has_scale = 1;
    g.options.scale = std::numeric_limits<double>::quiet_NaN();
  });
  expect_refused("expected strides from 0", [](Good& g) { g.inputs.q.strides[0] = -1; });
  expect_refused(
      "gradient of q: expected shape", [](Good& g) { g.gradients.q = g.k; }, true);
}

TEST(CApiErrors, NumbersThatAreNotAskedForAreNotRead) {
  Good good;
  good.options.scale = std::numeric_limits<double>::quiet_NaN();
  good.options.window_left = 0;
  good.options.window_right = 0;
  ASSERT_EQ(good.forward(), RAPT_OK) << rapt_last_error();
  EXPECT_FLOAT_EQ(good.written[0], 0.5F);
}

// A struct of an older header is shorter, one of a newer header longer.
TEST(CApiErrors, StructSizes) {
  expect_refused("options: struct_size: expected sizeof(rapt_options)", [](Good& g) { g.options.struct_size = 0; });
  expect_refused("inputs: struct_size: expected sizeof(rapt_inputs)", [](Good& g) { g.inputs.struct_size = 8; });
  expect_refused("outputs: struct_size: expected sizeof(rapt_outputs)", [](Good& g) { g.outputs.struct_size = 8; });
  expect_refused("statistics: struct_size: expected sizeof(rapt_statistics)", [](Good& g) {
    g.statistics.struct_size = 0;
    g.outputs.statistics = &g.statistics;
  });
  expect_refused(
      "gradients: struct_size: expected sizeof(rapt_gradients)", [](Good& g) { g.gradients.struct_size = 0; }, true);
  expect_refused(", got 123456789", [](Good& g) { g.options.struct_size = 123456789; });

  struct Longer {
    rapt_options known;
    int64_t unknown;
  };
  Good good;
  Longer longer;
  rapt_options_init(&longer.known, sizeof longer);
  EXPECT_EQ(rapt_attend_forward(&good.inputs, &good.outputs, &longer.known), RAPT_OK) << rapt_last_error();
  longer.unknown = 1;
  EXPECT_EQ(rapt_attend_forward(&good.inputs, &good.outputs, &longer.known), RAPT_BAD_INPUT);
  EXPECT_NE(std::string(rapt_last_error()).find("something is set that Rapt"), std::string::npos) << rapt_last_error();
}

TEST(CApiErrors, ThreadsHaveTextsOfTheirOwn) {
  Good good;
  good.options.score = "nowhere";
  ASSERT_EQ(good.forward(), RAPT_BAD_INPUT);
  const std::string mine = rapt_last_error();
  std::string before, after;
  std::thread other([&] {
    before = rapt_last_error();
    Good another;
    another.options.score = "elsewhere";
    another.forward();
    after = rapt_last_error();
  });
  other.join();
  EXPECT_EQ(before, "");
  EXPECT_NE(after.find("'elsewhere'"), std::string::npos) << after;
  EXPECT_EQ(rapt_last_error(), mine);
  // Calls without a status leave the text; a call that succeeds clears it.
  rapt_mechanism_name(0);
  rapt_isa();
  EXPECT_EQ(rapt_last_error(), mine);
  good.options.score = nullptr;
  ASSERT_EQ(good.forward(), RAPT_OK);
  EXPECT_STREQ(rapt_last_error(), "");
}

TEST(CApiErrors, LongTextsAreCutBetweenCharacters) {
  for (int lead = 0; lead < 3; ++lead) {
    const std::string name = std::string(static_cast<std::size_t>(lead), 'x') + [] {
      std::string text;
      for (int n = 0; n < 2000; ++n) text += "√";
      return text;
    }();
    Good good;
    good.options.score = name.c_str();
    ASSERT_EQ(good.forward(), RAPT_BAD_INPUT);
    const std::string text = rapt_last_error();
    EXPECT_GT(text.size(), 2000u);
    EXPECT_LT(text.size(), 2048u);
    EXPECT_EQ(text.substr(text.size() - 3), "√");
  }
}

TEST(CApiErrors, TooMuchMemoryIsAStatus) {
  Good good;
  const auto huge = std::numeric_limits<std::size_t>::max() / 2;
  const int64_t length = 4;
  good.options.key_lengths = &length;
  good.options.key_length_count = huge;
  EXPECT_EQ(good.forward(), RAPT_FAILED);
  EXPECT_STRNE(rapt_last_error(), "");
}

}  // namespace
