// Mechanisms of the caller's own: lambdas and structs of hooks, checked by value and by finite differences.

#include <gtest/gtest.h>

#include <cmath>

#include "rapt/custom.h"
#include "support/checks.h"

namespace {

using oracle::Array;
using support::Call;
using support::CaseSpec;
using support::Int;

// Cauchy similarity with a learned width and a learned slope, over differences weighted by dimension.
struct Cauchy {
  static constexpr std::string_view formula = "−log(1 + width·Σ w(q−k)²) − slope·|i−j|";
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "width"},
      rapt::ParameterSpec{.name = "slope", .heads = rapt::Heads::required},
      rapt::ParameterSpec{.name = "w", .role = rapt::Role::pair_weight, .sizes = {rapt::kKeyDim}},
  };

  template <class N>
  constexpr N pair(N q, N k, N w) const {
    const N x = q - k;
    return w * x * x;
  }
  template <class N, class P, class At>
  N score(N raw, const P& p, const At& at) const {
    using rapt::abs;
    using rapt::log;
    return -log(p[0] * raw + 1) - p[1] * abs(at.offset());
  }
};

// Only keys whose distance is a multiple of a stride, which is the struct's own state.
struct Strided {
  static constexpr std::string_view formula = "q·k/√Dk where (i−j) mod stride = 0";
  static constexpr bool scaled = true;
  float stride = 3;

  template <class At>
  auto visible(const At& at) const {
    using rapt::floor;
    const auto turns = at.offset() / stride;
    return floor(turns) == turns;
  }
};

// A product with a learned matrix on the keys and a vector added to the queries.
struct Mapped {
  static constexpr std::string_view formula = "(q + u)·(k W)";
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "W", .role = rapt::Role::key_map, .sizes = {rapt::kKeyDim, rapt::kQueryDim}},
      rapt::ParameterSpec{.name = "u", .role = rapt::Role::query_shift, .sizes = {rapt::kQueryDim}},
  };
};

struct Custom {
  support::Case described;
  rapt::Score score;
  std::vector<std::pair<std::string, Array>> parameters;  // in the library's shapes
};

Custom make(const rapt::Score& score, const CaseSpec& spec, std::vector<std::pair<std::string, Array>> parameters = {}) {
  return {make_case(spec), score, std::move(parameters)};
}

// Runs like a registered mechanism: the score of the call is replaced.
class CustomCall {
 public:
  explicit CustomCall(const Custom& c) : call_(c.described) {
    call_.options.score = c.score;
    call_.options.threads = 1;
    for (const auto& [name, value] : c.parameters) {
      buffers_.push_back(std::make_unique<support::Buffer>(value, rapt::Dtype::f64));
      call_.options.score.parameters.push_back({name, buffers_.back()->view()});
    }
  }
  Call& call() { return call_; }
  support::Buffer& parameter(std::size_t n) { return *buffers_[n]; }

  // Gradients of the parameters alone: Call asks for those that the case describes.
  std::vector<Array> parameter_gradients() {
    support::ForwardWants wants;
    wants.saved = true;
    call_.forward(wants);
    rapt::Gradients gradients;
    std::vector<support::Buffer> results;
    for (const auto& buffer : buffers_) results.emplace_back(rapt::Dtype::f64, buffer->shape());
    for (std::size_t n = 0; n < results.size(); ++n)
      gradients.parameters.push_back({call_.options.score.parameters[n].name, results[n].view()});
    rapt::attend_backward(call_.inputs, call_.out_views(), call_.grad_out, &call_.saved(), gradients, call_.options);
    std::vector<Array> values;
    for (const support::Buffer& buffer : results) {
      EXPECT_EQ(buffer.damage(), "");
      values.push_back(buffer.values());
    }
    return values;
  }

 private:
  Call call_;
  std::vector<std::unique_ptr<support::Buffer>> buffers_;
};

double loss(Call& call) {
  const support::ForwardResult r = call.forward();
  double sum = 0;
  for (std::size_t e = 0; e < r.out[0].data.size(); ++e) sum += r.out[0].data[e] * call.described().grad_out[0].data[e];
  return sum;
}

Array differences(Call& call, support::Buffer& buffer) {
  const Array kept = buffer.values();
  Array moved = kept, result(kept.shape);
  for (std::size_t n = 0; n < kept.data.size(); ++n) {
    moved.data[n] = kept.data[n] + 1e-5;
    buffer.set(moved);
    const double above = loss(call);
    moved.data[n] = kept.data[n] - 1e-5;
    buffer.set(moved);
    result.data[n] = (above - loss(call)) / 2e-5;
    moved.data[n] = kept.data[n];
  }
  buffer.set(kept);
  return result;
}

void check_gradients(const Custom& c) {
  CustomCall custom(c);
  for (rapt::Path path : {rapt::Path::automatic, rapt::Path::reference}) {
    Call& call = custom.call();
    call.options.path = path;
    const support::BackwardResult b = call.backward();
    EXPECT_EQ(b.damage, "");
    EXPECT_TRUE(support::agree(b.gradients.q, differences(call, call.q()), 1e-6, 0.01));
    EXPECT_TRUE(support::agree(b.gradients.k, differences(call, call.k()), 1e-6, 0.01));
    EXPECT_TRUE(support::agree(b.gradients.v[0], differences(call, call.v(0)), 1e-6, 0.01));
    const std::vector<Array> parameters = custom.parameter_gradients();
    for (std::size_t n = 0; n < parameters.size(); ++n)
      EXPECT_TRUE(support::agree(parameters[n], differences(call, custom.parameter(n)), 1e-6, 0.01)) << c.parameters[n].first;
  }
}

