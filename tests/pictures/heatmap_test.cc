#include "pictures/heatmap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "rapt/error.h"

namespace rapt::pictures {
namespace {

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> result;
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) result.push_back((*it)[1]);
  return result;
}

std::vector<std::string> fills(const std::string& svg, const std::string& kind) {
  return matches(svg, "<rect class=\"" + kind + "\"[^>]*fill=\"(#[0-9a-f]{6})\"");
}

std::vector<std::string> texts(const std::string& svg, const std::string& kind) {
  return matches(svg, "<text class=\"" + kind + "\"[^>]*>([^<]*)</text>");
}

// CIE L* of "#rrggbb", from the definition of sRGB.
double lightness(const std::string& color) {
  double y = 0;
  const double shares[] = {0.2126, 0.7152, 0.0722};
  for (int n = 0; n < 3; ++n) {
    const double c = std::stoi(color.substr(static_cast<std::size_t>(1 + 2 * n), 2), nullptr, 16) / 255.0;
    y += shares[n] * (c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
  }
  return y > 0.008856 ? 116 * std::cbrt(y) - 16 : 903.3 * y;
}

// Opening and closing tags in order; texts hold no stray marks.
bool is_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < svg.size(); ++at) {
    if (svg[at] == '&' && !std::regex_search(svg.substr(at, 10), std::regex("^&(amp|lt|gt|quot|#39);"))) return false;
    if (svg[at] == '>') return false;
    if (svg[at] != '<') continue;
    const std::size_t end = svg.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = svg.substr(at + 1, end - at - 1);
    at = end;
    if (tag.ends_with('/')) continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (!name.starts_with('/')) {
      open.push_back(name);
    } else {
      if (open.empty() || "/" + open.back() != name) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

HeatMap ramp(std::int64_t rows, std::int64_t cols) {
  HeatMap map;
  map.title = "ramp";
  map.rows = rows;
  map.cols = cols;
  for (std::int64_t n = 0; n < rows * cols; ++n)
    map.values.push_back(rows * cols == 1 ? 0.5 : static_cast<double>(n) / static_cast<double>(rows * cols - 1));
  return map;
}

TEST(HeatMap, HasOneCellForEachNumber) {
  for (const auto& [rows, cols] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 9}, {9, 1}, {4, 4}, {12, 12}, {13, 5}, {70, 66}}) {
    const std::string svg = heat_map_svg(ramp(rows, cols));
    EXPECT_EQ(fills(svg, "cell").size(), static_cast<std::size_t>(rows * cols)) << rows << " × " << cols;
    EXPECT_TRUE(is_well_formed(svg)) << rows << " × " << cols;
  }
}

TEST(HeatMap, WritesNumbersIntoCellsUpToTwelveByTwelve) {
  EXPECT_EQ(texts(heat_map_svg(ramp(12, 12)), "value").size(), 144u);
  EXPECT_EQ(texts(heat_map_svg(ramp(13, 12)), "value").size(), 0u);
  EXPECT_EQ(texts(heat_map_svg(ramp(12, 13)), "value").size(), 0u);
}

TEST(HeatMap, NumbersInCellsKeepTwoDigits) {
  HeatMap map = ramp(1, 7);
  map.values = {0, 1, 0.998, 0.46536883, 0.03463117, 4.79433566e-05, 6.12522986e-10};
  EXPECT_EQ(texts(heat_map_svg(map), "value"),
            (std::vector<std::string>{"0", "1", "1.00", "0.47", "0.035", "5e-5", "6e-10"}));
}

TEST(HeatMap, ColoursGrowLighterWithTheNumbers) {
  const std::vector<std::string> colors = fills(heat_map_svg(ramp(6, 6)), "cell");
  ASSERT_EQ(colors.size(), 36u);
  for (std::size_t n = 1; n < colors.size(); ++n) EXPECT_LT(lightness(colors[n - 1]), lightness(colors[n])) << n;
}

TEST(HeatMap, ColoursAreEvenlySpaced) {
  std::vector<double> steps;
  for (int n = 0; n < 20; ++n)
    steps.push_back(lightness(hex(color_at((n + 1) / 20.0))) - lightness(hex(color_at(n / 20.0))));
  const double mean = (lightness(hex(color_at(1))) - lightness(hex(color_at(0)))) / 20;
  EXPECT_GT(mean, 3.5);  // most of the range from black to white is used
  for (const double step : steps) {
    EXPECT_GT(step, 0.6 * mean);
    EXPECT_LT(step, 1.4 * mean);
  }
}

// Red–green blindness: the colours must differ without the difference of red and green. They vary from blue to yellow.
TEST(HeatMap, ColoursDoNotRelyOnRedAgainstGreen) {
  for (int n = 0; n <= 20; ++n) {
    const Rgb c = color_at(n / 20.0);
    EXPECT_LT(std::abs(int{c.red} - int{c.green}), 32) << n;
  }
  EXPECT_GT(int{color_at(0).blue}, int{color_at(0).red} + 40);
  EXPECT_GT(int{color_at(1).red}, int{color_at(1).blue} + 100);
}

