#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "tests/cli/attend_files.h"

namespace rapt::test {
namespace {

TEST_F(CliAttend, GradientsOfNormalisers) {
  save_problem(random_problem(1, 2, 3, 5, 4, 2));
  save_f8(file("go.npy"), {1, 2, 3, 2}, pseudo_random(12, 9));
  const Numbers go = load(file("go.npy")).values;
  const auto loss = [&](const std::string& name, const std::string& parameter) {
    attend({"--normalize", name, "--param", parameter});
    const Numbers out = load(result("out.npy")).values;
    double sum = 0;
    for (std::size_t n = 0; n < out.size(); ++n) sum += out[n] * go[n];
    return sum;
  };
  for (const auto& [name, parameter] : {std::pair{"softmax", "sink"}, std::pair{"sigmoid", "b"}}) {
    const std::string p = parameter;
    const double step = 1e-5;
    const double slope = (loss(name, p + "=0.3,0.50001") - loss(name, p + "=0.3,0.49999")) / (2 * step);
    attend({"--normalize", name, "--param", p + "=0.3,0.5", "--grad", file("go.npy")});
    const Loaded gradient = load(result("d_" + p + ".npy"));
    EXPECT_EQ(gradient.shape, Sizes{2});
    EXPECT_NEAR(gradient.values[1], slope, 1e-8) << name;
  }
}

TEST_F(CliAttend, GradientsOfEverything) {
  Naive p = random_problem(2, 3, 5, 7, 4, 3);
  save_problem(p);
  const Numbers grad = pseudo_random(90, 5), grad_2 = pseudo_random(60, 6), bias = pseudo_random(7, 7);
  const Numbers v_2 = pseudo_random(84, 8);
  save_f8(file("go.npy"), {2, 3, 5, 3}, grad);
  save_f8(file("go_2.npy"), {2, 3, 5, 2}, grad_2);
  save_f8(file("v_2.npy"), {2, 3, 7, 2}, v_2);
  save_f8(file("bias.npy"), {1, 7}, bias);
  p.change = [&](int, int, int, int j, double s) { return s + bias[static_cast<std::size_t>(j)]; };
  p.forward();
  Naive second = p;
  second.v = v_2;
  second.Dv = 2;
  second.forward();
  Numbers by_score = p.score_gradient(grad);
  const Numbers by_score_2 = second.score_gradient(grad_2);
  for (std::size_t n = 0; n < by_score.size(); ++n) by_score[n] += by_score_2[n];

  Numbers dq(p.q.size()), dk(p.k.size()), dv(p.v.size()), dv_2(v_2.size()), dbias(7);
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 3; ++h)
      for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 7; ++j) {
          const std::size_t pair = p.at(b, h, i, 5, j, 7);
          dbias[static_cast<std::size_t>(j)] += by_score[pair];
          for (int d = 0; d < 4; ++d) {
            dq[p.at(b, h, i, 5, d, 4)] += by_score[pair] * p.k[p.at(b, h, j, 7, d, 4)] / 2;
            dk[p.at(b, h, j, 7, d, 4)] += by_score[pair] * p.q[p.at(b, h, i, 5, d, 4)] / 2;
          }
          for (int d = 0; d < 3; ++d) dv[p.at(b, h, j, 7, d, 3)] += p.weights[pair] * grad[p.at(b, h, i, 5, d, 3)];
          for (int d = 0; d < 2; ++d) dv_2[p.at(b, h, j, 7, d, 2)] += p.weights[pair] * grad_2[p.at(b, h, i, 5, d, 2)];
        }
  for (const char* path : {"auto", "generic"}) {
    std::filesystem::remove_all(file("out"));
    attend({"--v", file("v_2.npy"), "--grad", file("go.npy"), "--grad", file("go_2.npy"), "--bias", file("bias.npy"),
            "--path", path});
    expect_values("out.npy", p.out);
    expect_values("out_1.npy", second.out);
    expect_values("dq.npy", dq);
    expect_values("dk.npy", dk);
    expect_values("dv.npy", dv);
    expect_values("dv_1.npy", dv_2);
    expect_values("dbias.npy", dbias);
    expect_file("dq.npy", "<f8", {2, 3, 5, 4});
    expect_file("dv_1.npy", "<f8", {2, 3, 7, 2});
    expect_file("dbias.npy", "<f8", {1, 7});
  }
}

TEST_F(CliAttend, ParametersFromNumbersAndFiles) {
  Naive p = random_problem(1, 2, 5, 5, 4, 3);
  save_problem(p);
  const Numbers grad = pseudo_random(30, 5);
  save_f8(file("go.npy"), {1, 2, 5, 3}, grad);
  save_f8(file("m.npy"), {2}, {0.5, 0.25});
  p.change = [](int, int h, int i, int j, double s) { return s - (h == 0 ? 0.5 : 0.25) * std::abs(i - j); };
  p.forward();
  const Numbers by_score = p.score_gradient(grad);
  Numbers dm(2);
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < 5; ++i)
      for (int j = 0; j < 5; ++j) dm[static_cast<std::size_t>(h)] -= by_score[p.at(0, h, i, 5, j, 5)] * std::abs(i - j);
  for (const std::string& value : {std::string("0.5,0.25"), file("m.npy")}) {
    std::filesystem::remove_all(file("out"));
    attend({"--score", "alibi", "--param", "m=" + value, "--grad", file("go.npy")});
    expect_values("out.npy", p.out);
    expect_values("d_m.npy", dm);
    expect_file("d_m.npy", "<f8", {2});
  }
}

