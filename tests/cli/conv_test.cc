#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/run_cli.h"

namespace rapt::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class CliConv : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return directory_ / name; }

  void save_problem(const Sizes& kernel, const Sizes& image) const {
    const auto count = [](const Sizes& shape) {
      std::size_t product = 1;
      for (const std::int64_t size : shape) product *= static_cast<std::size_t>(size);
      return product;
    };
    save_f8(file("k.npy"), kernel, pseudo_random(count(kernel), 1));
    save_f8(file("x.npy"), image, pseudo_random(count(image), 2));
  }

  CliResult conv(const Words& more) const {
    Words words{"conv", "--out", file("out")};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words);
  }

  CliResult from_kernel(const Words& more = {}) const {
    Words words{"--kernel", file("k.npy"), "--image", file("x.npy")};
    words.insert(words.end(), more.begin(), more.end());
    return conv(words);
  }

  void expect_refused(const CliResult& done, const std::string& part) const {
    EXPECT_EQ(done.status, 2) << done.out;
    EXPECT_EQ(done.out, "");
    EXPECT_NE(done.err.find(part), std::string::npos) << done.err;
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    EXPECT_FALSE(std::filesystem::exists(file("out"))) << done.err;
  }

  TemporaryDirectory directory_;
};

TEST_F(CliConv, OutputIsTheConvolution) {
  save_problem({3, 2, 2, 3}, {7, 6, 2});
  const Numbers bias{0.5, -1, 2};
  save_f8(file("b.npy"), {3}, bias);
  const CliResult done = from_kernel({"--dilation", "2", "--stride", "2,1", "--padding", "3", "--bias", file("b.npy"),
                                      "--do", "4", "--dhid", "5", "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  const Numbers x = load(file("x.npy")).values, w = load(file("k.npy")).values;
  const Loaded out = load(file("out/out.npy")), direct = load(file("out/conv.npy"));
  ASSERT_EQ(out.shape, (Sizes{5, 10, 3}));
  ASSERT_EQ(direct.shape, out.shape);
  double largest = 0;
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 10; ++j)
      for (int o = 0; o < 3; ++o) {
        double sum = bias[static_cast<std::size_t>(o)];
        for (int a = 0; a < 3; ++a)
          for (int b = 0; b < 2; ++b)
            for (int d = 0; d < 2; ++d) {
              const int row = 2 * i + 2 * a - 3, col = j + 2 * b - 3;
              if (row < 0 || col < 0 || row >= 7 || col >= 6) continue;
              sum += x[static_cast<std::size_t>((row * 6 + col) * 2 + d)] *
                     w[static_cast<std::size_t>(((a * 2 + b) * 2 + d) * 3 + o)];
            }
        const auto n = static_cast<std::size_t>((i * 10 + j) * 3 + o);
        EXPECT_NEAR(out.values[n], sum, 1e-13);
        EXPECT_NEAR(direct.values[n], sum, 1e-13);
        largest = std::max(largest, std::abs(out.values[n] - direct.values[n]));
      }
  const Json json = Json::parse(done.out);
  EXPECT_EQ(json["largest_difference"].get<double>(), largest);
  EXPECT_EQ(json["heads"], 6);
  EXPECT_EQ(json["parameters"], 6 * 2 * (2 * 5 + 4) + 6 * 4 * 3 + 3);
  EXPECT_EQ(json["reaches_rounding"], true);
  EXPECT_EQ(json["series"][0]["alpha"], 1);
  EXPECT_GT(json["series"][0]["largest_difference"], 0.1);
  EXPECT_EQ(load(file("out/center.npy")).values, (Numbers{-2, -2, -2, 0, 0, -2, 0, 0, 2, -2, 2, 0}));
  EXPECT_EQ(load(file("out/value.npy")).shape, (Sizes{6, 2, 4}));
  EXPECT_EQ(load(file("out/output.npy")).shape, (Sizes{6, 4, 3}));
  EXPECT_EQ(names_in(file("out")),
            (Words{"alpha.npy", "bias.npy", "center.npy", "conv.npy", "out.npy", "output.npy", "value.npy"}));
}

// rapt attend takes the written arrays: its generic path, combined by hand, gives the same output.
TEST_F(CliConv, TheLayerRunsInAttend) {
  save_problem({3, 3, 1, 1}, {5, 5, 1});
  ASSERT_EQ(from_kernel({"--padding", "0"}).status, 0);
  const Numbers x = load(file("x.npy")).values;
  save_f8(file("tokens.npy"), {25, 1}, x);
  save_f8(file("zeros.npy"), {25, 1}, Numbers(25, 0.0));
  save_f8(file("heads.npy"), {9, 25, 1}, [&] {
    Numbers repeated;
    for (int h = 0; h < 9; ++h) repeated.insert(repeated.end(), x.begin(), x.end());
    return repeated;
  }());
  const CliResult done =
      run_cli({"attend", "--q", file("zeros.npy"), "--k", file("zeros.npy"), "--v", file("heads.npy"), "--score",
               "quadratic", "--param", "grid=5,5", "--param", "alpha=" + file("out/alpha.npy"), "--param",
               "center=" + file("out/center.npy"), "--path", "generic", "--out", file("attend")});
  ASSERT_EQ(done.status, 0) << done.err;
  const Numbers heads = load(file("attend/out.npy")).values, w = load(file("k.npy")).values;
  const Numbers out = load(file("out/out.npy")).values;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      double sum = 0;
      for (int h = 0; h < 9; ++h)
        sum += heads[static_cast<std::size_t>(h * 25 + (i + 1) * 5 + j + 1)] * w[static_cast<std::size_t>(h)];
      EXPECT_NEAR(out[static_cast<std::size_t>(i * 3 + j)], sum, 1e-13);
    }
}