TEST(HeatMap, ColourBarRunsFromLowToHigh) {
  HeatMap map = ramp(3, 3);
  map.low = -2;
  map.high = 6;
  const std::string svg = heat_map_svg(map);
  const std::vector<std::string> bar = fills(svg, "bar");
  ASSERT_GE(bar.size(), 32u);
  for (std::size_t n = 1; n < bar.size(); ++n) EXPECT_LT(lightness(bar[n - 1]), lightness(bar[n]));
  EXPECT_EQ(texts(svg, "bar-label"), (std::vector<std::string>{"-2", "0", "2", "4", "6"}));
}

TEST(HeatMap, NumbersOutsideTheRangeTakeTheColoursAtItsEnds) {
  HeatMap map = ramp(1, 4);
  map.values = {-5, 0, 1, 7};
  const std::vector<std::string> colors = fills(heat_map_svg(map), "cell");
  EXPECT_EQ(colors[0], colors[1]);
  EXPECT_EQ(colors[2], colors[3]);
  EXPECT_NE(colors[1], colors[2]);
}

TEST(HeatMap, MissingNumbersAreGrey) {
  HeatMap map = ramp(1, 2);
  map.values[0] = std::numeric_limits<double>::quiet_NaN();
  map.values[1] = -std::numeric_limits<double>::infinity();
  const std::string svg = heat_map_svg(map);
  EXPECT_EQ(fills(svg, "cell")[0], "#c8c8c8");
  EXPECT_EQ(fills(svg, "cell")[1], hex(color_at(0)));
  EXPECT_TRUE(is_well_formed(svg));
}

TEST(HeatMap, LabelsAreTheGivenOnesOrNumbers) {
  HeatMap map = ramp(2, 3);
  EXPECT_EQ(texts(heat_map_svg(map), "row-label"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(texts(heat_map_svg(map), "col-label"), (std::vector<std::string>{"1", "2", "3"}));
  map.row_labels = {"the", "cat"};
  map.col_labels = {"a", "b", "c"};
  map.row_title = "query";
  map.col_title = "key";
  const std::string svg = heat_map_svg(map);
  EXPECT_EQ(texts(svg, "row-label"), map.row_labels);
  EXPECT_EQ(texts(svg, "col-label"), map.col_labels);
  EXPECT_EQ(texts(svg, "row-title"), (std::vector<std::string>{"query"}));
  EXPECT_EQ(texts(svg, "col-title"), (std::vector<std::string>{"key"}));
  EXPECT_EQ(texts(svg, "title"), (std::vector<std::string>{"ramp"}));
}

TEST(HeatMap, LongLabelsAreCutBetweenCharacters) {
  HeatMap map = ramp(1, 1);
  map.row_labels = {"öööööööööööööööööööööööö"};
  const std::vector<std::string> labels = texts(heat_map_svg(map), "row-label");
  EXPECT_EQ(labels, (std::vector<std::string>{"ööööööööööööööö…"}));
}

TEST(HeatMap, ManyLabelsAreThinnedOut) {
  const std::string svg = heat_map_svg(ramp(100, 100));
  EXPECT_LT(texts(svg, "row-label").size(), 50u);
  EXPECT_GT(texts(svg, "row-label").size(), 10u);
  EXPECT_LT(texts(svg, "col-label").size(), 50u);
}

TEST(HeatMap, EscapesMarksInEveryText) {
  const std::string attack = "<script>alert('x')</script>&\"";
  HeatMap map = ramp(1, 1);
  map.title = map.row_title = map.col_title = attack;
  map.row_labels = map.col_labels = {attack};
  const std::string svg = heat_map_svg(map);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"), std::string::npos);
  EXPECT_TRUE(is_well_formed(svg));
}

TEST(HeatMap, ReplacesWhatXmlCannotHold) {
  EXPECT_EQ(xml_text(std::string("a\0b\x1f\n", 5)), "a\uFFFDb\uFFFD\uFFFD");
  EXPECT_EQ(xml_text("\xff\xc3"), "\uFFFD\uFFFD");            // no character
  EXPECT_EQ(xml_text("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // half of a surrogate pair
  EXPECT_EQ(xml_text("\xe0\x80\xaf"), "\uFFFD\uFFFD\uFFFD");  // a longer form than needed
  EXPECT_EQ(xml_text("größe 世界 😀"), "größe 世界 😀");
}

TEST(HeatMap, RefusesSizesThatDoNotFit) {
  HeatMap map = ramp(2, 2);
  map.values.pop_back();
  EXPECT_THROW(heat_map_svg(map), Error);
  map = ramp(2, 2);
  map.row_labels = {"one"};
  EXPECT_THROW(heat_map_svg(map), Error);
  map = ramp(2, 2);
  map.col_labels = {"one", "two", "three"};
  EXPECT_THROW(heat_map_svg(map), Error);
  map = ramp(2, 2);
  map.low = map.high;
  EXPECT_THROW(heat_map_svg(map), Error);
  EXPECT_THROW(heat_map_svg(HeatMap{}), Error);
}

}  // namespace
}  // namespace rapt::pictures
