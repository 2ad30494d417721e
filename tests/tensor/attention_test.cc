#include "tensor/attention.h"

#include <gtest/gtest.h>

#include "oracle/oracle.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "support/tensors.h"

namespace rapt::test {
namespace {

using std::int64_t;
using support::Input;
using support::random_input;
using support::Sizes;

constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 2;
constexpr int64_t kDim = 3;
constexpr int64_t kValueDim = 2;

struct ParameterShape {
  std::string name;
  Sizes shape;           // as the tape holds it
  oracle::Sizes oracle;  // as the oracle takes it
};

struct Case {
  std::string mechanism;
  std::vector<ParameterShape> parameters;
  int64_t queries = 4;
  int64_t keys = 6;
  std::array<int64_t, 2> grid{};
  Normalizer normalizer = Normalizer::softmax;
};

std::vector<Case> cases() {
  std::vector<Case> list{
      {"dot", {}},
      {"scaled_dot", {}},
      {"bilinear", {{"W", {kHeads, kDim, kDim}, {1, kHeads, kDim, kDim}}}},
      {"additive", {{"w", {5}, {1, 1, 1, 5}}, {"Wq", {kDim, 5}, {1, 1, kDim, 5}}, {"Wk", {kDim, 5}, {1, 1, kDim, 5}}}},
      {"cosine", {{"tau", {kHeads}, {1, kHeads, 1, 1}}}},
      {"distance", {{"gamma", {1}, {1, 1, 1, 1}}}},
      {"alibi", {{"m", {kHeads}, {1, kHeads, 1, 1}}}},
      {"t5", {{"table", {kHeads, 8}, {1, kHeads, 1, 8}}}},
      {"shaw", {{"a", {5, kDim}, {1, 1, 5, kDim}}}},
      {"transformer_xl",
       {{"r", {9, kDim}, {1, 1, 9, kDim}},
        {"u", {kHeads, kDim}, {1, kHeads, 1, kDim}},
        {"v", {kHeads, kDim}, {1, kHeads, 1, kDim}}}},
      {"quadratic", {{"alpha", {kHeads}, {1, kHeads, 1, 1}}, {"center", {kHeads, 2}, {1, kHeads, 1, 2}}}, 6, 6, {2, 3}},
      {"dot", {}},
  };
  list.back().normalizer = Normalizer::argmax;
  return list;
}

// [steps, batch, heads·dim] as the oracle's [batch, heads, steps, dim], and back.
oracle::Array heads_first(const Input& x, int64_t steps, int64_t dim) {
  oracle::Array a({kBatch, kHeads, steps, dim});
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t d = 0; d < dim; ++d)
          a.at(b, h, s, d) = x.values[static_cast<std::size_t>(((s * kBatch + b) * kHeads + h) * dim + d)];
  return a;
}
std::vector<double> steps_first(const oracle::Array& a) {
  std::vector<double> x;
  for (int64_t s = 0; s < a.shape[2]; ++s)
    for (int64_t b = 0; b < a.shape[0]; ++b)
      for (int64_t h = 0; h < a.shape[1]; ++h)
        for (int64_t d = 0; d < a.shape[3]; ++d) x.push_back(a.at(b, h, s, d));
  return x;
}

enum class Hidden { none, causal, lengths };

struct Prepared {
  std::vector<Input> inputs;
  oracle::Problem problem;
  Mask mask;
};

Prepared prepare(const Case& c, Hidden hidden) {
  Random random(3, c.queries);
  Prepared p;
  p.inputs = {random_input("q", {c.queries, kBatch, kHeads * kDim}, random),
              random_input("k", {c.keys, kBatch, kHeads * kDim}, random),
              random_input("v", {c.keys, kBatch, kHeads * kValueDim}, random)};
  p.problem.mechanism = c.mechanism;
  p.problem.q = heads_first(p.inputs[0], c.queries, kDim);
  p.problem.k = heads_first(p.inputs[1], c.keys, kDim);
  p.problem.v = {heads_first(p.inputs[2], c.keys, kValueDim)};
  p.problem.grid = c.grid;
  if (c.mechanism == "t5") p.problem.settings["max_distance"] = 128;
  if (c.normalizer == Normalizer::argmax) p.problem.normalizer = oracle::Normalizer::argmax;
  for (const ParameterShape& shape : c.parameters) {
    p.inputs.push_back(random_input(shape.name, shape.shape, random, 0.7));
    p.problem.parameters[shape.name] = oracle::Array(shape.oracle, p.inputs.back().values);
  }
  if (hidden == Hidden::causal) {
    p.mask.causal = Causal::top_left;
    p.problem.mask.causal = oracle::Causal::top_left;
  } else if (hidden == Hidden::lengths) {
    p.mask.key_lengths = p.problem.mask.key_lengths = {c.keys, 2};
  }
  return p;
}

template <class T>
AttentionCall<T> call_of(const Case& c, const Prepared& p, const std::vector<Tensor<T>>& x) {
  AttentionCall<T> call;
  call.q = x[0].split_heads(kHeads);
  call.k = x[1].split_heads(kHeads);
  call.values = {x[2].split_heads(kHeads)};
  call.mechanism = &mechanism(c.mechanism);
  for (std::size_t n = 0; n < c.parameters.size(); ++n) call.parameters.push_back({c.parameters[n].name, x[3 + n]});
  call.grid = c.grid;
  call.mask = p.mask;
  call.normalizer = c.normalizer;
  return call;
}

TEST(AttentionOnATape, ValuesAndGradients) {
  for (const Case& c : cases())
    for (const Hidden hidden : {Hidden::none, Hidden::causal, Hidden::lengths}) {
      SCOPED_TRACE(c.mechanism + ", mask " + std::to_string(static_cast<int>(hidden)));
      const Prepared p = prepare(c, hidden);
      support::check_operation(
          p.inputs, [&](auto& tape, const auto& x) { return std::vector{attention(tape, call_of(c, p, x))}; },
          {steps_first(oracle::forward(p.problem).out[0])});
      if (HasFatalFailure()) return;
    }
}

TEST(AttentionOnATape, Weights) {
  for (const Case& c : cases()) {
    const Prepared p = prepare(c, Hidden::lengths);
    std::vector<support::Held<double>> held(p.inputs.begin(), p.inputs.end());
    std::vector<Tensor<double>> x;
    for (auto& h : held) x.push_back(h.tensor());
    Tape<double> tape(false);
    AttentionCall<double> call = call_of(c, p, x);
    std::vector<double> weights(static_cast<std::size_t>(kBatch * kHeads * c.queries * c.keys), -1.0);
    call.weights = weights.data();
    attention(tape, call);
    support::expect_close(weights, oracle::forward(p.problem).weights.data, 1e-12, c.mechanism);
  }
}

// As models use it: the same tensor gives queries, keys and values.
TEST(AttentionOnATape, OneTensorInAllPlaces) {
  Random random(5);
  support::check_operation({random_input("x", {5, kBatch, kHeads * kDim}, random)},
                           [&](auto& tape, const auto& x) {
                             using T = std::decay_t<decltype(*x[0].data)>;
                             AttentionCall<T> call;
                             call.q = call.k = x[0].split_heads(kHeads);
                             call.values = {call.q};
                             call.mechanism = &mechanism("scaled_dot");
                             call.mask.causal = Causal::top_left;
                             return std::vector{attention(tape, call)};
                           },
                           {});
}

TEST(AttentionOnATape, BadShapesAreErrors) {
  Tape<float> tape;
  const auto zeros = [&](std::initializer_list<int64_t> sizes) {
    const Tensor<float> t = tape.make(sizes);
    std::fill_n(t.data, t.count(), 0.0F);
    return t.split_heads(kHeads);
  };
  const auto call = [&](const Tensor<float>& q, const Tensor<float>& k, const Tensor<float>& v) {
    AttentionCall<float> c;
    c.q = q;
    c.k = k;
    c.values = {v};
    c.mechanism = &mechanism("dot");
    attention(tape, c);
  };
  EXPECT_NO_THROW(call(zeros({3, 2, 4}), zeros({5, 2, 4}), zeros({5, 2, 6})));
  EXPECT_THROW(call(zeros({3, 2, 4}), zeros({5, 2, 6}), zeros({5, 2, 6})), Error);
  EXPECT_THROW(call(zeros({3, 2, 4}), zeros({5, 2, 4}), zeros({4, 2, 6})), Error);
  EXPECT_THROW(call(zeros({3, 2, 4}), zeros({5, 3, 4}), zeros({5, 3, 6})), Error);
}

// Several value sets of different widths under one map, with a bias; every gradient, q and k from all sets together.
TEST(AttentionOnATape, SeveralValueSets) {
  constexpr int64_t kQueries = 4;
  constexpr int64_t kKeys = 5;
  for (const int sets : {2, 3, 5})
    for (const int64_t heads_of_bias : {int64_t{1}, kHeads}) {
      SCOPED_TRACE(std::to_string(sets) + " sets, bias of " + std::to_string(heads_of_bias));
      Random random(7, sets);
      std::vector<Input> inputs{random_input("q", {kQueries, kBatch, kHeads * kDim}, random),
                                random_input("k", {kKeys, kBatch, kHeads * kDim}, random),
                                random_input("bias", {1, heads_of_bias, kQueries, kKeys}, random)};
      oracle::Problem problem;
      problem.mechanism = "scaled_dot";
      problem.q = heads_first(inputs[0], kQueries, kDim);
      problem.k = heads_first(inputs[1], kKeys, kDim);
      problem.bias = oracle::Array({1, heads_of_bias, kQueries, kKeys}, inputs[2].values);
      for (int n = 0; n < sets; ++n) {
        inputs.push_back(random_input("v" + std::to_string(n), {kKeys, kBatch, kHeads * (1 + n)}, random));
        problem.v.push_back(heads_first(inputs.back(), kKeys, 1 + n));
      }
      const auto compute = [&](auto& tape, const auto& x) {
        using T = std::decay_t<decltype(*x[0].data)>;
        AttentionCall<T> call;
        call.q = x[0].split_heads(kHeads);
        call.k = x[1].split_heads(kHeads);
        call.bias = x[2];
        for (std::size_t n = 3; n < x.size(); ++n) call.values.push_back(x[n].split_heads(kHeads));
        call.mechanism = &mechanism("scaled_dot");
        return shared_attention(tape, call);
      };
      std::vector<std::vector<double>> expected;
      for (const oracle::Array& out : oracle::forward(problem).out) expected.push_back(steps_first(out));
      support::check_operation(inputs, compute, expected);
      inputs[2].differentiated = false;
      inputs[4].differentiated = false;
      support::check_operation(inputs, compute, expected);
    }
}

TEST(AttentionOnATape, OneOutputTakesOneValueSet) {
  Tape<float> tape;
  AttentionCall<float> call;
  call.q = call.k = tape.make({3, 2, 4}).split_heads(kHeads);
  call.mechanism = &mechanism("dot");
  EXPECT_THROW(shared_attention(tape, call), Error);
  call.values = {call.q, call.q};
  EXPECT_THROW(attention(tape, call), Error);
}

TEST(AttentionOnATape, OnlyTheGradientsThatAreWanted) {
  const Case c = cases()[3];  // additive
  for (std::size_t left_out = 0; left_out < 6; ++left_out) {
    Prepared p = prepare(c, Hidden::none);
    p.inputs[left_out].differentiated = false;
    support::check_operation(
        p.inputs, [&](auto& tape, const auto& x) { return std::vector{attention(tape, call_of(c, p, x))}; }, {});
  }
}

}  // namespace
}  // namespace rapt::test
