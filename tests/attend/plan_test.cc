// A plan computes what attend() computes, to the bit, for other arrays, lengths and positions, and allocates nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "oracle/formulas.h"
#include "rapt/error.h"
#include "rapt/plan.h"
#include "support/allocations.h"
#include "support/checks.h"

namespace {

using support::Buffer;
using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;
using support::MaskKind;
using support::PositionKind;

// The outputs of a plan, and what they hold after a run.
struct Results {
  explicit Results(const Call& call, bool lse_wanted = true) {
    const oracle::Problem& p = call.described().problem;
    const CaseSpec& spec = call.described().spec;
    for (const oracle::Array& v : p.v)
      out.emplace_back(spec.dtype, oracle::Sizes{p.batch(), p.heads(), p.queries(), v.shape[3]}, spec.layout);
    for (Buffer& buffer : out) outputs.out.push_back(buffer.view());
    const rapt::Dtype compute = spec.dtype == rapt::Dtype::f64 ? rapt::Dtype::f64 : rapt::Dtype::f32;
    lse = Buffer(compute, {p.batch(), p.heads(), p.queries(), 1});
    if (lse_wanted) outputs.lse = lse.view();
  }

  std::vector<std::byte> bits() const {
    std::vector<std::byte> all;
    for (const Buffer& buffer : out) all.insert(all.end(), buffer.bytes().begin(), buffer.bytes().end());
    all.insert(all.end(), lse.bytes().begin(), lse.bytes().end());
    return all;
  }

  std::vector<Buffer> out;
  Buffer lse;
  rapt::Outputs outputs;
};

// Addresses of a call's arrays and of results, as a run takes them.
struct Addresses {
  Addresses(const Call& call, const Results& results) {
    for (const rapt::ConstView& view : call.inputs.v) v.push_back(view.data);
    for (const rapt::View& view : results.outputs.out) out.push_back(view.data);
    arrays.q = call.inputs.q.data;
    arrays.k = call.inputs.k.data;
    arrays.v = v;
    arrays.out = out;
    arrays.lse = results.outputs.lse.data;
    arrays.bias = call.options.bias.data;
    arrays.mask = call.options.mask.dense.data;
  }

  std::vector<const void*> v;
  std::vector<void*> out;
  rapt::PlanArrays arrays;
};

std::vector<std::byte> attend_bits(const Call& call) {
  Results results(call);
  rapt::attend(call.inputs, results.outputs, call.options);
  return results.bits();
}

// The same problem with other numbers in the arrays that a run may change.
Case with_other_arrays(Case c) {
  const auto turn = [](oracle::Array& array) { std::reverse(array.data.begin(), array.data.end()); };
  turn(c.problem.q);
  turn(c.problem.k);
  for (oracle::Array& v : c.problem.v) turn(v);
  turn(c.problem.bias);
  turn(c.problem.mask.dense);
  return c;
}

void check(const CaseSpec& spec, int threads = 2) {
  SCOPED_TRACE(describe(spec));
  const Case c = make_case(spec);
  Call first(c), second(with_other_arrays(c));
  for (rapt::Path path : support::kPaths) {
    SCOPED_TRACE(support::label(path));
    first.options.path = second.options.path = path;
    first.options.threads = second.options.threads = threads;
    Results own(first), other(second);
    rapt::Plan plan(first.inputs, own.outputs, first.options);
    const Addresses elsewhere(second, other);
    plan.run(elsewhere.arrays);
    EXPECT_TRUE(other.bits() == attend_bits(second));
    plan.run();
    EXPECT_TRUE(own.bits() == attend_bits(first));
    for (const Buffer& buffer : own.out) EXPECT_EQ(buffer.damage(), "");
  }
}

class Plans : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  static CaseSpec spec(Int queries, Int keys) {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.batch = 2;
    s.heads = 4;
    s.key_heads = 2;
    s.queries = queries;
    s.keys = keys;
    s.key_dim = 12;
    s.value_dims = {9};
    return s;
  }
};

