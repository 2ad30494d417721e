// Outputs on request, alone and together, in every storage type.

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/x86/bf16.h"
#include "support/checks.h"
#include "support/storage.h"

namespace {

using oracle::Array;
using support::Buffer;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;

constexpr rapt::Path kPaths[] = {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference};

Case example(rapt::Dtype dtype = rapt::Dtype::f32, const std::string& mechanism = "scaled_dot") {
  CaseSpec s;
  s.mechanism = mechanism;
  s.dtype = dtype;
  s.batch = 2;
  s.queries = 37;
  s.keys = 51;
  s.mask = support::MaskKind::bottom_right;
  return make_case(s);
}

TEST(Outputs, PlainCallEqualsTheFullOne) {
  const Case c = example();
  Call call(c);
  const support::ForwardResult full = call.forward();
  Buffer out(rapt::Dtype::f32, full.out[0].shape);
  rapt::attend(call.inputs.q, call.inputs.k, call.inputs.v[0], out.view(), call.options);
  EXPECT_EQ(out.damage(), "");
  EXPECT_EQ(out.values().data, full.out[0].data);
}

// Without out: lse, weights or one statistic alone.
TEST(Outputs, EachAloneEqualsAllTogether) {
  for (const char* mechanism : {"scaled_dot", "additive", "gaussian"})
    for (rapt::Path path : kPaths) {
      const Case c = example(rapt::Dtype::f32, mechanism);
      Call call(c);
      call.options.path = path;
      support::ForwardWants wants;
      wants.weights = wants.statistics = true;
      wants.top_k = 3;
      const support::ForwardResult all = call.forward(wants);
      const auto rows = all.lse.shape;
      const auto ask = [&](auto set) {
        rapt::Outputs outputs;
        set(outputs);
        rapt::attend(call.inputs, outputs, call.options);
      };
      const auto expect = [](const Buffer& got, const std::vector<double>& want) {
        EXPECT_EQ(got.damage(), "");
        EXPECT_TRUE(support::agree(Array(got.shape(), got.values().data), Array(got.shape(), want), 1e-5));
      };
      Buffer lse(rapt::Dtype::f32, rows), entropy(rapt::Dtype::f32, rows), position(rapt::Dtype::f32, rows);
      Buffer covariance(rapt::Dtype::f32, rows), weights(rapt::Dtype::f32, {1, 1, 2, c.spec.keys});
      Buffer top(rapt::Dtype::f32, {rows[0], rows[1], rows[2], 3});
      std::vector<std::int64_t> argmax(static_cast<std::size_t>(lse.values().size()), -5),
          indices(argmax.size() * 3, -5);
      ask([&](rapt::Outputs& o) { o.lse = lse.view(); });
      expect(lse, all.lse.data);
      ask([&](rapt::Outputs& o) { o.statistics.entropy = entropy.view(); });
      expect(entropy, all.statistics.entropy.data);
      ask([&](rapt::Outputs& o) { o.statistics.position = position.view(); });
      expect(position, all.statistics.position.data);
      ask([&](rapt::Outputs& o) { o.statistics.covariance = covariance.view(); });
      expect(covariance, all.statistics.covariance.data);
      ask([&](rapt::Outputs& o) { o.statistics.argmax = argmax.data(); });
      EXPECT_EQ(argmax, all.statistics.argmax);
      ask([&](rapt::Outputs& o) { o.statistics.top_k = 3, o.statistics.top_indices = indices.data(); });
      EXPECT_EQ(indices, all.statistics.top_indices);
      ask([&](rapt::Outputs& o) { o.statistics.top_k = 3, o.statistics.top_weights = top.view(); });
      expect(top, all.statistics.top_weights.data);
      ask([&](rapt::Outputs& o) { o.weights = {{1, 0, 5, 7, weights.view()}}; });
      const Int start = all.weights.place(1, 0, 5, 0);
      expect(weights, {all.weights.data.begin() + start, all.weights.data.begin() + start + 2 * c.spec.keys});
    }
}

// The weights of keys that all score 0 are equal, and so small that one over their sum is infinite. Kernels that flush such
// numbers take the row for one without weight.
template <class T>
void expect_the_middle(T logit, rapt::Path path) {
  const std::vector<T> sink{logit};
  const std::vector<T> zeros(7 * 4);
  std::vector<T> position(1), covariance(1);
  const rapt::ConstView q = rapt::view(zeros.data(), {1, 4}), k = rapt::view(zeros.data(), {7, 4});
  rapt::AttendOptions options;
  options.path = path;
  options.normalizer_parameters = {{"sink", rapt::view(sink.data(), {1})}};
  rapt::Outputs outputs;
  outputs.statistics.position = rapt::view(position.data(), {1});
  outputs.statistics.covariance = rapt::view(covariance.data(), {1});
  rapt::attend(rapt::Inputs{q, k, {k}}, outputs, options);
  const bool none = path != rapt::Path::reference && position[0] == 0;
  EXPECT_NEAR(position[0], none ? 0 : 3, 1e-3);
  EXPECT_NEAR(covariance[0], none ? 0 : 4, 1e-3);
}

TEST(Outputs, PositionsWhereASinkTakesTheWeight) {
  for (const rapt::Path path : kPaths) {
    SCOPED_TRACE(static_cast<int>(path));
    expect_the_middle(91.0F, path);
    expect_the_middle(713.0, path);
  }
}

TEST(Outputs, AskingForNothingIsAllowed) {
  Call call(example());
  EXPECT_NO_THROW(rapt::attend(call.inputs, rapt::Outputs{}, call.options));
}

TEST(Outputs, SeveralWeightRequestsOfOneHead) {
  const Case c = example();
  Call call(c);
  support::ForwardWants wants;
  wants.weights = true;
  const support::ForwardResult all = call.forward(wants);
  Buffer a(rapt::Dtype::f32, {1, 1, 37, 51}), b(rapt::Dtype::f32, {1, 1, 4, 51}, support::Layout::gaps),
      d(rapt::Dtype::f32, {1, 1, 1, 51});
  rapt::Outputs outputs;
  outputs.weights = {{0, 1, 0, 37, a.view()}, {0, 1, 30, 34, b.view()}, {0, 1, 33, 34, d.view()}};
  rapt::attend(call.inputs, outputs, call.options);
  for (Int j = 0; j < 51; ++j) {
    EXPECT_EQ(a.values().at(0, 0, 33, j), all.weights.at(0, 1, 33, j));
    EXPECT_EQ(b.values().at(0, 0, 3, j), all.weights.at(0, 1, 33, j));
    EXPECT_EQ(d.values().at(0, 0, 0, j), all.weights.at(0, 1, 33, j));
  }
  EXPECT_EQ(b.damage(), "");
}

// Gradients of outputs may have a type of their own: wider ones leave the paths that are for one type alone.
TEST(Outputs, GradientsOfAnotherType) {
  for (const rapt::Dtype in : {rapt::Dtype::bf16, rapt::Dtype::f16}) {
    CaseSpec spec;
    spec.mechanism = "scaled_dot";
    spec.dtype = in;
    spec.queries = 70;
    spec.keys = 130;
    const Case c = make_case(spec);
    Call call(c);
    const oracle::Gradients same = call.backward().gradients;
    const Buffer wide(c.grad_out[0], rapt::Dtype::f32, support::Layout::bhsd);
    call.grad_out[0] = wide.view();
    const oracle::Gradients got = call.backward().gradients;
    EXPECT_TRUE(support::agree(got, same, support::rounding_of(in))) << support::label(in);
    EXPECT_TRUE(support::agree(got, oracle::backward(c.problem, c.grad_out), support::rounding_of(in)));
  }
}

// Outputs may be wider than the inputs, and narrower: they are rounded once.
TEST(Outputs, InAnyStorageType) {
  for (rapt::Dtype in : support::all_dtypes())
    for (rapt::Dtype out : support::all_dtypes())
      for (rapt::Path path : kPaths) {
        SCOPED_TRACE(testing::Message() << support::label(in) << " to " << support::label(out));
        const Case c = example(in);
        Call call(c);
        call.options.path = path;
        const oracle::Forward want = oracle::forward(c.problem);
        Buffer o(out, want.out[0].shape), lse(out, want.lse.shape), weights(out, {1, 1, 37, 51});
        rapt::Outputs outputs;
        outputs.out = {o.view()};
        outputs.lse = lse.view();
        outputs.weights = {{1, 1, 0, 37, weights.view()}};
        rapt::attend(call.inputs, outputs, call.options);
        EXPECT_EQ(o.damage() + lse.damage() + weights.damage(), "");
        const double compute = in == rapt::Dtype::f64 ? 1e-12 : 2e-6;
        const bool rounds_weights = in == rapt::Dtype::bf16 && out == in && rapt::active_bf16(rapt::active_isa());
        const auto close = [&](const Array& got, const double* values, const char* name, double extra = 0) {
          for (std::size_t n = 0; n < got.data.size(); ++n) {
            if (got.data[n] == values[n]) continue;
            const double allowed = extra + compute * 4 + support::half_step(out, std::abs(values[n]) + 1e-6);
            ASSERT_NEAR(got.data[n], values[n], allowed) << name;
          }
        };
        close(o.values(), want.out[0].data.data(), "out", rounds_weights ? 1.0 / 512 : 0);
        close(lse.values(), want.lse.data.data(), "lse");
        close(weights.values(), want.weights.data.data() + want.weights.place(1, 1, 0, 0), "weights");
      }
}

// bf16 inputs with f32 gradients and parameters: what training in mixed precision asks for.
TEST(Outputs, WideGradientsOfNarrowInputs) {
  for (const char* mechanism : {"bilinear", "cosine", "shaw", "t5", "gaussian"})
    for (rapt::Path path : kPaths) {
      const Case c = example(rapt::Dtype::bf16, mechanism);
      Call call(c);
      call.options.path = path;
      // Outputs kept in f32 as well: nothing is rounded to bf16 after the inputs.
      Buffer out(rapt::Dtype::f32, c.grad_out[0].shape);
      rapt::Saved saved;
      rapt::Outputs outputs;
      outputs.out = {out.view()};
      outputs.saved = &saved;
      std::vector<std::unique_ptr<Buffer>> parameters, gradients;
      rapt::Gradients wanted;
      for (rapt::NamedView& p : call.options.score.parameters) {
        parameters.push_back(
            std::make_unique<Buffer>(call.parameter(p.name).values(), rapt::Dtype::f32, support::Layout::gaps));
        p.value = parameters.back()->view();
        gradients.push_back(
            std::make_unique<Buffer>(rapt::Dtype::f32, parameters.back()->shape(), support::Layout::gaps));
        wanted.parameters.push_back({p.name, gradients.back()->view()});
      }
      rapt::attend(call.inputs, outputs, call.options);
      Buffer dq(rapt::Dtype::f32, c.problem.q.shape), dk(rapt::Dtype::f32, c.problem.k.shape),
          dv(rapt::Dtype::f32, c.problem.v[0].shape);
      wanted.q = dq.view();
      wanted.k = dk.view();
      wanted.v = {dv.view()};
      rapt::attend_backward(call.inputs, {out.view()}, call.grad_out, &saved, wanted, call.options);
      const oracle::Gradients want = oracle::backward(c.problem, c.grad_out);
      SCOPED_TRACE(mechanism);
      EXPECT_TRUE(support::agree(dq.values(), want.q, 2e-5, 0.1));
      EXPECT_TRUE(support::agree(dk.values(), want.k, 2e-5, 0.1));
      EXPECT_TRUE(support::agree(dv.values(), want.v[0], 2e-5));
      for (std::size_t n = 0; n < gradients.size(); ++n) {
        EXPECT_EQ(gradients[n]->damage(), "");
        const Array& expected = want.parameters.at(wanted.parameters[n].name);
        EXPECT_TRUE(support::agree(Array(expected.shape, gradients[n]->values().data), expected, 1e-4, 0.1))
            << wanted.parameters[n].name;
      }
    }
}

TEST(Outputs, ManyValueSetsAndWideHeads) {
  CaseSpec s;
  s.dtype = rapt::Dtype::f32;
  s.value_dims = {1, 2, 3, 5, 8, 13};
  support::check_forward(s);
  support::check_backward(s);
  s.value_dims = {400};
  s.key_dim = 300;
  for (const char* mechanism : {"scaled_dot", "distance", "shaw", "additive"}) {
    s.mechanism = mechanism;
    support::check_forward(s);
    support::check_backward(s);
  }
}

TEST(Outputs, ManySmallHeads) {
  CaseSpec s;
  s.dtype = rapt::Dtype::f32;
  s.batch = 50;
  s.heads = 8;
  s.key_heads = 1;
  s.queries = s.keys = 3;
  s.key_dim = 2;
  for (const char* mechanism : {"dot", "bilinear", "alibi"}) {
    s.mechanism = mechanism;
    support::check_forward(s);
    support::check_backward(s);
  }
}

}  // namespace
