#include "pictures/heatmap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "pictures/heatmap_grid.h"
#include "pictures/png.h"
#include "pictures/text.h"
#include "rapt/error.h"
#include "tests/pictures/png_reader.h"
#include "tests/pictures/svg_reader.h"

namespace rapt::pictures {
namespace {

using test::Element;
using test::fills;
using test::of_class;
using test::read_svg;
using test::texts;

Element read(const HeatMap& map) { return read_svg(draw(map)); }

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
    const Element svg = read(ramp(rows, cols));
    EXPECT_EQ(fills(svg, "cell").size(), static_cast<std::size_t>(rows * cols)) << rows << " × " << cols;
  }
}

TEST(HeatMap, WritesNumbersIntoCellsUpToTwelveByTwelve) {
  EXPECT_EQ(texts(read(ramp(12, 12)), "value").size(), 144u);
  EXPECT_EQ(texts(read(ramp(13, 12)), "value").size(), 0u);
  EXPECT_EQ(texts(read(ramp(12, 13)), "value").size(), 0u);
}

// All cells of a figure in one format, chosen by the largest number, and in one size.
TEST(HeatMap, NumbersInCellsHaveOneFormat) {
  const auto numbers = [](std::vector<double> values) {
    HeatMap map = ramp(1, static_cast<std::int64_t>(values.size()));
    map.values = std::move(values);
    const Element svg = read(map);
    for (const Element* text : of_class(svg, "value"))
      EXPECT_EQ(text->number("font-size"), of_class(svg, "value")[0]->number("font-size"));
    return texts(svg, "value");
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(numbers({0, 1, 0.998, 0.46536883, 0.03463117, 4.79433566e-05, -1e-9}),
            (Texts{"0.00", "1.00", "1.00", "0.47", "0.03", "0.00", "0.00"}));
  EXPECT_EQ(numbers({3, -12, 0}), (Texts{"3", "−12", "0"}));
  EXPECT_EQ(numbers({12.34, -0.5}), (Texts{"12.3", "−0.5"}));
  EXPECT_EQ(numbers({0.0123, 0.5e-3}), (Texts{"0.012", "0.001"}));
  EXPECT_EQ(numbers({4.8e-05, 1.2e-6}), (Texts{"4.8e-5", "1.2e-6"}));
  EXPECT_EQ(numbers({1.25e7, -3}), (Texts{"1.2e7", "−3.0e0"}));
}

// 0 is nearly white; both sides grow darker as fast, and differ in hue without red against green.
TEST(HeatMap, SignedNumbersHaveTwoHues) {
  HeatMap map = ramp(1, 5);
  map.values = {-2, -1, 0, 1, 2};
  map.low = -2;
  map.high = 4;
  const std::vector<std::string> colors = fills(read(map), "cell");
  EXPECT_GT(lightness(colors[2]), 94);
  EXPECT_NEAR(lightness(colors[1]), lightness(colors[3]), 4);
  EXPECT_NEAR(lightness(colors[0]), lightness(colors[4]), 4);
  EXPECT_LT(lightness(colors[0]), lightness(colors[1]) - 8);
  for (const double x : {0.25, 0.5, 1.0}) {
    const Rgb below = color_of(-x, -1, 1), above = color_of(x, -1, 1);
    EXPECT_GT(int{below.blue}, int{below.red} + 20) << x;
    EXPECT_GT(int{above.red}, int{above.blue} + 20) << x;
  }
  EXPECT_EQ(color_of(-7, -2, 4), color_of(-2, -2, 4));
  EXPECT_EQ(color_of(0.5, 0, 1), color_at(0.5));
  EXPECT_EQ(color_of(-3, -4, 0), color_at(0.25));
  EXPECT_EQ(hex(color_of(std::numeric_limits<double>::quiet_NaN(), -1, 1)), "#c8c8c8");
}

TEST(HeatMap, BlocksOfSignedNumbersKeepTheFarthestFromZero) {
  HeatMap map;
  map.rows = 1;
  map.cols = 6;
  map.values = {1, -5, 2, 3, -1, -2};
  const HeatMap blocks = largest_of_blocks(map, 1, 3);
  EXPECT_EQ(blocks.values, (std::vector<double>{-5, 3, -2}));
  EXPECT_TRUE(blocks.farthest);
  map.values = {-1, -5, -2, -3, -1, -2};
  EXPECT_EQ(largest_of_blocks(map, 1, 3).values, (std::vector<double>{-1, -2, -1}));
}

TEST(HeatMap, ColoursGrowLighterWithTheNumbers) {
  const std::vector<std::string> colors = fills(read(ramp(6, 6)), "cell");
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
  map.low = 2;
  map.high = 10;
  const Element svg = read(map);
  const std::vector<std::string> bar = fills(svg, "bar");
  ASSERT_GE(bar.size(), 32u);
  for (std::size_t n = 1; n < bar.size(); ++n) EXPECT_LT(lightness(bar[n - 1]), lightness(bar[n]));
  EXPECT_EQ(texts(svg, "bar-label"), (std::vector<std::string>{"2", "4", "6", "8", "10"}));
}

// Lightest at 0, darker towards both ends.
TEST(HeatMap, ColourBarOfSignedNumbersHasItsLightestAtZero) {
  HeatMap map = ramp(3, 3);
  map.low = -2;
  map.high = 6;
  const Element svg = read(map);
  const std::vector<std::string> bar = fills(svg, "bar");
  ASSERT_GE(bar.size(), 32u);
  const std::size_t zero = bar.size() / 4;
  for (std::size_t n = 1; n + 1 < zero; ++n) EXPECT_LT(lightness(bar[n - 1]), lightness(bar[n])) << n;
  for (std::size_t n = zero + 2; n < bar.size(); ++n) EXPECT_GT(lightness(bar[n - 1]), lightness(bar[n])) << n;
  EXPECT_GT(lightness(bar[zero]), 94);
  EXPECT_EQ(texts(svg, "bar-label"), (std::vector<std::string>{"−2", "0", "2", "4", "6"}));
}

TEST(HeatMap, NumbersOutsideTheRangeTakeTheColoursAtItsEnds) {
  HeatMap map = ramp(1, 4);
  map.values = {-5, 0, 1, 7};
  const std::vector<std::string> colors = fills(read(map), "cell");
  EXPECT_EQ(colors[0], colors[1]);
  EXPECT_EQ(colors[2], colors[3]);
  EXPECT_NE(colors[1], colors[2]);
}

TEST(HeatMap, MissingNumbersAreGrey) {
  HeatMap map = ramp(1, 2);
  map.values[0] = std::numeric_limits<double>::quiet_NaN();
  map.values[1] = -std::numeric_limits<double>::infinity();
  const Element svg = read(map);
  EXPECT_EQ(fills(svg, "cell")[0], "#c8c8c8");
  EXPECT_EQ(fills(svg, "cell")[1], hex(color_at(0)));
}

TEST(HeatMap, LabelsAreTheGivenOnesOrNumbers) {
  HeatMap map = ramp(2, 3);
  EXPECT_EQ(texts(read(map), "row-label"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(texts(read(map), "col-label"), (std::vector<std::string>{"1", "2", "3"}));
  map.row_labels = {"the", "cat"};
  map.col_labels = {"a", "b", "c"};
  map.row_title = "query";
  map.col_title = "key";
  const Element svg = read(map);
  EXPECT_EQ(texts(svg, "row-label"), map.row_labels);
  EXPECT_EQ(texts(svg, "col-label"), map.col_labels);
  EXPECT_EQ(texts(svg, "row-title"), (std::vector<std::string>{"query"}));
  EXPECT_EQ(texts(svg, "col-title"), (std::vector<std::string>{"key"}));
  EXPECT_EQ(texts(svg, "title"), (std::vector<std::string>{"ramp"}));
}

TEST(HeatMap, LongLabelsAreCutBetweenCharacters) {
  HeatMap map = ramp(1, 1);
  map.row_labels = {"öööööööööööööööööööööööö"};
  const std::vector<std::string> labels = texts(read(map), "row-label");
  EXPECT_EQ(labels, (std::vector<std::string>{"öööööööööööö…"}));
}

TEST(HeatMap, ManyLabelsAreThinnedOut) {
  const Element svg = read(ramp(100, 100));
  EXPECT_LT(texts(svg, "row-label").size(), 50u);
  EXPECT_GT(texts(svg, "row-label").size(), 10u);
  EXPECT_LT(texts(svg, "col-label").size(), 50u);
}

// Text that a viewer could take for markup, commands or direction marks.
const std::vector<std::string> kHostile{"<script>alert('x')</script>",
                                        "\"quotes\" & 'more' ]]> -->",
                                        std::string("nul\0 bell\a esc\x1b[31m line\n", 25),
                                        "\u202Eturned\u202C",
                                        "שלום עולם",
                                        "مرحبا",
                                        "😀👍🏽 emoji",
                                        "世界世界世界世界世界世界",
                                        "\xff\xfe broken",
                                        std::string(10240, 'x'),
                                        "",
                                        "   "};

HeatMap hostile_map() {
  HeatMap map = ramp(static_cast<std::int64_t>(kHostile.size()), static_cast<std::int64_t>(kHostile.size()));
  map.row_labels = map.col_labels = kHostile;
  map.row_title = map.col_title = map.title = kHostile[0] + kHostile[9];
  return map;
}

TEST(HeatMap, HostileLabelsStayTexts) {
  const std::string text = to_svg(draw(hostile_map()));
  EXPECT_EQ(text.find("<script"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\u202E"), std::string::npos);
  const Element svg = read_svg(text);
  test::expect_texts_fit(svg, "hostile labels");
  const std::vector<std::string> labels = texts(svg, "row-label");
  // An empty label has no text element.
  ASSERT_EQ(labels.size(), kHostile.size() - 1);
  EXPECT_TRUE(labels[0].starts_with("<script>"));
  EXPECT_TRUE(labels[0].ends_with("…"));
  EXPECT_TRUE(labels[2].starts_with("nul\uFFFD"));
  EXPECT_EQ(labels[3], "turned");
  EXPECT_EQ(labels[4], "שלום עולם");
  EXPECT_LT(labels[9].size(), 40u);
  EXPECT_EQ(labels[10], "␣␣␣");
  EXPECT_LT(text.size(), 200000u);
}

TEST(HeatMap, HostileLabelsLeaveThePictureWhole) {
  const Drawing drawing = draw(hostile_map());
  const test::Pixels pixels = test::read_png(to_png(drawing));
  EXPECT_EQ(test::marks_at_edges(pixels), 0u);
  // No label overlaps the cells: those of the first column keep their colour at the left edge.
  const Element svg = read_svg(drawing);
  for (const Element* cell : of_class(svg, "cell")) {
    if (cell->number("x") != of_class(svg, "cell")[0]->number("x")) continue;
    EXPECT_EQ(hex(pixels.at(2 * cell->number("x") + 2, 2 * (cell->number("y") + cell->number("height") / 2))),
              cell->attribute("fill"));
  }
}

TEST(HeatMap, TextsFitAtEverySize) {
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{1, 1},
                                                                   {1, 2},
                                                                   {1, 9},
                                                                   {9, 1},
                                                                   {4, 4},
                                                                   {11, 11},
                                                                   {40, 3},
                                                                   {64, 64},
                                                                   {200, 7},
                                                                   {512, 512},
                                                                   {1, 1281},
                                                                   {1300, 2}})
    for (const bool tokens : {false, true}) {
      HeatMap map = ramp(rows, cols);
      map.title = "A title that is longer than a small map is wide, so that it must be broken into lines";
      map.row_title = "query";
      map.col_title = "key";
      if (tokens) {
        for (int n = 0; n < rows; ++n) map.row_labels.push_back("token" + std::to_string(n * n));
        for (int n = 0; n < cols; ++n) map.col_labels.push_back("extraordinarily" + std::to_string(n));
      }
      const std::string what = std::to_string(rows) + " × " + std::to_string(cols) + (tokens ? " with tokens" : "");
      const Drawing drawing = draw(map);
      const Element svg = read_svg(drawing);
      test::expect_texts_fit(svg, what);
      EXPECT_LE(drawing.width, 1000) << what;
      EXPECT_LE(drawing.height, 1000) << what;
      EXPECT_EQ(svg.attribute("viewBox"), "0 0 " + svg.attribute("width") + " " + svg.attribute("height"));
      EXPECT_EQ(test::marks_at_edges(test::read_png(to_png(drawing))), 0u) << what;
    }
}

TEST(HeatMap, NarrowPicturesHoldTheirNotes) {
  HeatMap map = ramp(4096, 1);
  map.title.clear();
  const Element svg = read(map);
  EXPECT_EQ(texts(svg, "note").size(), 1u);
  test::expect_texts_fit(svg, "4096 × 1");
  HeatMapGrid grid;
  grid.maps = {map};
  test::expect_texts_fit(read_svg(draw(grid)), "a grid of 4096 × 1");
}

TEST(HeatMap, NumbersBesideManyRowsAreRound) {
  const std::vector<std::string> labels = texts(read(ramp(512, 512)), "row-label");
  EXPECT_EQ(labels.front(), "1");
  EXPECT_EQ(labels[1], "50");
  EXPECT_EQ(labels.back(), "500");
}

TEST(HeatMap, PngShowsTheColoursOfTheNumbers) {
  for (const std::int64_t size : {1, 4, 11, 70, 100, 512}) {
    const HeatMap map = ramp(size, size);
    const Drawing drawing = draw(map);
    const test::Pixels pixels = test::read_png(to_png(drawing));
    EXPECT_EQ(pixels.width, 2 * drawing.width);
    EXPECT_EQ(pixels.height, 2 * drawing.height);
    const Element svg = read_svg(drawing);
    // One rectangle for each cell, or one image of them all.
    const Element& first = *of_class(svg, size * size > 6400 ? "cell-image" : "cell").at(0);
    const double cell = size * size > 6400 ? first.number("width") / static_cast<double>(size) : first.number("width");
    for (const double i : {0.0, static_cast<double>(size / 2), static_cast<double>(size - 1)})
      for (const double j : {0.0, static_cast<double>(size / 3), static_cast<double>(size - 1)}) {
        const double value = map.values[static_cast<std::size_t>(i * static_cast<double>(size) + j)];
        // A quarter into the cell: numbers stand in the middle.
        const double x = 2 * (first.number("x") + cell * (j + 0.25)), y = 2 * (first.number("y") + cell * (i + 0.2));
        EXPECT_EQ(hex(pixels.at(x, y)), hex(color_at(value))) << size << ": " << i << ", " << j;
      }
  }
}

TEST(HeatMap, LargeMapsKeepTheLargestOfEachBlock) {
  HeatMap map;
  map.rows = map.cols = 4096;
  map.values.assign(4096 * 4096, 0.0);
  map.values[static_cast<std::size_t>(1001 * 4096 + 3002)] = 1;
  map.values[7] = std::numeric_limits<double>::quiet_NaN();
  const HeatMap blocks = largest_of_blocks(map, kMaxCells, kMaxCells);
  EXPECT_EQ(blocks.rows, 1024);
  EXPECT_EQ(blocks.values[static_cast<std::size_t>(250 * 1024 + 750)], 1);
  EXPECT_EQ(std::count(blocks.values.begin(), blocks.values.end(), 1.0), 1);
  EXPECT_EQ(std::count(blocks.values.begin(), blocks.values.end(), 0.0), 1024 * 1024 - 1);
  const Drawing drawing = draw(map);
  const Element svg = read_svg(drawing);
  EXPECT_EQ(texts(svg, "note"), (std::vector<std::string>{"each cell is the largest of 4 × 4 numbers"}));
  EXPECT_LE(drawing.width, 1000);
  const Element& image = *of_class(svg, "cell-image").at(0);
  const test::Pixels pixels = test::read_png(to_png(drawing));
  const double cell = 2 * image.number("width") / 1024;
  EXPECT_EQ(hex(pixels.at(2 * image.number("x") + 750.5 * cell, 2 * image.number("y") + 250.5 * cell)),
            hex(color_at(1)));
  EXPECT_EQ(hex(pixels.at(2 * image.number("x") + 752.5 * cell, 2 * image.number("y") + 250.5 * cell)),
            hex(color_at(0)));
}

TEST(HeatMap, BlocksAtTheEndMayBeSmaller) {
  const HeatMap blocks = largest_of_blocks(ramp(5, 7), 2, 3);
  EXPECT_EQ(blocks.rows, 2);
  EXPECT_EQ(blocks.cols, 3);
  EXPECT_EQ(blocks.row_block, 3);
  EXPECT_EQ(blocks.values.back(), 1);
  EXPECT_DOUBLE_EQ(blocks.values[0], (2 * 7 + 2) / 34.0);
}

TEST(HeatMap, TokensOfADecodedSequence) {
  const std::vector<std::string> source{"a", "b", "c"}, target{"x", "y"};
  const std::vector<float> weights{0, 0.5, 0.5, 1, 0, 0};
  const Element svg = read_svg(heat_map(std::span<const float>(weights), source, target, "pair"));
  EXPECT_EQ(texts(svg, "col-label"), source);
  EXPECT_EQ(texts(svg, "row-label"), target);
  EXPECT_EQ(texts(svg, "col-title"), (std::vector<std::string>{"source"}));
  EXPECT_EQ(fills(svg, "cell")[3], hex(color_at(1)));
  EXPECT_EQ(of_class(svg, "cell")[1]->tip(), "x → b: 0.5");
  EXPECT_EQ(svg.tip(), "pair");
  EXPECT_THROW(heat_map(std::span<const float>(weights), target, target, ""), Error);
}

TEST(HeatMap, RangeOfColours) {
  EXPECT_EQ(color_range(std::vector<double>{0.2, 0.4}), std::pair(0.0, 0.4));
  EXPECT_EQ(color_range(std::vector<double>{-1, 3}), std::pair(-1.0, 3.0));
  EXPECT_EQ(color_range(std::vector<double>{0, 0}), std::pair(0.0, 1.0));
}

TEST(HeatMapGrid, SharesOneScale) {
  HeatMapGrid grid;
  grid.title = "heads";
  grid.high = 2;
  for (int n = 0; n < 12; ++n) {
    HeatMap map = ramp(3, 3);
    map.title = "head " + std::to_string(n);
    map.row_labels = map.col_labels = {"the", "<b>", "extraordinarily long"};
    map.high = 1 + n;  // not used
    grid.maps.push_back(map);
  }
  const Element svg = read_svg(draw(grid));
  EXPECT_EQ(fills(svg, "cell").size(), 12u * 9u);
  EXPECT_EQ(fills(svg, "cell")[8], hex(color_at(0.5)));
  EXPECT_EQ(fills(svg, "cell").back(), hex(color_at(0.5)));
  EXPECT_EQ(texts(svg, "map-title").size(), 12u);
  EXPECT_EQ(of_class(svg, "color-bar").size(), 1u);
  test::expect_texts_fit(svg, "grid");
}

TEST(HeatMapGrid, ManyMapsStayReadable) {
  for (const auto& [count, size] :
       std::vector<std::pair<int, int>>{{1, 1}, {3, 700}, {48, 128}, {144, 40}, {600, 20}}) {
    HeatMapGrid grid;
    for (int n = 0; n < count; ++n) {
      grid.maps.push_back(ramp(size, size));
      grid.maps.back().title = "layer " + std::to_string(n / 12) + ", head " + std::to_string(n % 12);
    }
    const Drawing drawing = draw(grid);
    test::expect_texts_fit(read_svg(drawing), std::to_string(count) + " maps");
    EXPECT_LT(drawing.width, 1600) << count;
  }
}

TEST(HeatMapGrid, RefusesMapsOfDifferentSizes) {
  HeatMapGrid grid;
  EXPECT_THROW(draw(grid), Error);
  grid.maps = {ramp(2, 2), ramp(2, 3)};
  EXPECT_THROW(draw(grid), Error);
}

TEST(HeatMap, RefusesSizesThatDoNotFit) {
  HeatMap map = ramp(2, 2);
  map.values.pop_back();
  EXPECT_THROW(draw(map), Error);
  map = ramp(2, 2);
  map.row_labels = {"one"};
  EXPECT_THROW(draw(map), Error);
  map = ramp(2, 2);
  map.col_labels = {"one", "two", "three"};
  EXPECT_THROW(draw(map), Error);
  map = ramp(2, 2);
  map.low = map.high;
  EXPECT_THROW(draw(map), Error);
  EXPECT_THROW(draw(HeatMap{}), Error);
}

}  // namespace
}  // namespace rapt::pictures