TEST_P(Plans, OtherArraysGiveTheirOwnResult) {
  for (const auto& [queries, keys] : {std::pair<Int, Int>{1, 1}, {1, 40}, {5, 5}, {40, 64}, {70, 150}})
    check(spec(queries, keys));
}

TEST_P(Plans, UnderEveryMask) {
  for (MaskKind mask : support::all_masks()) {
    CaseSpec s = spec(9, 25);
    s.mask = mask;
    check(s);
  }
}

TEST_P(Plans, WithEveryNormalizerAndOption) {
  for (support::NormalizerKind normalizer : support::all_normalizers()) {
    CaseSpec s = spec(6, 21);
    s.normalizer = normalizer;
    s.softcap = 2;
    s.bias = support::BiasKind::per_head;
    s.rotary = support::RotaryKind::halves;
    s.value_dims = s.mechanism == "shaw" ? std::vector<Int>{9} : std::vector<Int>{9, 4};
    check(s);
  }
}

// A cache that fills up: every step has its own length and position.
TEST_P(Plans, OtherLengthsAndPositions) {
  CaseSpec s = spec(1, 25);
  s.positions = PositionKind::per_batch;
  s.mask = MaskKind::key_lengths;
  Call call(make_case(s));
  Results results(call);
  rapt::Plan plan(call.inputs, results.outputs, call.options);
  const std::vector<std::byte> own = attend_bits(call);
  Call stepped(call.described());
  const Int keys = call.described().problem.keys();
  for (Int step = 1; step <= keys; step += 5) {
    SCOPED_TRACE(step);
    stepped.options.mask.key_lengths = {step, keys - step};
    // A table of transformer_xl has the rows that its own positions need, and a grid has no other places.
    const bool anywhere = s.mechanism != "transformer_xl" && call.described().problem.grid[0] == 0;
    if (anywhere) stepped.options.first_query = {step - 1};
    plan.run({.key_lengths = stepped.options.mask.key_lengths, .first_query = stepped.options.first_query});
    EXPECT_TRUE(results.bits() == attend_bits(stepped));
  }
  plan.run();
  EXPECT_TRUE(results.bits() == own);
}

TEST_P(Plans, TheNumbersOfParametersAreReadAtEveryRun) {
  const CaseSpec s = spec(6, 21);
  Call call(make_case(s));
  Results results(call);
  rapt::Plan plan(call.inputs, results.outputs, call.options);
  plan.run();
  for (const auto& [name, value] : call.described().problem.parameters) {
    oracle::Array other = value;
    for (double& x : other.data) x *= 0.5;
    call.parameter(name).set(other);
  }
  plan.run();
  EXPECT_TRUE(results.bits() == attend_bits(call));
}

TEST_P(Plans, AllocateNothing) {
  for (int threads : {1, 3})
    for (const auto& [queries, keys] : {std::pair<Int, Int>{1, 16}, {1, 2100}, {33, 90}}) {
      CaseSpec s = spec(queries, keys);
      s.mask = MaskKind::key_lengths;
      s.positions = PositionKind::one;
      s.rotary = support::RotaryKind::halves;
      SCOPED_TRACE(testing::Message() << describe(s) << ", " << threads << " threads");
      Call call(make_case(s));
      call.options.threads = threads;
      Results results(call);
      rapt::Plan plan(call.inputs, results.outputs, call.options);
      const rapt::PlanArrays arrays{.key_lengths = call.options.mask.key_lengths,
                                    .first_query = call.options.first_query};
      plan.run(arrays);  // starts threads
      const std::size_t before = support::allocations();
      plan.run(arrays);
      plan.run();
      EXPECT_EQ(support::allocations() - before, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Plans,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16)),
                         support::mechanism_and_type);

