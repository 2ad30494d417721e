// The attentions of docs/formulas.md: each line is a formula, and computes.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "rapt/attend.h"
#include "rapt/formula.h"

namespace {

// What stands between backticks in a cell of a table.
std::string code_of(const std::string& cell) {
  const std::size_t first = cell.find('`'), last = cell.rfind('`');
  return first == std::string::npos ? "" : cell.substr(first + 1, last - first - 1);
}

TEST(DocumentedFormulas, Compute) {
  std::ifstream page(std::string(RAPT_SOURCE_DIR) + "/docs/formulas.md");
  ASSERT_TRUE(page);
  constexpr std::int64_t kRows = 48, kDim = 4;
  std::vector<double> x, numbers(kRows * 2, 0.5), out(kRows * kDim);
  for (std::int64_t n = 0; n < kRows * kDim; ++n) x.push_back(std::sin(static_cast<double>(n)));
  bool inside = false;
  int count = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line.starts_with("## Published");
    if (!inside || !line.starts_with("| ") || line.starts_with("| |") || line.starts_with("| ---")) continue;
    ++count;
    SCOPED_TRACE(line);
    const std::size_t second = line.find(" | "), third = line.find(" | ", second + 3);
    ASSERT_NE(third, std::string::npos);
    rapt::AttendOptions options;
    options.score =
        rapt::formula(code_of(line.substr(second, third - second)), {.visible = code_of(line.substr(third))});
    for (const rapt::ParameterSpec& spec : options.score.mechanism->parameters())
      options.score.parameters.push_back({std::string(spec.name), rapt::view(static_cast<const double*>(numbers.data()),
                                                                             {spec.rank() == 0 ? 1 : 2 * kRows})});
    const rapt::ConstView v = rapt::view(static_cast<const double*>(x.data()), {kRows, kDim});
    rapt::attend(v, v, v, rapt::view(out.data(), {kRows, kDim}), options);
    for (const double y : out) ASSERT_TRUE(std::isfinite(y));
  }
  EXPECT_GE(count, 10);
}

}  // namespace
