// What hooks may call on numbers, on every SIMD target and on plain numbers, against the C library in long double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/targets.h"
#include "lanes/lanes.h"
#include "rapt/hooks.h"
#include "rapt/threads.h"

namespace rapt::inline v1 {

#define RAPT_DECLARE(target)                                       \
  namespace target {                                               \
  std::span<const lanes::Function<float>> lane_functions(float);   \
  std::span<const lanes::Function<double>> lane_functions(double); \
  }
RAPT_FOR_EACH_TARGET(RAPT_DECLARE)
#undef RAPT_DECLARE

namespace {

using Wide = long double;

// The value and both slopes, NaN where a slope is not asked for.
struct Expected {
  Wide value, by_x, by_y;
};

Wide sign_of(Wide x) { return x > 0 ? 1 : (x < 0 ? -1 : x); }

Expected power(Wide x, Wide y) {
  const Wide value = std::pow(x, y);
  return {value, y == 0 ? 0 : y * std::pow(x, y - 1), value == 0 ? 0 : value * std::log(x)};
}

// Slopes at kinks are those that numbers.h and dual.h promise.
Expected expected(const std::string& name, Wide x, Wide y) {
  if (name == "abs") return {std::fabs(x), sign_of(x), 0};
  if (name == "sign") return {sign_of(x), 0, 0};
  if (name == "floor") return {std::floor(x), 0, 0};
  if (name == "sqrt") return {std::sqrt(x), 0.5L / std::sqrt(x), 0};
  if (name == "exp") return {std::exp(x), std::exp(x), 0};
  if (name == "log") return {std::log(x), 1 / x, 0};
  if (name == "tanh") return {std::tanh(x), 1 / (std::cosh(x) * std::cosh(x)), 0};
  if (name == "sin") return {std::sin(x), std::cos(x), 0};
  if (name == "cos") return {std::cos(x), -std::sin(x), 0};
  if (name == "pow") return power(x, y);
  if (name == "pow_constant") return {power(x, 2.5L).value, power(x, 2.5L).by_x, 0};
  if (name == "pow_whole") return {x * x * x, 3 * x * x, 0};
  if (name == "min") return y < x ? Expected{y, 0, 1} : Expected{x, 1, 0};
  if (name == "max") return x < y ? Expected{y, 0, 1} : Expected{x, 1, 0};
  if (name == "max_constant") return x < 0 ? Expected{0, 0, 0} : Expected{x, 1, 0};
  if (name == "min_constant") return x < 0 ? Expected{x, 1, 0} : Expected{0, 0, 0};
  if (name == "clamp") return {std::clamp<Wide>(x, -1, 0.5L), x < -1 || x > 0.5L ? 0.0L : 1.0L, 0};
  if (name == "where") return x < y ? Expected{x, 1, 0} : Expected{0, 0, 0};
  if (name == "where_both") return !(x <= 0) && 0.5L < y ? Expected{2 * x, 2, 0} : Expected{y - 1, 0, 1};
  ADD_FAILURE() << "no expected values for " << name;
  return {};
}

template <class T>
double ulps(T got, Wide want) {
  const T rounded = static_cast<T>(want);
  if (got == rounded || (std::isnan(got) && std::isnan(rounded))) return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded)) return HUGE_VAL;
  const T size = std::max(std::fabs(rounded), std::numeric_limits<T>::min());
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - want) /
                             (std::nextafter(size, std::numeric_limits<T>::infinity()) - size));
}

struct Points {
  std::vector<double> x, y;

  void add(double a, double b) {
    x.push_back(a);
    y.push_back(b);
  }
};

Points ordinary() {
  Points points;
  for (int n = 0; n < 4096; ++n) {
    const double t = std::fmod(n * 0.6180339887498949, 1.0), u = std::fmod(n * 0.7548776662466927, 1.0);
    points.add(40 * t - 20, 6 * u - 3);                                           // of the size of scores
    points.add(std::exp2(60 * t - 30), 8 * u - 4);                                // of many sizes
    points.add((u < 0.5 ? -1 : 1) * std::floor(1e6 * t), std::floor(8 * u - 4));  // positions
  }
  return points;
}

template <class T>
std::vector<T> as(const std::vector<double>& values) {
  std::vector<T> list(values.begin(), values.end());
  while (list.size() % lanes::kMultiple != 0) list.push_back(list.back());
  return list;
}