// Short heads have a kernel of their own: a row's bits are those of a longer call.
TEST(ShortHeads, AreRowsOfLongerCalls) {
  for (rapt::Isa isa : rapt::available_isas())
    for (rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64})
      for (Int queries : {1, 2, 3, 17, 64})
        for (Int keys : {1, 5, 8, 33, 64}) {
          SCOPED_TRACE(testing::Message() << rapt::name_of(isa) << " " << queries << "×" << keys);
          const support::IsaScope scope(isa);
          CaseSpec s;
          s.dtype = dtype;
          s.batch = 3;
          s.heads = 4;
          s.key_heads = 2;
          s.queries = queries;
          s.keys = 65;  // more than a tile
          s.key_dim = 21;
          s.value_dims = {13, 5};
          Call call(make_case(s));
          call.options.mask.key_lengths = {keys};
          const std::vector<std::byte> longer = attend_bits(call);
          const auto cut = [&](rapt::ConstView& view) { view.shape[2] = keys; };
          cut(call.inputs.k);
          for (rapt::ConstView& v : call.inputs.v) cut(v);
          for (const bool masked : {true, false}) {
            if (!masked) call.options.mask.key_lengths.clear();
            EXPECT_TRUE(attend_bits(call) == longer) << masked;
          }
        }
}

TEST(ShortHeads, HideWhatIsNotFinite) {
  CaseSpec s;
  s.dtype = rapt::Dtype::f32;
  s.batch = 2;
  s.heads = 3;
  s.queries = 6;
  s.keys = 11;
  Case c = make_case(s);
  c.problem.mask.key_lengths = {7, 9};
  const auto poison = [&](oracle::Array& array) {
    for (Int h = 0; h < 3; ++h)
      for (Int j = 9; j < 11; ++j) array.at(1, h, j, 2) = std::numeric_limits<double>::quiet_NaN();
    array.at(0, 1, 8, 0) = std::numeric_limits<double>::infinity();
  };
  poison(c.problem.k);
  poison(c.problem.v[0]);
  support::check_case(c);
}

// A key with infinite values that some rows do not see: the others keep their bits, on any number of threads.
TEST(HiddenInfinities, ChangeNoBitOfOtherRows) {
  for (rapt::Isa isa : rapt::available_isas())
    for (rapt::Dtype dtype : {rapt::Dtype::f32, rapt::Dtype::f64})
      for (const auto& [queries, keys] : {std::pair<Int, Int>{1, 9}, {2, 3000}, {8, 8}, {5, 100}, {40, 2100}}) {
        SCOPED_TRACE(testing::Message() << rapt::name_of(isa) << " " << queries << "×" << keys);
        const support::IsaScope scope(isa);
        CaseSpec s;
        s.dtype = dtype;
        s.queries = queries;
        s.keys = keys;
        s.mask = MaskKind::top_left;
        s.positions = PositionKind::last;
        const Case finite = make_case(s);
        Case infinite = finite;
        const Int hidden = keys - 1, seeing = queries - 1;  // the last query alone sees the last key
        for (Int h = 0; h < 2; ++h) infinite.problem.v[0].at(0, h, hidden, 0) = std::numeric_limits<double>::infinity();
        Call a(finite), b(infinite);
        a.options.threads = b.options.threads = 1;
        const support::ForwardResult expected = a.forward(), got = b.forward();
        for (Int h = 0; h < 2; ++h)
          for (Int i = 0; i < queries; ++i)
            for (Int d = 0; d < 8 && i < seeing; ++d)
              EXPECT_EQ(got.out[0].at(0, h, i, d), expected.out[0].at(0, h, i, d)) << i;
        for (int threads : {2, 3}) {
          b.options.threads = threads;
          EXPECT_TRUE(b.forward().bits == got.bits) << threads;
        }
      }
}

