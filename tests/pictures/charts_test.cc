#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "pictures/axis.h"
#include "pictures/bars.h"
#include "pictures/curves.h"
#include "pictures/png.h"
#include "pictures/scaling.h"
#include "rapt/error.h"
#include "tests/pictures/png_reader.h"
#include "tests/pictures/svg_reader.h"

namespace rapt::pictures {
namespace {

using test::Element;
using test::of_class;
using test::texts;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Point> points_of(const Element& line) {
  std::vector<Point> points;
  std::istringstream stream(line.attribute("points"));
  char comma = 0;
  for (Point p; stream >> p.x >> comma >> p.y;) points.push_back(p);
  return points;
}

std::vector<std::string> tick_texts(const std::vector<Tick>& ticks) {
  std::vector<std::string> result;
  for (const Tick& tick : ticks) result.push_back(tick.text);
  return result;
}

using Texts = std::vector<std::string>;

TEST(Axis, LinearTicksAreRound) {
  EXPECT_EQ(tick_texts(linear_ticks(0, 1, 6)), (Texts{"0", "0.2", "0.4", "0.6", "0.8", "1"}));
  EXPECT_EQ(tick_texts(linear_ticks(-7, 13, 5)), (Texts{"−5", "0", "5", "10"}));
  EXPECT_EQ(tick_texts(linear_ticks(0, 0.00007, 3)).back(), "5·10⁻⁵");
  EXPECT_EQ(tick_texts(linear_ticks(0, 2e9, 3)), (Texts{"0", "10⁹", "2·10⁹"}));
  // One format per axis, also beyond the numbers that are written without a power of ten.
  EXPECT_EQ(tick_texts(linear_ticks(0, 2.6e-4, 8)), (Texts{"0", "0.5·10⁻⁴", "10⁻⁴", "1.5·10⁻⁴", "2·10⁻⁴", "2.5·10⁻⁴"}));
  EXPECT_EQ(tick_texts(linear_ticks(-2e6, 2e6, 8)).front(), "−2·10⁶");
  EXPECT_EQ(tick_texts(linear_ticks(-2e6, 2e6, 5)).at(1), "−10⁶");
}

TEST(Axis, TicksOfAnyRangeAreFewAndInside) {
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0, 1e-300}, {-1e308, 1e308}, {1e308, 1.7e308}, {1, 1 + 1e-15}, {1e15, 1e15 + 1}, {-3, -2.9999}, {0.1, 1e9}})
    for (const int most : {2, 5, 8}) {
      const auto ticks = linear_ticks(low, high, most);
      EXPECT_LE(ticks.size(), static_cast<std::size_t>(most) + 1) << low << " " << high;
      const double room = (high / 2 - low / 2) * 1e-6;
      for (const Tick& tick : ticks) EXPECT_TRUE(tick.value >= low - room && tick.value <= high + room) << low;
    }
}

TEST(Axis, LogTicksArePowersOfTen) {
  EXPECT_EQ(tick_texts(log_ticks(1e-6, 1e-1, 8)), (Texts{"10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹"}));
  EXPECT_EQ(tick_texts(log_ticks(4e-5, 3e-4, 8)), (Texts{"5·10⁻⁵", "10⁻⁴", "2·10⁻⁴"}));
  EXPECT_EQ(tick_texts(log_ticks(0.5, 20, 8)), (Texts{"0.5", "1", "2", "5", "10", "20"}));
  EXPECT_LE(log_ticks(1e-300, 1e300, 8).size(), 9u);
}

TEST(Axis, ScaleLeavesRoomAndReachesZero) {
  const std::vector<double> values{1, 10, kNan, kInf};
  const Scale scale = scale_of(values, false);
  EXPECT_EQ(scale.low, 0);
  EXPECT_GT(scale.high, 10);
  EXPECT_LT(scale.high, 12);
  for (const std::vector<double>& odd : std::vector<std::vector<double>>{
           {}, {0}, {5}, {-5}, {1e308, -1e308}, {1e-320}, {kNan}, {std::numeric_limits<double>::max()}})
    for (const bool log : {false, true}) {
      const Scale s = scale_of(odd, log);
      EXPECT_LT(s.low, s.high);
      EXPECT_TRUE(std::isfinite(s.low) && std::isfinite(s.high));
      EXPECT_TRUE(!log || s.low > 0);
    }
}

