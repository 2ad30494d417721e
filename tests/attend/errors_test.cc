// Bad input throws rapt::Error: the message names the operation and the argument, what was expected and what it got; and
// nothing is written.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "rapt/error.h"
#include "support/checks.h"

namespace {

using support::Buffer;
using support::Int;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// A valid call, to be broken. B=2, H=4, Hk=2, Sq=5, Sk=7, Dk=3, Dv=4.
struct Good {
  Buffer q{oracle::Array({2, 4, 5, 3}), rapt::Dtype::f32};
  Buffer k{oracle::Array({2, 2, 7, 3}), rapt::Dtype::f32};
  Buffer v{oracle::Array({2, 2, 7, 4}), rapt::Dtype::f32};
  Buffer grad{oracle::Array({2, 4, 5, 4}), rapt::Dtype::f32};
  Buffer stored{oracle::Array({2, 4, 5, 4}), rapt::Dtype::f32};
  Buffer small{oracle::Array({1, 4, 3, 7}), rapt::Dtype::f32};  // any odd array of 84 numbers
  Buffer out{rapt::Dtype::f32, {2, 4, 5, 4}};
  Buffer lse{rapt::Dtype::f32, {2, 4, 5, 1}};
  Buffer dq{rapt::Dtype::f32, {2, 4, 5, 3}};
  Buffer dk{rapt::Dtype::f32, {2, 2, 7, 3}};
  Buffer dv{rapt::Dtype::f32, {2, 2, 7, 4}};
  Buffer extra{rapt::Dtype::f32, {2, 4, 5, 7}};
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(280, 1);

  rapt::Inputs inputs{q.view(), k.view(), {v.view()}};
  rapt::AttendOptions options;
  rapt::Outputs outputs;
  rapt::Gradients gradients;
  std::vector<rapt::ConstView> stored_out{stored.view()};
  std::vector<rapt::ConstView> grad_out{grad.view()};
  rapt::Saved saved;
  bool use_saved = false;

  Good() {
    outputs.out = {out.view()};
    outputs.lse = lse.view();
    gradients.q = dq.view();
    gradients.k = dk.view();
    gradients.v = {dv.view()};
  }
  // A view of some zeros in any shape.
  rapt::ConstView zeros(const rapt::Shape& shape) const {
    rapt::ConstView view = small.view();
    view.shape = shape;
    view.strides = rapt::contiguous_strides(shape);
    return view;
  }
  void score(const char* name) { options.score.mechanism = &rapt::mechanism(name); }
  void parameter(const char* name, const rapt::Shape& shape) {
    options.score.parameters.push_back({name, zeros(shape)});
  }
  bool untouched() const {
    return out.untouched() && lse.untouched() && dq.untouched() && dk.untouched() && dv.untouched() &&
           extra.untouched();
  }
};

struct Bad {
  const char* name;
  std::vector<const char*> says;  // parts of the message
  std::function<void(Good&)> spoil;
};

void PrintTo(const Bad& bad, std::ostream* stream) { *stream << bad.name; }

std::string bad_name(const testing::TestParamInfo<Bad>& bad) { return bad.param.name; }

bool has_one_of(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (message.find(word) != std::string::npos) return true;
  return false;
}

template <class F>
void expect_error(const char* operation, const Bad& bad, Good& good, F call) {
  try {
    call();
    ADD_FAILURE() << operation << " accepted it";
  } catch (const rapt::Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.rfind(std::string(operation) + ": ", 0), 0u) << message;
    for (const char* part : bad.says)
      EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
    EXPECT_TRUE(has_one_of(message, {"got "})) << "does not say what it got: " << message;
    EXPECT_TRUE(has_one_of(message, {"expected "})) << "does not say what it expected: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not a rapt::Error: " << error.what();
  }
  EXPECT_TRUE(good.untouched()) << "something was written";
}

// Invalid in both operations.
class BadCalls : public testing::TestWithParam<Bad> {};

TEST_P(BadCalls, Forward) {
  Good good;
  GetParam().spoil(good);
  expect_error("attend", GetParam(), good, [&] { rapt::attend(good.inputs, good.outputs, good.options); });
}