TEST(Plan, SavedMayServeOtherCallsInBetween) {
  for (const Int keys : {Int{9}, Int{200}}) {
    CaseSpec s;
    s.dtype = rapt::Dtype::f32;
    s.queries = 3;
    s.keys = keys;
    CaseSpec longer = s;
    longer.queries = 300;
    Call call(make_case(s)), other(make_case(longer));
    Results results(call), other_results(other);
    rapt::Saved saved;
    results.outputs.saved = other_results.outputs.saved = &saved;
    rapt::Plan plan(call.inputs, results.outputs, call.options);
    plan.run();
    const std::vector<std::byte> before = results.bits();
    rapt::attend(other.inputs, other_results.outputs, other.options);
    plan.run();
    EXPECT_TRUE(results.bits() == before);
    // And the rows are those of this call again.
    Buffer dq(rapt::Dtype::f32, call.described().problem.q.shape);
    rapt::Gradients gradients;
    gradients.q = dq.view();
    rapt::attend_backward(call.inputs, {results.outputs.out[0]}, call.grad_out, &saved, gradients, call.options);
    EXPECT_EQ(dq.damage(), "");
  }
}

TEST(Plan, LengthsThatWereNotGivenBeforeAllocateNothing) {
  CaseSpec s;
  s.batch = 3;
  s.keys = 90;
  Call call(make_case(s));
  call.options.threads = 1;
  Results results(call);
  rapt::Plan plan(call.inputs, results.outputs, call.options);
  const std::vector<Int> lengths = {4, 5, 90}, first = {1, 2, 3};
  const std::size_t before = support::allocations();
  plan.run({.key_lengths = lengths, .first_query = first});
  EXPECT_EQ(support::allocations() - before, 0U);
}

TEST(Plan, RefusesWhatItHasNoPlaceFor) {
  CaseSpec s;
  s.batch = 2;
  s.keys = 9;
  s.queries = 3;
  Call call(make_case(s));
  Results results(call, false);
  rapt::Plan plan(call.inputs, results.outputs, call.options);
  plan.run();
  const std::vector<std::byte> before = results.bits();
  const auto refused = [&](const rapt::PlanArrays& arrays, const char* message) {
    try {
      plan.run(arrays);
      ADD_FAILURE() << "accepted; expected: " << message;
    } catch (const rapt::Error& error) {
      EXPECT_STREQ(error.what(), message);
    }
    EXPECT_TRUE(results.bits() == before);
  };
  double number = 0;
  std::uint8_t byte = 1;
  const std::vector<Int> three = {1, 2, 3}, long_one = {10}, far = {Int{1} << 60};
  const std::vector<const void*> two_arrays = {&number, &number}, none = {nullptr};
  refused({.lse = &number}, "Plan: lse: expected none, as the plan was made without, got an array");
  refused({.bias = &number}, "Plan: bias: expected none, as the plan was made without, got an array");
  refused({.mask = &byte}, "Plan: mask: expected none, as the plan was made without, got an array");
  refused({.v = two_arrays}, "Plan: v: expected 1 array as the plan has, got 2");
  refused({.v = none}, "Plan: v: expected an array for every value set, got null");
  refused({.key_lengths = three}, "Plan: key_lengths: expected one number, or one for each of the 2 batches, got 3");
  refused({.key_lengths = long_one}, "Plan: key_lengths: expected 0 to 9, got 10");
  EXPECT_THROW(plan.run({.first_query = far}), rapt::Error);
  plan.run();
  EXPECT_TRUE(results.bits() == before);
  rapt::Inputs wrong = call.inputs;
  wrong.k.shape[2] = 8;
  EXPECT_THROW(rapt::Plan(wrong, results.outputs, call.options), rapt::Error);
}

TEST(Plan, OfNothingDoesNothing) {
  float number = 0;
  const rapt::ConstView empty = rapt::view(static_cast<const float*>(&number), {1, 2, 0, 4});
  const rapt::ConstView keys = rapt::view(static_cast<const float*>(&number), {1, 2, 0, 4});
  rapt::Plan plan(empty, keys, keys, rapt::view(&number, {1, 2, 0, 4}));
  plan.run();
  rapt::Plan moved = std::move(plan);
  moved.run();
}

}  // namespace
