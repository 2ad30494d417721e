// Additive scores have a fast form for rows of ordinary numbers. Which form a pair takes must follow from its own two rows: a row's
// bits do not depend on what other rows hold, and a decoding step is the row of the whole pass.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "rapt/rapt.h"
#include "support/cases.h"

namespace {

constexpr std::int64_t kLength = 150, kDim = 9;

template <class T>
struct Additive {
  std::vector<T> q, k, v, w;

  Additive() : q(kLength * kDim), k(q.size()), v(q.size()), w(kDim) {
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    for (std::vector<T>* numbers : {&q, &k, &v, &w})
      for (T& x : *numbers) x = static_cast<T>(normal(random));
  }

  // Rows first … first+count−1 of the queries under a causal mask.
  std::vector<T> rows(std::int64_t first, std::int64_t count, rapt::Path path = rapt::Path::automatic) const {
    const std::int64_t keys = first + count;
    std::vector<T> out(static_cast<std::size_t>(count * kDim));
    rapt::AttendOptions options;
    options.score = {.mechanism = &rapt::builtin::additive(), .parameters = {{"w", rapt::view(w.data(), {kDim})}}};
    options.mask.causal = rapt::Causal::top_left;
    options.first_query = {first};
    options.path = path;
    rapt::attend(rapt::view(q.data() + first * kDim, {count, kDim}), rapt::view(k.data(), {keys, kDim}),
                 rapt::view(v.data(), {keys, kDim}), rapt::view(out.data(), {count, kDim}), options);
    return out;
  }
};

// The same bits, or NaN in both: which of its bits a NaN has is the processor's choice.
template <class T>
bool same_row(const std::vector<T>& a, std::int64_t i, const std::vector<T>& b, std::int64_t j) {
  return std::equal(a.data() + i * kDim, a.data() + (i + 1) * kDim, b.data() + j * kDim,
                    [](T x, T y) { return std::memcmp(&x, &y, sizeof(T)) == 0 || (std::isnan(x) && std::isnan(y)); });
}

template <class T>
class AdditiveRows : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(AdditiveRows, FloatTypes);

// 12: no shared reciprocals; 30 and more: outside the fast form.
const double kLarge[] = {12, 30, 1e3, 1e30, std::numeric_limits<double>::quiet_NaN()};

TYPED_TEST(AdditiveRows, HaveTheirBitsWhateverOtherRowsHold) {
  for (const rapt::Isa isa : rapt::available_isas()) {
    const support::IsaScope scope(isa);
    const Additive<TypeParam> small;
    const std::vector<TypeParam> before = small.rows(0, kLength);
    for (const double large : kLarge) {
      Additive<TypeParam> changed;
      constexpr std::int64_t kQuery = 70, kKey = 90;
      changed.q[kQuery * kDim + 2] = static_cast<TypeParam>(large);
      changed.k[kKey * kDim + 8] = static_cast<TypeParam>(-large);
      const std::vector<TypeParam> after = changed.rows(0, kLength);
      for (std::int64_t i = 0; i < kKey; ++i) {
        if (i == kQuery) continue;
        ASSERT_TRUE(same_row(before, i, after, i)) << rapt::name_of(isa) << ", " << large << ", row " << i;
      }
    }
  }
}

TYPED_TEST(AdditiveRows, AreDecodingSteps) {
  for (const rapt::Isa isa : rapt::available_isas()) {
    const support::IsaScope scope(isa);
    for (const double large : kLarge) {
      Additive<TypeParam> some;
      for (const std::int64_t row : {3, 64, 65, 100, 149}) some.q[row * kDim + 4] = static_cast<TypeParam>(large);
      for (const std::int64_t row : {5, 63, 64, 128}) some.k[row * kDim + 4] = static_cast<TypeParam>(-large / 2);
      const std::vector<TypeParam> whole = some.rows(0, kLength);
      for (std::int64_t t = 0; t < kLength; ++t)
        ASSERT_TRUE(same_row(some.rows(t, 1), 0, whole, t)) << rapt::name_of(isa) << ", " << large << ", step " << t;
    }
  }
}

// Small rows, rows that cancel, and rows that are neither, each beside all others.
TYPED_TEST(AdditiveRows, OfAnySizeAreDecodingSteps) {
  for (const rapt::Isa isa : rapt::available_isas()) {
    const support::IsaScope scope(isa);
    Additive<TypeParam> some;
    for (std::int64_t n = 0; n < kLength * kDim; ++n) {
      const auto scale = static_cast<TypeParam>(n / kDim % 7 < 4 ? 0.02 : n / kDim % 5 / 4.0);
      const auto offset = static_cast<TypeParam>(n / kDim % 11 < 3 ? 2 : 0);
      some.q[n] = some.q[n] * scale + offset;
      some.k[n] = some.k[n] * scale - offset;
    }
    const std::vector<TypeParam> whole = some.rows(0, kLength);
    for (std::int64_t t = 0; t < kLength; ++t)
      ASSERT_TRUE(same_row(some.rows(t, 1), 0, whole, t)) << rapt::name_of(isa) << ", step " << t;
  }
}

// Neither what a hidden row holds nor the form it would take changes a bit of the others' gradients.
TYPED_TEST(AdditiveRows, GradientsDoNotDependOnHiddenOnes) {
  const auto hides = [](std::int64_t row) { return row % 5 == 2; };
  std::vector<std::uint8_t> mask(kLength * kLength);
  for (std::int64_t n = 0; n < kLength * kLength; ++n) mask[n] = !hides(n / kLength) && !hides(n % kLength);
  const auto gradients = [&](const Additive<TypeParam>& numbers) {
    rapt::AttendOptions options;
    options.score = {.mechanism = &rapt::builtin::additive(),
                     .parameters = {{"w", rapt::view(numbers.w.data(), {kDim})}}};
    const rapt::Shape shape{1, 1, kLength, kLength};
    options.mask.dense = {mask.data(), shape, rapt::contiguous_strides(shape)};
    std::vector<TypeParam> out(numbers.q.size()), all(3 * out.size() + kDim);
    const auto rows = [](auto* x) { return rapt::view(x, {kLength, kDim}); };
    const rapt::Inputs inputs{rows(numbers.q.data()), rows(numbers.k.data()), {rows(numbers.v.data())}};
    rapt::Saved saved;
    rapt::attend(inputs, {.out = {rows(out.data())}, .saved = &saved}, options);
    TypeParam* to = all.data();
    rapt::Gradients wanted;
    wanted.q = rows(to);
    wanted.k = rows(to + out.size());
    wanted.v = {rows(to + 2 * out.size())};
    wanted.parameters = {{"w", rapt::view(to + 3 * out.size(), {kDim})}};
    rapt::attend_backward(inputs, {rows(out.data())}, {rows(numbers.v.data())}, &saved, wanted, options);
    return all;
  };
  for (const rapt::Isa isa : rapt::available_isas()) {
    const support::IsaScope scope(isa);
    // Beside rows that are small, ordinary, or one after the other.
    for (const int small_rows : {0, 1, 2}) {
      std::vector<TypeParam> first;
      for (const double hidden : {0.01, 1.0, 3.0, 12.0, 20.0, 30.0, 1e30, std::numeric_limits<double>::quiet_NaN()})
        for (const bool one_sign : {false, true}) {
          Additive<TypeParam> numbers;
          for (std::int64_t row = 0; row < kLength; ++row)
            for (std::int64_t n = row * kDim; n < (row + 1) * kDim; ++n)
              for (std::vector<TypeParam>* x : {&numbers.q, &numbers.k}) {
                if (small_rows == 1 || (small_rows == 2 && row % 3 == 0)) (*x)[n] *= TypeParam(0.02);
                if (hides(row)) (*x)[n] = static_cast<TypeParam>(one_sign || n % 2 ? hidden : -hidden);
              }
          const std::vector<TypeParam> got = gradients(numbers);
          if (first.empty()) first = got;
          EXPECT_EQ(std::memcmp(first.data(), got.data(), got.size() * sizeof(TypeParam)), 0)
              << rapt::name_of(isa) << ", " << hidden << " beside " << small_rows;
        }
    }
  }
}

// A row whose dO is 0, beside numbers of the same sign: its pairs have no gradient, however large their exponentials are.
TYPED_TEST(AdditiveRows, WithoutAGradientGiveNoneToOthers) {
  const std::vector<TypeParam> q{15, 15, 0.5, 1.5}, k{8, 8, 9, 8.5, -6, -8.5}, v{1, 2, -1}, grad{0, 2}, w{1, 0.5};
  for (const rapt::Isa isa : rapt::available_isas()) {
    const support::IsaScope scope(isa);
    std::vector<TypeParam> want;
    for (const rapt::Path path : {rapt::Path::reference, rapt::Path::automatic}) {
      rapt::AttendOptions options;
      options.path = path;
      options.score = {.mechanism = &rapt::builtin::additive(), .parameters = {{"w", rapt::view(w.data(), {2})}}};
      const rapt::Inputs inputs{
          rapt::view(q.data(), {2, 2}), rapt::view(k.data(), {3, 2}), {rapt::view(v.data(), {3, 1})}};
      std::vector<TypeParam> out(2), got(12);
      rapt::attend(inputs, {.out = {rapt::view(out.data(), {2, 1})}}, options);
      rapt::Gradients wanted;
      wanted.q = rapt::view(got.data(), {2, 2});
      wanted.k = rapt::view(got.data() + 4, {3, 2});
      wanted.parameters = {{"w", rapt::view(got.data() + 10, {2})}};
      rapt::attend_backward(inputs, {rapt::view(std::as_const(out).data(), {2, 1})}, {rapt::view(grad.data(), {2, 1})},
                            nullptr, wanted, options);
      if (want.empty()) want = got;
      for (std::size_t n = 0; n < got.size(); ++n)
        EXPECT_NEAR(got[n], want[n], 1e-5) << rapt::name_of(isa) << ", " << n;
    }
  }
}

TYPED_TEST(AdditiveRows, AgreeWithTheReference) {
  for (const rapt::Isa isa : rapt::available_isas()) {
    const support::IsaScope scope(isa);
    for (const double large : kLarge) {
      Additive<TypeParam> some;
      for (std::int64_t d = 0; d < kDim; ++d) some.q[70 * kDim + d] = static_cast<TypeParam>(d % 2 ? large : -large);
      for (std::int64_t d = 0; d < kDim; ++d) some.k[20 * kDim + d] = static_cast<TypeParam>(d % 3 ? large : -large);
      const std::vector<TypeParam> got = some.rows(0, kLength), want = some.rows(0, kLength, rapt::Path::reference);
      for (std::size_t n = 0; n < got.size(); ++n) {
        if (std::isnan(want[n])) EXPECT_TRUE(std::isnan(got[n])) << n;
        else EXPECT_NEAR(got[n], want[n], sizeof(TypeParam) == 4 ? 4e-6 : 1e-14) << large << ", " << n;
      }
    }
  }
}

}  // namespace