TEST_P(BadCalls, Backward) {
  Good good;
  GetParam().spoil(good);
  expect_error("attend_backward", GetParam(), good, [&] {
    rapt::attend_backward(good.inputs, good.stored_out, good.grad_out, nullptr, good.gradients, good.options);
  });
}

const Bad kBadCalls[] = {
    {"NoQueries", {"q"}, [](Good& g) { g.inputs.q = {}; }},
    {"NoKeys", {"k"}, [](Good& g) { g.inputs.k = {}; }},
    {"NoValueSet", {"v"}, [](Good& g) { g.inputs.v.clear(); }},
    {"EmptyValues", {"v"}, [](Good& g) { g.inputs.v[0] = {}; }},
    {"NegativeSize", {"k", "-7"}, [](Good& g) { g.inputs.k.shape[2] = -7; }},
    {"NegativeStride", {"q"}, [](Good& g) { g.inputs.q.strides[2] = -3; }},
    {"LastDimensionNotContiguous", {"k", "2"}, [](Good& g) { g.inputs.k.strides[3] = 2; }},
    {"QueriesAndKeysOfOtherLength", {"q", "3", "2"}, [](Good& g) { g.inputs.k.shape[3] = 2; }},
    {"FewerValuesThanKeys", {"v", "6", "7"}, [](Good& g) { g.inputs.v[0].shape[2] = 6; }},
    {"SecondValueSetTooShort",
     {"v[1]", "6", "7"},
     [](Good& g) {
       g.inputs.v.push_back(g.inputs.v[0]);
       g.inputs.v[1].shape[2] = 6;
     }},
    {"OtherBatch",
     {"k", "3", "2"},
     [](Good& g) {
       g.inputs.k.shape[0] = 3;
       g.inputs.k.strides[0] = 0;
     }},
    {"HeadsDoNotDivide",
     {"k", "3", "4"},
     [](Good& g) {
       g.inputs.k.shape[1] = 3;
       g.inputs.k.strides[1] = 0;
     }},
    {"MoreKeyHeadsThanQueryHeads",
     {"8", "4"},
     [](Good& g) {
       g.inputs.k.shape[1] = 8;
       g.inputs.k.strides[1] = 0;
     }},
    {"ScaleNaN", {"scale", "nan"}, [](Good& g) { g.options.scale = kNaN; }},
    {"SoftcapNegative", {"softcap", "-1"}, [](Good& g) { g.options.softcap = -1; }},
    {"SoftcapNaN", {"softcap", "nan"}, [](Good& g) { g.options.softcap = kNaN; }},
    // In f32 these are infinite, or 0.
    {"ScaleBeyondF32", {"scale", "outside f64", "-1e+39"}, [](Good& g) { g.options.scale = -1e39; }},
    {"SoftcapBeyondF32", {"softcap", "outside f64", "1e+38"}, [](Good& g) { g.options.softcap = 1e38; }},
    {"SoftcapBelowF32", {"softcap", "outside f64", "1e-46"}, [](Good& g) { g.options.softcap = 1e-46; }},
    {"ThreadsNegative", {"threads", "-2"}, [](Good& g) { g.options.threads = -2; }},
    {"BiasOfOtherShape", {"bias", "[1, 4, 3, 7]", "5"}, [](Good& g) { g.options.bias = g.small.view(); }},
    {"MaskOfOtherShape",
     {"mask", "6", "7"},
     [](Good& g) {
       g.options.mask.dense = {g.mask.data(), {2, 4, 5, 6}, rapt::contiguous_strides({2, 4, 5, 6})};
     }},
    {"KeyLengthsOfOtherCount",
     {"key_lengths", "3", "2"},
     [](Good& g) {
       g.options.mask.key_lengths = {1, 2, 3};
     }},
    {"KeyLengthTooLong",
     {"key_lengths", "8", "7"},
     [](Good& g) {
       g.options.mask.key_lengths = {1, 8};
     }},
    {"KeyLengthNegative",
     {"key_lengths", "-1"},
     [](Good& g) {
       g.options.mask.key_lengths = {1, -1};
     }},
    {"QueryStartsWithoutKeyStarts",
     {"starts", "0"},
     [](Good& g) {
       g.options.mask.query_starts = {0, 5};
     }},
    {"StartsOfOtherCount",
     {"key_starts", "3", "2"},
     [](Good& g) {
       g.options.mask.query_starts = {0, 5};
       g.options.mask.key_starts = {0, 3, 7};
     }},
    {"StartsThatFall",
     {"query_starts", "3"},
     [](Good& g) {
       g.options.mask.query_starts = {0, 4, 3, 5};
       g.options.mask.key_starts = {0, 1, 2, 7};
     }},
    {"StartsThatEndEarly",
     {"key_starts", "6", "7"},
     [](Good& g) {
       g.options.mask.query_starts = {0, 5};
       g.options.mask.key_starts = {0, 6};
     }},
    {"ParameterMissing", {"cosine", "tau"}, [](Good& g) { g.score("cosine"); }},
    {"ParameterUnknown",
     {"scaled_dot", "tau"},
     [](Good& g) {
       g.score("scaled_dot");
       g.parameter("tau", {1, 1, 1, 1});
     }},
    {"ParameterTwice",
     {"cosine", "tau"},
     [](Good& g) {
       g.score("cosine");
       g.parameter("tau", {1, 1, 1, 1});
       g.parameter("tau", {1, 1, 1, 1});
     }},
    {"ParameterWithoutData",
     {"tau"},
     [](Good& g) {
       g.score("cosine");
       g.options.score.parameters.push_back({"tau", {}});
     }},
    {"ParameterOfOtherHeads",
     {"cosine", "tau", "3", "4"},
     [](Good& g) {
       g.score("cosine");
       g.parameter("tau", {1, 1, 1, 3});
     }},
    {"BilinearOfOtherShape",
     {"bilinear", "W", "[1, 1, 3, 7]", "3, 3"},
     [](Good& g) {
       g.score("bilinear");
       g.parameter("W", {1, 1, 3, 7});
     }},
    {"ShawWithEvenTable",
     {"shaw", "a", "4", "odd"},
     [](Good& g) {
       g.score("shaw");
       g.parameter("a", {1, 1, 4, 3});
     }},
    {"TransformerXlTableTooShort",
     {"transformer_xl", "r", "10", "11"},
     [](Good& g) {
       g.score("transformer_xl");
       g.parameter("r", {1, 1, 10, 3});
       g.parameter("u", {1, 1, 4, 3});
       g.parameter("v", {1, 1, 4, 3});
     }},
    {"SettingUnknown",
     {"t5", "width"},
     [](Good& g) {
       g.score("t5");
       g.parameter("table", {1, 1, 4, 8});
       g.options.score.settings = {{"width", 2}};
     }},
    {"SettingOutOfRange",
     {"t5", "max_distance", "0"},
     [](Good& g) {
       g.score("t5");
       g.parameter("table", {1, 1, 4, 8});
       g.options.score.settings = {{"max_distance", 0}};
     }},
    {"GridMissing",
     {"quadratic", "grid"},
     [](Good& g) {
       g.score("quadratic");
       g.parameter("alpha", {1, 1, 1, 4});
       g.parameter("center", {1, 1, 4, 2});
     }},
    {"GridOfOtherSize",
     {"quadratic", "grid", "2,3", "7"},
     [](Good& g) {
       g.score("quadratic");
       g.parameter("alpha", {1, 1, 1, 4});
       g.parameter("center", {1, 1, 4, 2});
       g.options.score.grid = {2, 3};
     }},
    {"GridNotTaken",
     {"scaled_dot", "grid", "1,7"},
     [](Good& g) {
       g.score("scaled_dot");
       g.options.score.grid = {1, 7};
     }},
};