Curves two_curves() {
  Curves curves;
  curves.title = "Training";
  curves.x_title = "epoch";
  curves.y_title = "loss";
  curves.series = {{"train <a>", {1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}}, {"valid", {1, 2, 3, 4, 5}, {6, 5, kNan, 4, 4}}};
  return curves;
}

TEST(Curves, LinesFollowTheNumbers) {
  const Element svg = test::read_svg(draw(two_curves()));
  const auto lines = of_class(svg, "curve");
  ASSERT_EQ(lines.size(), 3u);  // the second has a gap
  const auto first = points_of(*lines[0]);
  ASSERT_EQ(first.size(), 5u);
  EXPECT_EQ(points_of(*lines[1]).size(), 2u);
  EXPECT_EQ(points_of(*lines[2]).size(), 2u);
  for (std::size_t n = 1; n < 5; ++n) {
    EXPECT_NEAR(first[n].x - first[n - 1].x, first[1].x - first[0].x, 0.02);
    EXPECT_NEAR(first[n].y - first[n - 1].y, first[1].y - first[0].y, 0.02);
  }
  EXPECT_GT(first[1].y, first[0].y);  // smaller numbers are lower
  // Equal numbers of two series are at the same height.
  EXPECT_NEAR(points_of(*lines[1])[1].y, first[0].y, 0.02);
  EXPECT_EQ(of_class(svg, "marker").size(), 9u);
  test::expect_texts_fit(svg, "curves");
}

TEST(Curves, SeriesDifferInColourDashAndMarker) {
  const Element svg = test::read_svg(draw(two_curves()));
  const auto lines = of_class(svg, "curve");
  EXPECT_NE(lines[0]->attribute("stroke"), lines[1]->attribute("stroke"));
  EXPECT_NE(lines[0]->attribute("stroke-dasharray"), lines[1]->attribute("stroke-dasharray"));
  EXPECT_NE(of_class(svg, "marker")[0]->name, of_class(svg, "marker").back()->name);
  // Any two of the first ones differ in more than colour.
  std::set<std::pair<Dashes, std::size_t>> looks;
  for (std::size_t n = 0; n < 12; ++n) looks.insert({look_of(n).dashes, look_of(n).marker});
  EXPECT_EQ(looks.size(), 12u);
}

TEST(Curves, LegendLiesBesideTheData) {
  const Element svg = test::read_svg(draw(two_curves()));
  EXPECT_EQ(texts(svg, "legend-name"), (Texts{"train <a>", "valid"}));
  double right = 0;
  for (const Element* line : of_class(svg, "curve"))
    for (const Point& p : points_of(*line)) right = std::max(right, p.x);
  for (const Element* mark : of_class(svg, "legend-mark")) {
    EXPECT_TRUE(mark->name != "line" || mark->number("x1") > right + 4);
  }
  Curves many = two_curves();
  for (int n = 0; n < 60; ++n) many.series.push_back({std::string(300, 'W') + std::to_string(n), {1, 2}, {1, 2}});
  const Element crowd = test::read_svg(draw(many));
  test::expect_texts_fit(crowd, "many series");
  EXPECT_EQ(texts(crowd, "legend-more"), (Texts{"and 39 more"}));
}

TEST(Curves, OneSeriesNamesTheAxis) {
  Curves curves = two_curves();
  curves.series.pop_back();
  curves.y_title.clear();
  const Element svg = test::read_svg(draw(curves));
  EXPECT_EQ(texts(svg, "y-title"), (Texts{"train <a>"}));
  EXPECT_EQ(texts(svg, "legend-name").size(), 0u);
}