template <class T>
class LaneFunctions : public testing::Test {
 protected:
  template <class Check>
  static void for_each(const Check& check) {
    for (const lanes::Function<T>& function : lanes::kFunctions<Number<T>>) {
      SCOPED_TRACE(std::string("plain: ") + function.name);
      check(function);
    }
    const std::vector<Isa> available = available_isas();
#define RAPT_RUN(target)                                                             \
  if (std::find(available.begin(), available.end(), Isa::target) != available.end()) \
    for (const lanes::Function<T>& function : target::lane_functions(T())) {         \
      SCOPED_TRACE(std::string(#target) + ": " + function.name);                     \
      check(function);                                                               \
    }
    RAPT_FOR_EACH_TARGET(RAPT_RUN)
#undef RAPT_RUN
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(LaneFunctions, Types);

// Units in the last place; the C library itself has up to 1.
double bound(const std::string& name) {
  if (name == "exp" || name == "pow_whole") return 1.6;
  if (name == "tanh") return 6;
  if (name == "log") return 3;
  if (name == "sin" || name == "cos") return 2.5;
  if (name == "pow" || name == "pow_constant") return 1.1;
  return 0.51;
}

TYPED_TEST(LaneFunctions, AreAccurate) {
  using T = TypeParam;
  const Points points = ordinary();
  const std::vector<T> x = as<T>(points.x), y = as<T>(points.y);
  std::vector<T> out(x.size());
  this->for_each([&](const lanes::Function<T>& function) {
    function.values(x.data(), y.data(), out.data(), static_cast<int>(x.size()));
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t n = 0; n < x.size(); ++n)
      if (const double error = ulps(out[n], expected(function.name, x[n], y[n]).value); error > worst)
        worst = error, at = n;
    EXPECT_LE(worst, bound(function.name)) << "x " << x[at] << ", y " << y[at] << ": " << out[at];
  });
}

TYPED_TEST(LaneFunctions, HaveTheirDerivatives) {
  using T = TypeParam;
  const Points points = ordinary();
  const std::vector<T> x = as<T>(points.x), y = as<T>(points.y);
  std::vector<T> by_x(x.size()), by_y(x.size());
  this->for_each([&](const lanes::Function<T>& function) {
    function.slopes(x.data(), y.data(), by_x.data(), by_y.data(), static_cast<int>(x.size()));
    const Wide eps = std::numeric_limits<T>::epsilon();
    for (std::size_t n = 0; n < x.size(); ++n) {
      const Expected want = expected(function.name, x[n], y[n]);
      if (!std::isfinite(static_cast<T>(want.by_x))) continue;
      for (const auto& [got, slope] : {std::pair(by_x[n], want.by_x), std::pair(by_y[n], want.by_y)}) {
        if (std::isnan(slope) || std::isnan(static_cast<Wide>(got))) {
          ASSERT_EQ(std::isnan(slope), std::isnan(static_cast<Wide>(got))) << "x " << x[n] << ", y " << y[n];
          continue;
        }
        // 1 − tanh² has lost what tanh has rounded away; the exponent y − 1 is rounded.
        const std::string name = function.name;
        Wide near = 8 * eps * (name == "tanh" ? 1 : std::fabs(slope));
        if (name == "pow") near *= 1 + 0.4L * std::fabs(std::log(std::fabs(static_cast<Wide>(x[n]))));
        ASSERT_LE(std::fabs(got - slope), near + std::numeric_limits<T>::min()) << "x " << x[n] << ", y " << y[n];
      }
    }
  });
}

// As the C library has it: infinities, zeros, the ends of the range, and NaN, which stays.
TYPED_TEST(LaneFunctions, KnowTheEnds) {
  using T = TypeParam;
  const double most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::denorm_min();
  const double special[] = {0.0,  -0.0, 1,   -1,   2,    -2,    3,     -3,       0.5,       -0.5,
                            1e-3, 88,   -88, 89,   105,  -105,  706,   709,      710,       -750,
                            4e4,  -4e4, 1e7, 1e15, most, -most, least, HUGE_VAL, -HUGE_VAL, NAN};
  Points points;
  for (const double a : special)
    for (const double b : special) points.add(a, b);
  const std::vector<T> x = as<T>(points.x), y = as<T>(points.y);
  std::vector<T> out(x.size());
  this->for_each([&](const lanes::Function<T>& function) {
    const std::string name = function.name;
    const bool reads_y = name == "pow" || name == "min" || name == "max" || name.starts_with("where");
    function.values(x.data(), y.data(), out.data(), static_cast<int>(x.size()));
    for (std::size_t n = 0; n < x.size(); ++n) {
      const bool nan = std::isnan(x[n]) || (reads_y && std::isnan(y[n]));
      if (nan && name != "pow" && !name.starts_with("where")) {
        ASSERT_TRUE(std::isnan(out[n])) << "x " << x[n] << ", y " << y[n] << ": " << out[n];
        continue;
      }
      const Wide want = expected(name, x[n], y[n]).value;
      ASSERT_LE(ulps(out[n], want), std::max(4.0, bound(name))) << "x " << x[n] << ", y " << y[n] << ": " << out[n];
    }
  });
}

// Padding and other rows share a vector with a number: they must not change its bits.
TYPED_TEST(LaneFunctions, DoNotDependOnTheirNeighbours) {
  using T = TypeParam;
  Points points = ordinary();
  for (const double large : {1e5, 1e9, 1e30, HUGE_VAL, -200.0, 95.0}) points.add(large, 0.5);
  const std::vector<T> x = as<T>(points.x), y = as<T>(points.y);
  std::vector<T> together(x.size()), alone(lanes::kMultiple), out(lanes::kMultiple), second(lanes::kMultiple);
  this->for_each([&](const lanes::Function<T>& function) {
    function.values(x.data(), y.data(), together.data(), static_cast<int>(x.size()));
    for (std::size_t n = 0; n < x.size(); n += 7) {
      std::fill(alone.begin(), alone.end(), x[n]);
      std::fill(second.begin(), second.end(), y[n]);
      function.values(alone.data(), second.data(), out.data(), lanes::kMultiple);
      ASSERT_EQ(std::memcmp(&out[3], &together[n], sizeof(T)), 0) << "x " << x[n] << ", y " << y[n];
    }
  });
}

}  // namespace
}  // namespace rapt::inline v1