TEST_F(CliConv, TypesAndAlpha) {
  save_problem({1, 3, 2, 2}, {2, 4, 5, 2});
  save_f4(file("x.npy"), {2, 4, 5, 2}, pseudo_random(80, 3));
  EXPECT_EQ(Json::parse(from_kernel({"--json"}).out)["dtype"], "f64");
  EXPECT_EQ(Json::parse(from_kernel({"--json", "--dtype", "f32"}).out)["alpha"], 32);
  EXPECT_EQ(load(file("out/out.npy")).descr, "<f4");
  const Json soft = Json::parse(from_kernel({"--json", "--alpha", "0.5"}).out);
  EXPECT_GT(soft["largest_difference"].get<double>(), soft["series"][0]["largest_difference"].get<double>());
  EXPECT_EQ(load(file("out/alpha.npy")).values, (Numbers{0.5, 0.5, 0.5}));
  const CliResult text = from_kernel();
  EXPECT_EQ(text.status, 0);
  for (const char* part : {"3 heads", "alpha", "rounding", "center.npy"})
    EXPECT_NE(text.out.find(part), std::string::npos) << text.out;
}

TEST_F(CliConv, AndBackFromALayer) {
  save_problem({3, 5, 2, 3}, {8, 9, 2});
  save_f8(file("b.npy"), {3}, {1, 2, 3});
  ASSERT_EQ(from_kernel({"--dilation", "2", "--bias", file("b.npy")}).status, 0);
  const CliResult done =
      run_cli({"conv", "--layer", file("out"), "--image", file("x.npy"), "--out", file("back"), "--json"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(load(file("back/kernel.npy")).shape, (Sizes{3, 5, 2, 3}));
  EXPECT_EQ(load(file("back/kernel.npy")).values, load(file("k.npy")).values);
  EXPECT_EQ(load(file("back/bias.npy")).values, (Numbers{1, 2, 3}));
  EXPECT_EQ(load(file("back/conv.npy")).values, load(file("out/conv.npy")).values);
  const Json json = Json::parse(done.out);
  EXPECT_EQ(json["dilation"], (Json{2, 2}));
  EXPECT_EQ(json["padding"], (Json{2, 4}));
  EXPECT_LT(json["largest_difference"].get<double>(), 1e-13);
  ASSERT_EQ(json["heads"].size(), 15u);
  EXPECT_EQ(json["heads"][0]["shift"], (Json{-2, -4}));
  EXPECT_NEAR(json["heads"][0]["weight"].get<double>(), 1, 1e-12);

  // A soft layer is far from a convolution, and says so.
  save_f8(file("out/alpha.npy"), {15}, Numbers(15, 0.1));
  const Json soft = Json::parse(run_cli({"conv", "--layer", file("out"), "--out", file("soft"), "--json"}).out);
  EXPECT_EQ(soft["image"], (Json{32, 32, 2}));
  EXPECT_GT(soft["relative_difference"].get<double>(), 0.3);
  EXPECT_LT(soft["heads"][7]["weight"].get<double>(), 0.05);
  const CliResult text = run_cli(
      {"conv", "--layer", file("out"), "--size", "9,7", "--seed", "4", "--padding", "0", "--out", file("soft")});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("random image [9, 7, 2]"), std::string::npos) << text.out;
}

TEST_F(CliConv, BadInputLeavesNothing) {
  save_problem({3, 3, 2, 4}, {5, 6, 2});
  expect_refused(conv({}), "--kernel and --layer");
  expect_refused(conv({"--kernel", file("k.npy")}), "--image");
  expect_refused(from_kernel({"--layer", file("")}), "--kernel and --layer");
  for (const auto& [words, part] :
       std::vector<std::pair<Words, std::string>>{{{"--dilation", "0"}, "dilation"},
                                                  {{"--dilation", "two"}, "--dilation"},
                                                  {{"--stride", "0"}, "stride"},
                                                  {{"--stride", "1,2,3"}, "--stride"},
                                                  {{"--padding", "-1"}, "padding"},
                                                  {{"--padding", "1000000"}, "memory"},
                                                  {{"--padding", "0", "--dilation", "3"}, "spans"},
                                                  {{"--alpha", "0"}, "--alpha"},
                                                  {{"--alpha", "nan"}, "--alpha"},
                                                  {{"--alpha", "1e40"}, "alpha"},
                                                  {{"--do", "1"}, "min(Din, Dout)"},
                                                  {{"--do", "9000000000000000000"}, "--do"},
                                                  {{"--dhid", "0"}, "--dhid"},
                                                  {{"--dtype", "f16"}, "--dtype"},
                                                  {{"--bias", file("x.npy")}, "bias"},
                                                  {{"--bias", file("none.npy")}, "--bias"},
                                                  {{"--size", "3"}, "--size"}})
    expect_refused(from_kernel(words), part);
  save_f8(file("x.npy"), {5, 6}, pseudo_random(30, 1));
  expect_refused(from_kernel(), "[5, 6]");
  save_f8(file("x.npy"), {5, 6, 3}, pseudo_random(90, 1));
  expect_refused(from_kernel(), "2 channels");
  save_f8(file("x.npy"), {5, 3, 2}, Numbers(30, std::nan("")));
  expect_refused(from_kernel(), "nan");
  save_f8(file("x.npy"), {5, 3, 2}, Numbers(30, 1e308));
  expect_refused(from_kernel(), "inf");
  save_f8(file("k.npy"), {3, 3, 2}, pseudo_random(18, 1));
  expect_refused(from_kernel(), "[3, 3, 2]");
  std::ofstream(file("k.npy")) << "junk";
  expect_refused(from_kernel(), "--kernel");
}

TEST_F(CliConv, BadLayersLeaveNothing) {
  expect_refused(conv({"--layer", file("none")}), "alpha.npy");
  save_problem({1, 2, 2, 4}, {5, 6, 2});
  const std::string layer = file("layer");
  ASSERT_EQ(run_cli({"conv", "--kernel", file("k.npy"), "--image", file("x.npy"), "--out", layer}).status, 0);
  expect_refused(conv({"--layer", layer, "--stride", "2"}), "--stride");
  expect_refused(conv({"--layer", layer, "--size", "0"}), "--size");
  expect_refused(conv({"--layer", layer, "--image", file("k.npy"), "--seed", "2"}), "--seed");
  expect_refused(conv({"--layer", layer, "--image", file("k.npy")}), "channels");
  save_f8(layer + "/center.npy", {2, 2}, {0, 0, 0, 1e12});
  expect_refused(conv({"--layer", layer}), "center");
  save_f8(layer + "/center.npy", {3, 2}, Numbers(6, 0.0));
  expect_refused(conv({"--layer", layer}), "center");
  std::filesystem::remove(layer + "/output.npy");
  expect_refused(conv({"--layer", layer}), "output.npy");
}

}  // namespace
}  // namespace rapt::test