INSTANTIATE_TEST_SUITE_P(Errors, BadCalls, testing::ValuesIn(kBadCalls), bad_name);

class BadOutputs : public testing::TestWithParam<Bad> {};

TEST_P(BadOutputs, AreNamed) {
  Good good;
  GetParam().spoil(good);
  expect_error("attend", GetParam(), good, [&] { rapt::attend(good.inputs, good.outputs, good.options); });
}

rapt::WeightsRequest request(Good& g, Int batch, Int head, Int begin, Int end) {
  rapt::View view = g.extra.view();
  view.shape = {1, 1, std::max<Int>(end - begin, 1), 7};
  view.strides = rapt::contiguous_strides(view.shape);
  return {batch, head, begin, end, view};
}

rapt::View shaped(Good& g, const rapt::Shape& shape) {
  rapt::View view = g.extra.view();
  view.shape = shape;
  view.strides = rapt::contiguous_strides(shape);
  return view;
}

const Bad kBadOutputs[] = {
    {"TooManyArrays", {"out", "2", "1"}, [](Good& g) { g.outputs.out.push_back(g.extra.view()); }},
    {"OutOfOtherShape", {"out", "7", "4"}, [](Good& g) { g.outputs.out[0] = g.extra.view(); }},
    {"OutWithStrideZero", {"out", "0"}, [](Good& g) { g.outputs.out[0].strides[2] = 0; }},
    {"OutNotContiguous", {"out", "2"}, [](Good& g) { g.outputs.out[0].strides[3] = 2; }},
    {"LseOfOtherShape", {"lse", "7", "1"}, [](Good& g) { g.outputs.lse = g.extra.view(); }},
    {"WeightsOfBatchTwo", {"weights", "2", "1"}, [](Good& g) { g.outputs.weights = {request(g, 2, 0, 0, 5)}; }},
    {"WeightsOfHeadFour", {"weights", "4", "3"}, [](Good& g) { g.outputs.weights = {request(g, 0, 4, 0, 5)}; }},
    {"WeightsOfNegativeHead", {"weights", "-1"}, [](Good& g) { g.outputs.weights = {request(g, 0, -1, 0, 5)}; }},
    {"WeightsPastTheLastRow", {"weights", "6", "5"}, [](Good& g) { g.outputs.weights = {request(g, 0, 0, 1, 6)}; }},
    {"WeightsOfNoRow", {"weights", "3"}, [](Good& g) { g.outputs.weights = {request(g, 0, 0, 3, 3)}; }},
    {"WeightsOfOtherShape",
     {"weights", "[1, 1, 2, 7]", "[1, 1, 3, 7]"},
     [](Good& g) {
       g.outputs.weights = {request(g, 0, 0, 0, 2)};
       g.outputs.weights[0].row_end = 3;
     }},
    {"EntropyTooShort",
     {"entropy", "40"},
     [](Good& g) {
       g.outputs.statistics.entropy = shaped(g, {2, 4, 4, 1});
     }},
    {"EntropyOfOtherType",
     {"entropy", "f64", "f32"},
     [](Good& g) {
       g.outputs.statistics.entropy = shaped(g, {2, 4, 5, 1});
       g.outputs.statistics.entropy.dtype = rapt::Dtype::f64;
     }},
    {"PositionOnAGridTooShort",
     {"position", "80"},
     [](Good& g) {
       g.outputs.statistics.position = shaped(g, {2, 4, 5, 1});
       g.outputs.statistics.grid = {1, 7};
     }},
    {"StatisticsGridOfOtherSize",
     {"grid", "2,4", "7"},
     [](Good& g) {
       g.outputs.statistics.position = shaped(g, {2, 4, 5, 2});
       g.outputs.statistics.grid = {2, 4};
     }},
    {"TopKMoreThanKeys",
     {"top_k", "8", "7"},
     [](Good& g) {
       g.outputs.statistics.top_k = 8;
       g.outputs.statistics.top_weights = shaped(g, {2, 4, 5, 7});
     }},
    {"TopKNegative", {"top_k", "-1"}, [](Good& g) { g.outputs.statistics.top_k = -1; }},
    {"TopWeightsWithoutK",
     {"top_k", "0"},
     [](Good& g) {
       g.outputs.statistics.top_weights = shaped(g, {2, 4, 5, 1});
     }},
};

