// Plans with tables of offsets: a step asks for the rows of offsets that the step before did not have.

#include "rapt/plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "rapt/custom.h"
#include "rapt/formula.h"

namespace {

int asked = 0;

struct Counting {
  static constexpr std::string_view formula = "raw + t[…]";
  static constexpr std::array parameters{
      rapt::ParameterSpec{.name = "t", .role = rapt::Role::relative_value, .sizes = {rapt::kAny}}};

  std::int64_t index(std::int64_t offset, const rapt::TableShape& table) const {
    ++asked;
    return rapt::clamp(-offset, 0, table.rows - 1);
  }
  template <class N, class P, class At>
  constexpr N score(N raw, const P& p, const At&) const {
    return raw + p[0];
  }
};

constexpr std::int64_t kKeys = 100, kDim = 4;

struct Decoding {
  std::vector<float> q, k, v, t, out;

  Decoding() : out(kDim) {
    for (int n = 0; n < kDim; ++n) q.push_back(std::sin(static_cast<float>(n)));
    for (int n = 0; n < kKeys * kDim; ++n) k.push_back(std::cos(static_cast<float>(n)));
    for (int n = 0; n < kKeys * kDim; ++n) v.push_back(std::sin(static_cast<float>(3 * n)));
    for (int n = 0; n < kKeys; ++n) t.push_back(std::sin(static_cast<float>(n) / 5));
  }
  rapt::AttendOptions options(rapt::Score score) const {
    rapt::AttendOptions o;
    score.parameters = {{"t", rapt::view(t.data(), {kKeys})}};
    o.score = std::move(score);
    o.mask.causal = rapt::Causal::top_left;
    o.first_query = {10};
    return o;
  }
  void attend(const rapt::AttendOptions& o) {
    rapt::attend(rapt::view(q.data(), {1, kDim}), rapt::view(k.data(), {kKeys, kDim}),
                 rapt::view(v.data(), {kKeys, kDim}), rapt::view(out.data(), {1, kDim}), o);
  }
  rapt::Plan plan(const rapt::AttendOptions& o) {
    return {rapt::view(q.data(), {1, kDim}), rapt::view(k.data(), {kKeys, kDim}), rapt::view(v.data(), {kKeys, kDim}),
            rapt::view(out.data(), {1, kDim}), o};
  }
};

TEST(PlannedTables, AskForNewOffsetsOnly) {
  Decoding d;
  rapt::AttendOptions options = d.options(rapt::custom(Counting{}));
  rapt::Plan plan = d.plan(options);
  for (const std::int64_t first : {11, 12, 15, 9, 9, 99}) {
    const std::int64_t before = options.first_query[0];
    options.first_query = {first};
    asked = 0;
    plan.run({.first_query = options.first_query});
    EXPECT_EQ(asked, std::min<std::int64_t>(std::abs(first - before), kKeys)) << first;
    const std::vector<float> got = d.out;
    d.attend(options);
    EXPECT_EQ(got, d.out) << first;
  }
}

TEST(PlannedTables, OfFormulasAreThoseOfACall) {
  Decoding d;
  for (const char* visible : {"", "i - j < 20", "j <= i and i - j < 50"}) {
    rapt::AttendOptions options = d.options(rapt::formula("raw*scale + t[abs(i-j)]", {.pair = "", .visible = visible}));
    rapt::Plan plan = d.plan(options);
    for (const std::int64_t first : {11, 40, 41, 99, 0}) {
      options.first_query = {first};
      plan.run({.first_query = options.first_query});
      const std::vector<float> got = d.out;
      d.attend(options);
      EXPECT_EQ(got, d.out) << visible << ", " << first;
    }
  }
}

}  // namespace
