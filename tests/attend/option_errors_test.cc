// Normalisers, positions, rotary embeddings and partial results: what is refused, and in which words.

#include <gtest/gtest.h>

#include <limits>

#include <functional>

#include "rapt/error.h"
#include "rapt/partial.h"
#include "support/checks.h"

namespace {

using oracle::Array;
using support::Buffer;
using support::Call;
using support::CaseSpec;
using support::Int;

void expect_refused(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << parts[0];
  } catch (const rapt::Error& error) {
    const std::string text = error.what();
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "\"" << text << "\" does not say \"" << part << "\"";
  }
}

// A call of the case that `change` has made wrong, forward and backward.
void refuses(const CaseSpec& spec, const std::function<void(Call&)>& change, const std::vector<std::string>& parts) {
  Call call(make_case(spec));
  change(call);
  expect_refused([&] { call.forward(); }, parts);
  expect_refused(
      [&] {
        Call sound(make_case(spec));
        sound.forward();
        rapt::Gradients gradients;
        Buffer dq(rapt::Dtype::f64, call.described().problem.q.shape);
        gradients.q = dq.view();
        rapt::attend_backward(call.inputs, sound.out_views(), call.grad_out, nullptr, gradients, call.options);
      },
      parts);
}

CaseSpec spec_of(const std::string& mechanism = "scaled_dot") {
  CaseSpec s;
  s.mechanism = mechanism;
  s.batch = 2;
  s.queries = 5;
  s.keys = 12;
  return s;
}