TEST(Curves, LogarithmicAxis) {
  Curves curves;
  curves.series = {{"loss", {1, 2, 3, 4}, {1, 0.1, 0.01, 0}}};
  curves.log_y = true;
  const Element svg = test::read_svg(draw(curves));
  const auto points = points_of(*of_class(svg, "curve").at(0));
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].y - points[0].y, points[2].y - points[1].y, 0.02);
  EXPECT_EQ(texts(svg, "note").size(), 1u);  // says that a point is left out
  curves.series = {{"loss", {1, 2}, {0, -1}}};
  EXPECT_THROW(draw(curves), Error);
}

TEST(Curves, LongSeriesKeepTheirPeaks) {
  Curves curves;
  Series series{"noise", {}, {}};
  for (int n = 0; n < 300000; ++n) {
    series.x.push_back(n);
    series.y.push_back(std::sin(n * 0.001));
  }
  series.y[123457] = 9;
  curves.series = {series};
  const std::string text = to_svg(draw(curves));
  EXPECT_LT(text.size(), 200000u);
  const auto points = points_of(*of_class(test::read_svg(text), "curve").at(0));
  const auto top = std::min_element(points.begin(), points.end(), [](Point a, Point b) { return a.y < b.y; });
  EXPECT_NEAR(static_cast<double>(top - points.begin()) / static_cast<double>(points.size()), 123457 / 3e5, 0.02);
  double second = 1e9;
  for (const Point& p : points)
    if (p.y > top->y) second = std::min(second, p.y);
  EXPECT_GT(second, top->y + 50);
}

TEST(Curves, SinglePointsAreSeen) {
  Curves curves;
  curves.series = {{"a", {1, 2, 3}, {kNan, 7, kNan}}};
  EXPECT_EQ(of_class(test::read_svg(draw(curves)), "marker").size(), 1u);
}

TEST(Curves, RefusesWhatCannotBeDrawn) {
  EXPECT_THROW(draw(Curves{}), Error);
  Curves curves;
  curves.series = {{"a", {1, 2}, {1}}};
  EXPECT_THROW(draw(curves), Error);
  curves.series = {{"a", {1, 2}, {kNan, kInf}}};
  EXPECT_THROW(draw(curves), Error);
}

TEST(Curves, ExtremeNumbersGiveAPicture) {
  for (const std::vector<double>& y :
       std::vector<std::vector<double>>{{1e308, -1e308}, {0, 0}, {1e-320, 2e-320}, {1e15, 1e15 + 1}, {-5, -5}}) {
    Curves curves;
    curves.series = {{"a", {0, 1}, y}};
    const Drawing drawing = draw(curves);
    test::expect_texts_fit(test::read_svg(drawing), std::to_string(y[0]));
    EXPECT_EQ(test::marks_at_edges(test::read_png(to_png(drawing))), 0u);
  }
}

TEST(Bars, LengthsFollowTheNumbers) {
  Bars bars;
  bars.groups = {"forward", "backward <i>", std::string(200, 'W')};
  bars.series = {{"Rapt", {2, 4, 1}}, {"other", {1, kNan, -1}}};
  const Element svg = test::read_svg(draw(bars));
  const auto shapes = of_class(svg, "bar");
  ASSERT_EQ(shapes.size(), 5u);
  EXPECT_NEAR(shapes[0]->number("width"), 2 * shapes[1]->number("width"), 0.02);
  EXPECT_NEAR(shapes[2]->number("width"), 2 * shapes[0]->number("width"), 0.02);
  EXPECT_NEAR(shapes[4]->number("x") + shapes[4]->number("width"), shapes[0]->number("x"), 0.02);  // below 0
  EXPECT_EQ(texts(svg, "value"), (Texts{"2", "1", "4", "1", "−1"}));
  EXPECT_EQ(texts(svg, "missing").size(), 1u);
  EXPECT_EQ(texts(svg, "legend-name"), (Texts{"Rapt", "other"}));
  EXPECT_EQ(shapes[0]->tip(), "Rapt, forward: 2");
  test::expect_texts_fit(svg, "bars");
  EXPECT_EQ(test::marks_at_edges(test::read_png(to_png(draw(bars)))), 0u);
}

