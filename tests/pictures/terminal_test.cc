#include "pictures/terminal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string without_colors(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') at = text.find('m', at);
    else result += text[at];
  }
  return result;
}

HeatMap ramp(std::int64_t rows, std::int64_t cols) {
  HeatMap map;
  map.rows = rows;
  map.cols = cols;
  for (std::int64_t n = 0; n < rows * cols; ++n)
    map.values.push_back(static_cast<double>(n) / static_cast<double>(std::max<std::int64_t>(rows * cols - 1, 1)));
  return map;
}

TEST(Terminal, AsciiShadesFollowTheNumbers) {
  HeatMap map = ramp(1, 3);
  map.values = {0, 0.5, 1};
  map.row_labels = {"q"};
  const auto lines = lines_of(terminal_view(map, {40, 24, false}));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "q   ++@@");
  EXPECT_EQ(lines[1], "  0  .:-=+*#%@ 1");
}

TEST(Terminal, ViewsFitTheTerminal) {
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{1, 1}, {4, 4}, {30, 7}, {7, 300}, {3000, 2000}})
    for (const bool rich : {false, true})
      for (const std::size_t columns : {20u, 80u, 200u}) {
        HeatMap map = ramp(rows, cols);
        map.title = "A title <x> \x1b[2J that is far longer than a narrow terminal is wide";
        for (int n = 0; n < rows; ++n) map.row_labels.push_back("世界 token" + std::to_string(n));
        const std::string text = terminal_view(map, {columns, 24, rich});
        EXPECT_EQ(text.find("\x1b[2J"), std::string::npos);
        const auto lines = lines_of(without_colors(text));
        EXPECT_LE(lines.size(), 24u);
        for (const std::string& line : lines) {
          // The last one shows the colours; it may be wider than the narrowest terminals.
          EXPECT_TRUE(line == lines.back() || terminal_columns(line) <= columns) << rows << " " << cols << ": " << line;
          EXPECT_TRUE(rich || std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c < 127; }));
        }
      }
}

TEST(Terminal, HalfBlocksCarryTwoColours) {
  HeatMap map = ramp(40, 60);  // more rows than lines: two to a line
  const std::string text = terminal_view(map, {80, 24, true});
  const auto color = [](int layer, Rgb c) {
    return "\x1b[" + std::to_string(layer) + ";2;" + std::to_string(c.red) + ";" + std::to_string(c.green) + ";" +
           std::to_string(c.blue) + "m";
  };
  const auto lines = lines_of(text);
  EXPECT_EQ(lines.size(), 21u);
  EXPECT_NE(lines[0].find(color(38, color_at(map.values[0])) + color(48, color_at(map.values[60])) + "▀"),
            std::string::npos);
  for (std::size_t n = 0; n + 1 < lines.size(); ++n) EXPECT_TRUE(lines[n].ends_with("\x1b[0m"));
}

TEST(Terminal, CurvesAndBars) {
  Curves curves;
  curves.title = "loss";
  curves.series = {{"train", {1, 2, 3}, {3, 2, 1}}, {"valid", {1, 2, 3}, {3, 3, 3}}};
  for (const bool rich : {false, true}) {
    const auto lines = lines_of(without_colors(terminal_view(curves, {60, 20, rich})));
    EXPECT_EQ(lines[0], "loss");
    EXPECT_LE(lines.size(), 20u);
    for (const std::string& line : lines) EXPECT_LE(terminal_columns(line), 60u);
    EXPECT_NE(lines.back().find("valid"), std::string::npos);
  }
  Bars bars;
  bars.groups = {"one", "two"};
  bars.series = {{"x", {2, 1}}};
  const auto lines = lines_of(terminal_view(bars, {40, 20, false}));
  ASSERT_EQ(lines.size(), 2u);
  const auto count = [](const std::string& line) { return std::count(line.begin(), line.end(), '#'); };
  EXPECT_EQ(count(lines[0]), 2 * count(lines[1]));
  EXPECT_TRUE(lines[0].ends_with(" 2"));
}

TEST(Terminal, RefusesWhatThePictureRefuses) {
  EXPECT_THROW(terminal_view(HeatMap{}, {}), Error);
  EXPECT_THROW(terminal_view(Curves{}, {}), Error);
  EXPECT_THROW(terminal_view(Bars{}, {}), Error);
}

}  // namespace
}  // namespace rapt::pictures