TEST_F(CliAttend, GradientsOfParametersHaveTheirShapes) {
  const std::int64_t H = 2, S = 6, D = 3;
  save_f4(file("q.npy"), {H, S, D}, pseudo_random(36, 1));
  save_f4(file("k.npy"), {H, S, D}, pseudo_random(36, 2));
  save_f4(file("v.npy"), {H, S, D}, pseudo_random(36, 3));
  save_f4(file("go.npy"), {H, S, D}, pseudo_random(36, 4));
  save_f8(file("W.npy"), {D, D}, pseudo_random(9, 5));
  save_f4(file("W_heads.npy"), {H, D, D}, pseudo_random(18, 5));
  save_f4(file("one.npy"), {1}, {1.5});
  save_f4(file("number.npy"), {}, {1.5});
  save_f4(file("r.npy"), {2 * S - 1, D}, pseudo_random(33, 6));
  struct Case {
    std::string score;
    std::vector<std::string> parameters;
    std::vector<std::pair<std::string, Sizes>> gradients;
  };
  const std::vector<Case> cases{
      {"bilinear", {"W=" + file("W.npy")}, {{"W", {D, D}}}},
      {"bilinear", {"W=" + file("W_heads.npy")}, {{"W", {H, D, D}}}},
      {"bilinear", {"W=1,0,0,0,1,0,0,0,1"}, {{"W", {D, D}}}},
      {"additive", {"w=1,2,3"}, {{"w", {D}}}},
      {"additive", {"w=1,2,3,4,5,6"}, {{"w", {H, D}}}},
      {"additive", {"w=1,2", "Wq=1,0,0,1,1,1", "Wk=1,0,0,1,1,1"}, {{"w", {2}}, {"Wq", {D, 2}}, {"Wk", {D, 2}}}},
      {"cosine", {"tau=2"}, {{"tau", {}}}},
      {"cosine", {"tau=2,3"}, {{"tau", {H}}}},
      {"cosine", {"tau=" + file("one.npy")}, {{"tau", {1}}}},
      {"cosine", {"tau=" + file("number.npy")}, {{"tau", {}}}},
      {"distance", {"gamma=0.5"}, {{"gamma", {}}}},
      {"t5", {"table=1,2,3,4,5,6,7,8", "max_distance=20"}, {{"table", {H, 4}}}},
      {"shaw", {"a=1,2,3,4,5,6,7,8,9"}, {{"a", {3, D}}}},
      {"transformer_xl",
       {"r=" + file("r.npy"), "u=1,2,3,4,5,6", "v=1,2,3,4,5,6"},
       {{"r", {2 * S - 1, D}}, {"u", {H, D}}, {"v", {H, D}}}},
      {"quadratic", {"grid=2,3", "alpha=1,2", "center=1,0,0,1"}, {{"alpha", {H}}, {"center", {H, 2}}}},
      {"gaussian", {"grid=2,3", "center=1,0,0,1", "gamma=1,0,0,1,2,0,0,2"}, {{"center", {H, 2}}, {"gamma", {H, 2, 2}}}},
      {"learned_2d",
       {"grid=2,3", "row=1,2,3,4,5,6,7,8,9", "col=1,2,3,4,5,6,7,8,9,1,2,3,4,5,6", "c=1"},
       {{"row", {3, D}}, {"col", {5, D}}}},
      {"learned_2d",
       {"grid=2,3", "row=1,2,3,4,5,6,7,8,9", "col=1,2,3,4,5,6,7,8,9,1,2,3,4,5,6", "content=0"},
       {{"row", {3, D}}, {"col", {5, D}}}},
  };
  for (const Case& item : cases) {
    SCOPED_TRACE(item.score + " " + testing::PrintToString(item.parameters));
    std::filesystem::remove_all(file("out"));
    std::vector<std::string> words{"--score", item.score, "--grad", file("go.npy")};
    for (const std::string& parameter : item.parameters) words.insert(words.end(), {"--param", parameter});
    attend(words);
    std::vector<std::string> names{"dk.npy", "dq.npy", "dv.npy", "lse.npy", "out.npy"};
    for (const auto& [name, shape] : item.gradients) {
      expect_file("d_" + name + ".npy", "<f4", shape);
      double size = 0;
      for (const double value : load(result("d_" + name + ".npy")).values) size += std::abs(value);
      EXPECT_GT(size, 0) << "the gradient of " << name << " is zero";
      names.push_back("d_" + name + ".npy");
    }
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names_in(file("out")), names);
  }
}

}  // namespace
}  // namespace rapt::test
