// Formulas through C: the bits of C++, and what is refused.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "rapt/attend.h"
#include "rapt/c.h"
#include "rapt/formula.h"

namespace {

TEST(CFormulas, GiveTheBitsOfCpp) {
  constexpr std::int64_t kRows = 20, kDim = 4;
  std::vector<float> x, m{0.5F}, c_out(kRows * kDim), out(kRows * kDim);
  for (std::int64_t n = 0; n < kRows * kDim; ++n) x.push_back(static_cast<float>((n * 37) % 11) / 5 - 1);
  const rapt_array array = rapt_bhsd(x.data(), RAPT_F32, 1, 1, kRows, kDim);
  const rapt_array c_target = rapt_bhsd(c_out.data(), RAPT_F32, 1, 1, kRows, kDim);
  const rapt_parameter parameter{"m", rapt_bhsd(m.data(), RAPT_F32, 1, 1, 1, 1)};
  rapt_options options;
  rapt_options_init(&options, sizeof options);
  options.formula = "raw - m*abs(j-i)";
  options.pair = "-(q-k)^2/2";
  options.visible = "j <= i";
  options.parameters = &parameter;
  options.parameter_count = 1;
  ASSERT_EQ(rapt_attend(&array, &array, &array, &c_target, &options), RAPT_OK) << rapt_last_error();

  rapt::AttendOptions same;
  same.score = rapt::formula("raw - m*abs(j-i)", {.pair = "-(q-k)^2/2", .visible = "j <= i"});
  same.score.parameters = {{"m", rapt::view(m.data(), {1})}};
  const rapt::ConstView v = rapt::view(static_cast<const float*>(x.data()), {kRows, kDim});
  rapt::attend(v, v, v, rapt::view(out.data(), {kRows, kDim}), same);
  EXPECT_EQ(std::memcmp(out.data(), c_out.data(), out.size() * sizeof(float)), 0);

  options.score = "alibi";
  EXPECT_EQ(rapt_attend(&array, &array, &array, &c_target, &options), RAPT_BAD_INPUT);
  EXPECT_NE(std::string(rapt_last_error()).find("expected none where options.score names a mechanism"),
            std::string::npos);
  options.score = nullptr;
  options.formula = "raw +";
  EXPECT_EQ(rapt_attend(&array, &array, &array, &c_target, &options), RAPT_BAD_INPUT);
  EXPECT_NE(std::string(rapt_last_error()).find("got the end, at character 6\n  raw +\n       ^"), std::string::npos);
}

}  // namespace