INSTANTIATE_TEST_SUITE_P(Errors, BadOutputs, testing::ValuesIn(kBadOutputs), bad_name);

class BadGradients : public testing::TestWithParam<Bad> {};

TEST_P(BadGradients, AreNamed) {
  Good good;
  GetParam().spoil(good);
  expect_error("attend_backward", GetParam(), good, [&] {
    rapt::attend_backward(good.inputs, good.stored_out, good.grad_out, good.use_saved ? &good.saved : nullptr,
                          good.gradients, good.options);
  });
}

const Bad kBadGradients[] = {
    {"NoOut", {"out", "0", "1"}, [](Good& g) { g.stored_out.clear(); }},
    {"OutOfOtherShape", {"out", "6", "5"}, [](Good& g) { g.stored_out[0].shape[2] = 6; }},
    {"NoOutputGradient", {"grad_out", "0", "1"}, [](Good& g) { g.grad_out.clear(); }},
    {"OutputGradientOfOtherShape", {"grad_out", "3", "4"}, [](Good& g) { g.grad_out[0].shape[3] = 3; }},
    {"OutputGradientWithoutData", {"grad_out"}, [](Good& g) { g.grad_out[0].data = nullptr; }},
    {"QueryGradientOfOtherShape", {"q", "7", "3"}, [](Good& g) { g.gradients.q = g.extra.view(); }},
    {"KeyGradientOfQueryHeads",
     {"k", "4", "2"},
     [](Good& g) {
       g.gradients.k = shaped(g, {2, 4, 7, 3});
     }},
    {"TwoValueGradients", {"v", "2", "1"}, [](Good& g) { g.gradients.v.push_back(g.extra.view()); }},
    {"ValueGradientOfOtherShape",
     {"v", "5", "7"},
     [](Good& g) {
       g.gradients.v[0] = shaped(g, {2, 2, 5, 4});
     }},
    {"GradientWithStrideZero", {"k", "0"}, [](Good& g) { g.gradients.k.strides[0] = 0; }},
    {"BiasGradientWithoutBias",
     {"bias"},
     [](Good& g) {
       g.gradients.bias = shaped(g, {1, 1, 1, 7});
     }},
    {"BiasGradientOfOtherShape",
     {"bias", "[2, 4, 5, 7]"},
     [](Good& g) {
       g.options.bias = g.zeros({1, 1, 1, 7});
       g.gradients.bias = g.extra.view();
     }},
    {"GradientOfUnknownParameter",
     {"tau"},
     [](Good& g) {
       g.gradients.parameters = {{"tau", shaped(g, {1, 1, 1, 1})}};
     }},
    {"ParameterGradientOfOtherShape",
     {"tau", "4", "1"},
     [](Good& g) {
       g.score("cosine");
       g.parameter("tau", {1, 1, 1, 1});
       g.gradients.parameters = {{"tau", shaped(g, {1, 1, 1, 4})}};
     }},
    {"ParameterGradientTwice",
     {"tau"},
     [](Good& g) {
       g.score("cosine");
       g.parameter("tau", {1, 1, 1, 1});
       g.gradients.parameters = {{"tau", shaped(g, {1, 1, 1, 1})}, {"tau", shaped(g, {1, 1, 1, 1})}};
     }},
    {"SavedOfAnotherCall",
     {"saved", "5", "40"},
     [](Good& g) {
       static Buffer q{oracle::Array({1, 1, 5, 3}), rapt::Dtype::f32}, out{rapt::Dtype::f32, {1, 1, 5, 3}};
       rapt::Outputs outputs;
       outputs.out = {out.view()};
       outputs.saved = &g.saved;
       rapt::attend({q.view(), q.view(), {q.view()}}, outputs);
       g.use_saved = true;
     }},
};

INSTANTIATE_TEST_SUITE_P(Errors, BadGradients, testing::ValuesIn(kBadGradients), bad_name);

TEST(Errors, TheGoodCallIsGood) {
  Good good;
  EXPECT_NO_THROW(rapt::attend(good.inputs, good.outputs, good.options));
  EXPECT_EQ(good.out.damage(), "");
  EXPECT_NO_THROW(
      rapt::attend_backward(good.inputs, good.stored_out, good.grad_out, nullptr, good.gradients, good.options));
  EXPECT_EQ(good.dk.damage(), "");
}

TEST(Errors, UnknownMechanismNamesTheKnownOnes) {
  try {
    rapt::mechanism("dott");
    FAIL();
  } catch (const rapt::Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("dott"), std::string::npos) << message;
    for (const std::string& name : support::registered_names())
      EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

TEST(Errors, ViewsTakeOneToFourSizes) {
  float x = 0;
  EXPECT_THROW(rapt::view(&x, {1, 1, 1, 1, 1}), rapt::Error);
  EXPECT_THROW(rapt::view(&x, {}), rapt::Error);
  EXPECT_EQ(rapt::view(&x, {2, 3}).shape, (rapt::Shape{1, 1, 2, 3}));
}

}  // namespace