// A bar shows what was measured, and all bars of a figure share a format.
TEST(Bars, NumbersKeepTheirDigits) {
  const auto values = [](std::vector<double> numbers) {
    Bars bars;
    bars.groups.assign(numbers.size(), "a");
    bars.series = {{"x", std::move(numbers)}};
    return texts(test::read_svg(draw(bars)), "value");
  };
  EXPECT_EQ(values({99.7, 19.8, 100}), (Texts{"99.7", "19.8", "100.0"}));
  EXPECT_EQ(values({0.97, -0.125, 1}), (Texts{"0.970", "−0.125", "1.000"}));
  EXPECT_EQ(values({1234.56, 7}), (Texts{"1235", "7"}));
  EXPECT_EQ(values({1.234e-6, 123.4}), (Texts{"1.234e-6", "1.234e2"}));
}

TEST(Bars, RefusesWhatCannotBeDrawn) {
  EXPECT_THROW(draw(Bars{}), Error);
  Bars bars;
  bars.groups = {"a", "b"};
  bars.series = {{"x", {1}}};
  EXPECT_THROW(draw(bars), Error);
  bars.series = {{"x", {1, kInf}}};
  EXPECT_THROW(draw(bars), Error);
  bars.series = {{"x", {kNan, kNan}}};
  EXPECT_THROW(draw(bars), Error);
  bars.groups.assign(500, "a");
  bars.series = {{"x", std::vector<double>(500, 1.0)}};
  EXPECT_THROW(draw(bars), Error);
}

TEST(Bars, AllZeros) {
  Bars bars;
  bars.groups = {"a"};
  bars.series = {{"x", {0}}};
  EXPECT_EQ(of_class(test::read_svg(draw(bars)), "bar")[0]->number("width"), 0);
}

TEST(Scaling, SlopesAreFitted) {
  EXPECT_NEAR(fitted_slope({"a", {1, 10, 100}, {3, 300, 30000}}), 2, 1e-12);
  EXPECT_TRUE(std::isnan(fitted_slope({"a", {5, 5}, {1, 2}})));
  Scaling scaling;
  scaling.series = {{"naive", {256, 512, 1024}, {1, 4, 16}}, {"linear", {256, 512, 1024}, {1, 2, kNan}}};
  const Element svg = test::read_svg(draw(scaling));
  EXPECT_EQ(texts(svg, "legend-name"), (Texts{"naive (slope 2)", "linear (slope 1)", "slope 1", "slope 2"}));
  EXPECT_EQ(texts(svg, "x-tick"), (Texts{"256", "512", "1024"}));
  // A guide of slope 2 is parallel to the line of slope 2.
  const auto line = points_of(*of_class(svg, "curve").at(0));
  const Element& guide = *of_class(svg, "guide").at(1);
  EXPECT_NEAR((line[2].y - line[0].y) / (line[2].x - line[0].x),
              (guide.number("y2") - guide.number("y1")) / (guide.number("x2") - guide.number("x1")), 1e-3);
  test::expect_texts_fit(svg, "scaling");
  EXPECT_EQ(test::marks_at_edges(test::read_png(to_png(draw(scaling)))), 0u);
}

TEST(Scaling, RefusesWhatHasNoLogarithm) {
  Scaling scaling;
  EXPECT_THROW(draw(scaling), Error);
  scaling.series = {{"a", {1, 2}, {0, 1}}};
  EXPECT_THROW(draw(scaling), Error);
  scaling.series = {{"a", {-1, 2}, {1, 1}}};
  EXPECT_THROW(draw(scaling), Error);
  scaling.series = {{"a", {1, 2}, {1, 1}}};
  scaling.slopes = {kNan};
  EXPECT_THROW(draw(scaling), Error);
}

}  // namespace
}  // namespace rapt::pictures
