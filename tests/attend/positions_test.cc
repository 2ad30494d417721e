// Where queries stand: first_query, bottom_right and what reads positions, against the oracle and against each other.

#include <gtest/gtest.h>

#include <cmath>

#include "oracle/formulas.h"
#include "support/checks.h"

namespace {

using support::Call;
using support::Case;
using support::CaseSpec;
using support::Int;
using support::label;
using support::MaskKind;
using support::PositionKind;

class Positions : public testing::TestWithParam<support::MechanismAndType> {
 protected:
  static CaseSpec spec(Int queries, Int keys) {
    CaseSpec s;
    s.mechanism = std::get<0>(GetParam());
    s.dtype = std::get<1>(GetParam());
    s.batch = 3;
    s.queries = queries;
    s.keys = keys;
    s.key_dim = 12;
    s.value_dims = {9};
    return s;
  }
  static void check(const CaseSpec& s) {
    support::check_forward(s);
    support::check_backward(s);
  }
};

TEST_P(Positions, EveryMask) {
  for (PositionKind positions : {PositionKind::one, PositionKind::per_batch, PositionKind::last})
    for (MaskKind mask : support::all_masks()) {
      if (!combine(mask, positions)) continue;
      CaseSpec s = spec(11, 29);
      s.positions = positions;
      s.mask = mask;
      check(s);
    }
}

TEST_P(Positions, EverySetting) {
  for (support::Settings settings : {support::Settings::defaults, support::Settings::low, support::Settings::high})
    for (PositionKind positions : {PositionKind::one, PositionKind::last}) {
      CaseSpec s = spec(9, 31);
      s.positions = positions;
      s.mask = MaskKind::top_left;
      s.settings = settings;
      check(s);
    }
}

TEST_P(Positions, AcrossManyTiles) {
  for (MaskKind mask : {MaskKind::none, MaskKind::top_left, MaskKind::window}) {
    CaseSpec s = spec(70, 300);
    s.batch = 2;
    s.heads = 1;
    s.positions = PositionKind::per_batch;
    s.mask = mask;
    check(s);
  }
}

// Repeated batches and heads stand at different positions.
TEST_P(Positions, RepeatedBatch) {
  CaseSpec s = spec(12, 20);
  s.positions = PositionKind::per_batch;
  s.rotary = support::RotaryKind::halves;
  s.mask = MaskKind::top_left;
  Case c = make_case(s);
  const auto first = [](oracle::Array& x) {
    x.shape[0] = 1;
    x.data.resize(static_cast<std::size_t>(oracle::Array::count(x.shape)));
  };
  first(c.problem.q);
  first(c.problem.k);
  support::check_case(c);
}

// bottom_right is first_query = L − Sq for every batch, and nothing else.
TEST_P(Positions, BottomRightIsAPosition) {
  for (const bool window : {false, true}) {
    CaseSpec s = spec(10, 27);
    Case bottom_right = make_case(s, [&](const CaseSpec& sized) {
      oracle::Mask m;
      m.causal = oracle::Causal::bottom_right;
      m.key_lengths = {sized.keys, sized.queries, sized.queries + 3};
      if (window) m.window = oracle::Window{4, 0};
      return m;
    });
    Case placed = bottom_right;
    placed.problem.mask.causal = oracle::Causal::top_left;
    for (Int length : placed.problem.mask.key_lengths)
      placed.problem.first_query.push_back(length - placed.spec.queries);
    for (rapt::Path path : support::kPaths) {
      SCOPED_TRACE(label(path));
      Call a(bottom_right), b(placed);
      a.options.path = b.options.path = path;
      EXPECT_TRUE(a.forward().bits == b.forward().bits);
      EXPECT_TRUE(a.backward().bits == b.backward().bits);
    }
  }
}

// A batch with fewer keys than queries: those that stand before every key see nothing, also on a grid and without rows for
// them in a table.
TEST_P(Positions, QueriesBeforeEveryKeySeeNothing) {
  CaseSpec s = spec(10, 27);
  Case c = make_case(s, [&](const CaseSpec& sized) {
    oracle::Mask m;
    m.causal = oracle::Causal::bottom_right;
    m.key_lengths = {sized.keys, sized.queries, sized.queries};
    return m;
  });
  const Int queries = c.problem.queries(), hidden = queries - 3;
  c.problem.mask.key_lengths[1] = 3;  // tables and grids are made for the others
  for (rapt::Path path : support::kPaths) {
    SCOPED_TRACE(label(path));
    Call whole(c);
    whole.options.path = path;
    const support::ForwardResult all = whole.forward();
    const support::BackwardResult gradients = whole.backward();
    Case last = c;
    last.problem.mask.causal = oracle::Causal::top_left;
    last.problem.first_query = {c.problem.keys() - 3, 0, queries - 3};
    last.problem.q = oracle::Array({3, c.problem.q.shape[1], 3, c.problem.q.shape[3]});
    last.spec.queries = 3;
    for (Int b = 0; b < 3; ++b)
      for (Int h = 0; h < last.problem.q.shape[1]; ++h)
        for (Int i = 0; i < 3; ++i)
          for (Int d = 0; d < last.problem.q.shape[3]; ++d)
            last.problem.q.at(b, h, i, d) = c.problem.q.at(b, h, hidden + i, d);
    Call rest(last);
    rest.options.path = path;
    const support::ForwardResult seen = rest.forward();
    for (Int h = 0; h < c.problem.heads(); ++h)
      for (Int d = 0; d < all.out[0].shape[3]; ++d) {
        for (Int i = 0; i < hidden; ++i) EXPECT_EQ(all.out[0].at(1, h, i, d), 0);
        for (Int b = 0; b < 3; ++b)
          for (Int i = 0; i < 3; ++i) EXPECT_EQ(all.out[0].at(b, h, hidden + i, d), seen.out[0].at(b, h, i, d));
      }
    for (const double x : gradients.gradients.q.data) EXPECT_TRUE(std::isfinite(x));
    for (Int h = 0; h < gradients.gradients.q.shape[1]; ++h)
      for (Int i = 0; i < hidden; ++i) EXPECT_EQ(gradients.gradients.q.at(1, h, i, 0), 0);
  }
}

TEST_P(Positions, OneNumberIsTheSameForEveryBatch) {
  CaseSpec s = spec(10, 27);
  s.positions = PositionKind::one;
  s.mask = MaskKind::top_left;
  Case one = make_case(s), each = one;
  each.problem.first_query.assign(3, one.problem.first_query[0]);
  EXPECT_TRUE(Call(one).forward().bits == Call(each).forward().bits);
  EXPECT_TRUE(Call(one).backward().bits == Call(each).backward().bits);
  Case zero = one, none = one;
  zero.problem.first_query = {0};
  none.problem.first_query = {};
  EXPECT_TRUE(Call(zero).forward().bits == Call(none).forward().bits);
}

INSTANTIATE_TEST_SUITE_P(All, Positions,
                         testing::Combine(testing::ValuesIn(oracle::formula_names()),
                                          testing::Values(rapt::Dtype::f64, rapt::Dtype::f32, rapt::Dtype::bf16)),
                         support::mechanism_and_type);

// Keys that are part of a longer sequence: moving queries and keys together changes no result that reads only
// distances.
TEST(FirstKey, MovesWithTheQueries) {
  for (const char* mechanism : {"scaled_dot", "alibi", "t5", "shaw", "transformer_xl"}) {
    SCOPED_TRACE(mechanism);
    CaseSpec s;
    s.mechanism = mechanism;
    s.dtype = rapt::Dtype::f32;
    s.queries = 20;
    s.keys = 33;
    s.positions = PositionKind::one;
    s.mask = MaskKind::top_left;
    const Case near = make_case(s);
    Case far = near;
    far.problem.first_query[0] += 1000;
    far.problem.first_key = 1000;
    EXPECT_TRUE(Call(near).forward().bits == Call(far).forward().bits);
    EXPECT_TRUE(Call(near).backward().bits == Call(far).backward().bits);
  }
}

TEST(FirstKey, MatchesTheOracle) {
  for (const std::string& mechanism : oracle::formula_names())
    for (MaskKind mask : {MaskKind::none, MaskKind::top_left, MaskKind::window, MaskKind::key_lengths}) {
      CaseSpec s;
      s.mechanism = mechanism;
      s.batch = 2;
      s.queries = 14;
      s.keys = 30;
      s.mask = mask;
      s.positions = PositionKind::last;
      s.rotary = support::RotaryKind::halves;
      Case c = make_case(s);
      // On a grid the keys are a part of its places.
      c.problem.first_key = c.mechanism->grid() ? 0 : 4;
      if (mechanism == "transformer_xl") c.problem.settings["origin"] -= 3;
      SCOPED_TRACE(describe(s));
      support::check_case(c);
    }
}

}  // namespace