TEST(OptionErrors, FirstQuery) {
  refuses(spec_of(), [](Call& c) { c.options.first_query = {1, 2, 3}; }, {"attend", "first_query", "2", "3"});
  refuses(spec_of(),
          [](Call& c) {
            c.options.first_query = {1};
            c.options.mask.causal = rapt::Causal::bottom_right;
          },
          {"first_query", "bottom_right"});
  refuses(spec_of(),
          [](Call& c) {
            c.options.first_query = {1};
            c.options.mask.query_starts = {0, 2, 5};
            c.options.mask.key_starts = {0, 4, 12};
          },
          {"first_query", "packed"});
  refuses(spec_of(),
          [](Call& c) {
            c.options.first_key = 4;
            c.options.mask.query_starts = {0, 2, 5};
            c.options.mask.key_starts = {0, 4, 12};
          },
          {"first_key", "packed"});
  refuses(spec_of(),
          [](Call& c) {
            c.options.first_key = 4;
            c.options.mask.causal = rapt::Causal::bottom_right;
          },
          {"first_key", "bottom_right", "first_query"});
  refuses(spec_of(), [](Call& c) { c.options.first_query = {Int{1} << 60}; }, {"first_query"});
  // A table would need a row number for every offset between them.
  refuses(spec_of("t5"), [](Call& c) { c.options.first_query = {0, 400'000'000'000}; }, {"first_query", "batches"});
  refuses(spec_of(), [](Call& c) { c.options.first_query = {std::numeric_limits<Int>::max()}; }, {"first_query"});
  refuses(spec_of(), [](Call& c) { c.options.first_key = std::numeric_limits<Int>::min(); }, {"k", "positions"});
}

TEST(OptionErrors, StatisticsLieWhereTheInputsDo) {
  Call call(make_case(spec_of()));
  Buffer entropy(rapt::Dtype::f64, {2, 2, 5, 1});
  rapt::Outputs outputs;
  outputs.statistics.entropy = entropy.view();
  outputs.statistics.entropy.device.kind = rapt::Device::Kind::cuda;
  expect_refused([&] { rapt::attend(call.inputs, outputs, call.options); }, {"statistics", "entropy", "cpu", "cuda"});
}

TEST(OptionErrors, Rotary) {
  refuses(spec_of(), [](Call& c) { c.options.rotary.dims = 3; }, {"rotary", "dims", "even", "3"});
  refuses(spec_of(), [](Call& c) { c.options.rotary.dims = 10; }, {"rotary", "dims", "8", "10"});
  refuses(spec_of(), [](Call& c) { c.options.rotary.dims = -2; }, {"rotary", "dims", "-2"});
  refuses(spec_of(), [](Call& c) { c.options.rotary = {4, 0, false}; }, {"rotary", "base"});
}

TEST(OptionErrors, NormalizerParameters) {
  const Buffer three(Array({1, 1, 1, 3}), rapt::Dtype::f64), two(Array({1, 1, 1, 2}), rapt::Dtype::f64);
  refuses(spec_of(),
          [&](Call& c) {
            c.options.normalizer_parameters = {{"sink", three.view()}};
          },
          {"softmax", "sink", "2", "3"});
  refuses(spec_of(), [&](Call& c) { c.options.normalizer_parameters = {{"b", two.view()}}; }, {"softmax", "'b'"});
  refuses(spec_of(),
          [&](Call& c) {
            c.options.normalizer = rapt::Normalizer::sparsemax;
            c.options.normalizer_parameters = {{"sink", two.view()}};
          },
          {"sparsemax", "'sink'"});
  refuses(spec_of(),
          [&](Call& c) {
            c.options.normalizer_parameters = {{"sink", two.view()}, {"sink", two.view()}};
          },
          {"sink", "twice"});
  refuses(spec_of(),
          [&](Call& c) {
            c.options.normalizer = rapt::Normalizer::sigmoid;
            c.options.normalizer_parameters = {{"b", three.view()}};
          },
          {"sigmoid", "'b'", "2", "3"});
}

TEST(OptionErrors, TablesThatDoNotReach) {
  CaseSpec s = spec_of("transformer_xl");
  s.settings = support::Settings::defaults;
  refuses(s, [](Call& c) { c.options.first_query = {1}; }, {"transformer_xl", "r"});
  refuses(s, [](Call& c) { c.options.first_query = {-1}; }, {"transformer_xl", "r"});
  refuses(s, [](Call& c) { c.options.score.settings = {{"origin", 0}}; }, {"transformer_xl", "r"});
}

TEST(OptionErrors, TablesOfValues) {
  CaseSpec s = spec_of("shaw");
  s.value_dims = {8, 8};
  const Buffer values(Array({1, 1, 3, 8}), rapt::Dtype::f64);
  refuses(s,
          [&](Call& c) {
            c.options.score.parameters.push_back({"values", values.view()});
          },
          {"shaw", "values", "2"});
  s.value_dims = {7};
  s.optional_parameters = false;
  refuses(s, [&](Call& c) { c.options.score.parameters.push_back({"values", values.view()}); }, {"values", "7"});
}

TEST(OptionErrors, QueriesOutsideTheGrid) {
  CaseSpec s = spec_of("gaussian");
  refuses(s, [](Call& c) { c.options.first_query = {8}; }, {"gaussian", "grid"});
  refuses(s, [](Call& c) { c.options.first_query = {-1}; }, {"gaussian", "grid"});
}

TEST(OptionErrors, WhatOnlySoftmaxHas) {
  for (const support::NormalizerKind normalizer :
       {support::NormalizerKind::argmax, support::NormalizerKind::sparsemax, support::NormalizerKind::entmax15,
        support::NormalizerKind::sigmoid}) {
    CaseSpec s = spec_of();
    s.normalizer = normalizer;
    Call call(make_case(s));
    support::ForwardWants wants;
    wants.partial = true;
    expect_refused([&] { call.forward(wants); }, {"row_max", "softmax"});
    const Buffer grad_lse(Array({2, 2, 5, 1}), rapt::Dtype::f64);
    call.grad_lse = grad_lse.view();
    expect_refused([&] { call.backward(); }, {"grad_lse", "softmax"});
  }
  Call call(make_case(spec_of()));
  const Buffer wrong(Array({2, 2, 4, 1}), rapt::Dtype::f64);
  call.grad_lse = wrong.view();
  expect_refused([&] { call.backward(); }, {"grad_lse", "5", "4"});
}

TEST(OptionErrors, Merge) {
  const Buffer out(Array({1, 2, 3, 4}), rapt::Dtype::f32), rows(Array({1, 2, 3, 1}), rapt::Dtype::f32),
      fewer(Array({1, 2, 2, 1}), rapt::Dtype::f32);
  Buffer result(rapt::Dtype::f32, {1, 2, 3, 4}), narrow(rapt::Dtype::f32, {1, 2, 3, 3});
  const rapt::Partial sound{out.view(), rows.view(), rows.view()};
  const rapt::Partial short_rows{out.view(), fewer.view(), rows.view()};
  expect_refused([&] { rapt::merge({}, {result.view(), {}, {}, {}}); }, {"merge", "part"});
  const std::vector<rapt::Partial> one = {sound}, wrong = {sound, short_rows};
  expect_refused([&] { rapt::merge(wrong, {result.view(), {}, {}, {}}); }, {"merge", "row_max", "3", "2"});
  expect_refused([&] { rapt::merge(one, {narrow.view(), {}, {}, {}}); }, {"merge", "out", "4", "3"});
  expect_refused([&] { rapt::merge(one, {result.view(), {}, {}, {}}, -1); }, {"merge", "threads", "-1"});
  Buffer d_out(rapt::Dtype::f32, {1, 2, 3, 4}), d_lse(rapt::Dtype::f32, {1, 2, 3, 1});
  const std::vector<rapt::PartialGradient> two(2, {d_out.view(), d_lse.view()});
  expect_refused([&] { rapt::merge_backward(one, sound, out.view(), two); }, {"merge_backward", "1", "2"});
}

}  // namespace