// out by the formula itself, given the score of one pair; −inf hides.
template <class F>
void check_values(const Custom& c, F score) {
  CustomCall custom(c);
  const oracle::Problem& p = c.described.problem;
  for (rapt::Path path : {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference}) {
    custom.call().options.path = path;
    const support::ForwardResult r = custom.call().forward();
    ASSERT_EQ(r.damage, "");
    for (Int h = 0; h < p.heads(); ++h)
      for (Int i = 0; i < p.queries(); ++i) {
        double sum = 0;
        std::vector<double> out(static_cast<std::size_t>(p.v[0].shape[3]));
        for (Int j = 0; j < p.keys(); ++j) {
          const double e = std::exp(score(h, i, j));
          sum += e;
          for (std::size_t d = 0; d < out.size(); ++d) out[d] += e * p.v[0].at(0, h, j, static_cast<Int>(d));
        }
        for (std::size_t d = 0; d < out.size(); ++d)
          ASSERT_NEAR(r.out[0].at(0, h, i, static_cast<Int>(d)), sum > 0 ? out[d] / sum : 0, 1e-12) << i;
      }
  }
}

CaseSpec small() {
  CaseSpec s;
  s.queries = 9;
  s.keys = 11;
  s.key_dim = 4;
  s.value_dims = {3};
  return s;
}

double product(const oracle::Problem& p, Int h, Int i, Int j) {
  double sum = 0;
  for (Int d = 0; d < p.k.shape[3]; ++d) sum += p.q.at(0, h, i, d) * p.k.at(0, h, j, d);
  return sum;
}

TEST(Custom, Lambda) {
  const Custom c = make(rapt::custom([](auto raw, const auto& at) {
                          using rapt::abs;
                          using rapt::tanh;
                          return tanh(raw * at.scale) * 3 - 0.1 * abs(at.offset());
                        }),
                        small());
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) { return 3 * std::tanh(product(p, h, i, j) / 2) - 0.1 * std::abs(i - j); });
  check_gradients(c);
}

TEST(Custom, LambdaWithState) {
  const double slope = 0.25;
  const Custom c = make(rapt::custom([slope](auto raw, const auto& at) { return raw * at.scale + slope * at.offset(); }), small());
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) { return product(p, h, i, j) / 2 + slope * static_cast<double>(j - i); });
  check_gradients(c);
}

TEST(Custom, PairAndParameters) {
  support::Random random(4);
  Array w({1, 1, 1, 4});
  for (double& e : w.data) e = random.uniform(0.2, 1);
  const Custom c = make(rapt::custom(Cauchy{}), small(),
                        {{"width", Array({1, 1, 1, 1}, {0.7})}, {"slope", Array({1, 1, 1, 2}, {0.1, 0.3})}, {"w", w}});
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) {
    double sum = 0;
    for (Int d = 0; d < 4; ++d) sum += w.data[static_cast<std::size_t>(d)] * std::pow(p.q.at(0, h, i, d) - p.k.at(0, h, j, d), 2);
    return -std::log(1 + 0.7 * sum) - (h == 0 ? 0.1 : 0.3) * std::abs(double(i - j));
  });
  check_gradients(c);
}

TEST(Custom, VisibleAndState) {
  for (float stride : {1.f, 2.f, 5.f}) {
    CaseSpec s = small();
    s.queries = 70;
    s.keys = 90;
    const Custom c = make(rapt::custom(Strided{stride}), s);
    const oracle::Problem& p = c.described.problem;
    check_values(c, [&](Int h, Int i, Int j) {
      if ((j - i) % static_cast<Int>(stride) != 0) return -HUGE_VAL;
      return product(p, h, i, j) / 2;
    });
  }
  check_gradients(make(rapt::custom(Strided{2}), small()));
}

TEST(Custom, MapsAndShifts) {
  support::Random random(6);
  const Array W = support::random_array({1, 2, 4, 4}, random, rapt::Dtype::f64, 0.5);
  const Array u = support::random_array({1, 1, 1, 4}, random, rapt::Dtype::f64, 0.5);
  const Custom c = make(rapt::custom(Mapped{}), small(), {{"W", W}, {"u", u}});
  const oracle::Problem& p = c.described.problem;
  check_values(c, [&](Int h, Int i, Int j) {
    double sum = 0;
    for (Int out = 0; out < 4; ++out)
      for (Int in = 0; in < 4; ++in)
        sum += (p.q.at(0, h, i, out) + u.at(0, 0, 0, out)) * p.k.at(0, h, j, in) * W.at(0, h, in, out);
    return sum;
  });
  check_gradients(c);
}

// A formula of the library, written again by a caller, gives the library's numbers.
TEST(Custom, EqualsTheRegisteredMechanism) {
  CaseSpec s = small();
  s.mechanism = "alibi";
  s.queries = 60;
  s.keys = 75;
  s.mask = support::MaskKind::bottom_right;
  const support::Case c = make_case(s);
  Call registered(c), own(c);
  const double slopes[2] = {c.problem.parameters.at("m").data[0], c.problem.parameters.at("m").data[1]};
  own.options.score = rapt::custom([&slopes](auto raw, const auto& at) {
    using rapt::abs;
    return raw * at.scale - slopes[at.head] * abs(at.offset());
  });
  EXPECT_TRUE(support::agree(registered.forward().out[0], own.forward().out[0], 1e-13));
  support::BackwardWants wants;
  wants.parameters = false;
  EXPECT_TRUE(support::agree(registered.backward(wants).gradients, own.backward(wants).gradients, 1e-12));
}

}  // namespace
