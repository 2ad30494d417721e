// Everything that a mechanism takes has an effect: every parameter, every input and every number of a value changes the
// result. What it does not read changes no bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mechanisms/objects.h"
#include "support/checks.h"

namespace {

using oracle::Array;
using support::Call;
using support::Case;
using support::CaseSpec;

class Influence : public testing::TestWithParam<std::string> {
 protected:
  static Case make(support::Settings settings) {
    CaseSpec s;
    s.mechanism = GetParam();
    s.queries = 9;
    s.keys = 12;
    s.key_dim = 4;
    s.value_dims = {3};
    s.settings = settings;
    return make_case(s);
  }

  // The largest difference of the outputs.
  static double difference(const Case& a, const Case& b, rapt::Path path) {
    const auto run = [&](const Case& c) {
      Call call(c);
      call.options.path = path;
      return call.forward().out[0].data;
    };
    const std::vector<double> before = run(a), after = run(b);
    double most = 0;
    for (std::size_t n = 0; n < before.size(); ++n) most = std::max(most, std::abs(before[n] - after[n]));
    return most;
  }

  static void shake(Array& x) {
    support::Random random(77);
    for (double& e : x.data) e += random.uniform(0.2, 0.6) * (random.below(2) == 0 ? -1 : 1);
  }

  static bool uses_content(const Case& c) {
    std::vector<double> settings;
    for (const rapt::SettingSpec& spec : c.mechanism->settings()) {
      const auto given = c.problem.settings.find(std::string(spec.name));
      settings.push_back(given == c.problem.settings.end() ? spec.value : given->second);
    }
    return c.mechanism->definition().uses_content(default_object(*c.mechanism), settings);
  }

  template <class Check>
  static void for_each(const Check& check) {
    for (support::Settings settings : {support::Settings::defaults, support::Settings::high, support::Settings::low})
      for (rapt::Path path : {rapt::Path::automatic, rapt::Path::generic, rapt::Path::reference}) {
        SCOPED_TRACE(testing::Message() << support::label(path) << ", settings " << static_cast<int>(settings));
        check(make(settings), path);
      }
  }
};

constexpr double kEffect = 1e-4;

TEST_P(Influence, EveryParameterChangesTheResult) {
  for_each([](const Case& c, rapt::Path path) {
    for (const rapt::ParameterSpec& spec : c.mechanism->parameters()) {
      const std::string name(spec.name);
      ASSERT_TRUE(c.problem.parameters.contains(name)) << name;
      Case changed = c;
      shake(changed.problem.parameters.at(name));
      EXPECT_GT(difference(c, changed, path), kEffect) << "parameter " << name << " has no effect";
      if (spec.role != rapt::Role::value) continue;
      for (std::size_t n = 0; n < c.problem.parameters.at(name).data.size(); ++n) {
        changed = c;
        changed.problem.parameters.at(name).data[n] += 0.4;
        EXPECT_GT(difference(c, changed, path), kEffect) << "number " << n << " of " << name << " has no effect";
      }
    }
  });
}

TEST_P(Influence, EveryInputChangesTheResult) {
  for_each([](const Case& c, rapt::Path path) {
    const auto parameters = c.mechanism->parameters();
    const bool reads_keys = uses_content(c);
    const bool reads_queries =
        reads_keys || std::any_of(parameters.begin(), parameters.end(), [](const rapt::ParameterSpec& spec) {
          return spec.role == rapt::Role::relative_vector;
        });
    const auto check = [&](const char* input, bool read, Array oracle::Problem::*array) {
      Case changed = c;
      shake(changed.problem.*array);
      const double effect = difference(c, changed, path);
      if (read) EXPECT_GT(effect, kEffect) << input << " has no effect";
      else EXPECT_EQ(effect, 0) << input << " is not read";
    };
    check("q", reads_queries, &oracle::Problem::q);
    check("k", reads_keys, &oracle::Problem::k);
    Case changed = c;
    shake(changed.problem.v[0]);
    EXPECT_GT(difference(c, changed, path), kEffect) << "v has no effect";
  });
}

// A setting without effect is no setting.
TEST_P(Influence, EverySettingChangesTheResult) {
  const Case c = make(support::Settings::defaults);
  for (const rapt::SettingSpec& spec : c.mechanism->settings()) {
    if (spec.name == "origin") continue;  // which row is read; out of the table's range it is refused
    Case large = c, small = c;
    // An open range gets a number that matters at these sizes.
    large.problem.settings[std::string(spec.name)] = spec.high > 1000 ? 12 : spec.high;
    small.problem.settings[std::string(spec.name)] = spec.high > 1000 ? 3 : spec.low;
    EXPECT_GT(difference(large, small, rapt::Path::automatic), kEffect) << "setting " << spec.name << " has no effect";
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Influence, testing::ValuesIn(support::registered_names()), support::mechanism_name);

}  // namespace
