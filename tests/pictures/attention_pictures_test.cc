#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pictures/alignment.h"
#include "pictures/centers.h"
#include "pictures/png.h"
#include "rapt/error.h"
#include "tests/pictures/png_reader.h"
#include "tests/pictures/svg_reader.h"

namespace rapt::pictures {
namespace {

using test::Element;
using test::of_class;
using test::texts;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Alignment, LinesJoinTokensByWeight) {
  Alignment alignment;
  alignment.title = "pair";
  alignment.source = {"the", "<cat>"};
  alignment.target = {"le", "chat", "."};
  alignment.weights = {1, 0, 0.25, 0.5, 0, 0.01};
  const Element svg = test::read_svg(draw(alignment));
  EXPECT_EQ(texts(svg, "source-label"), alignment.source);
  EXPECT_EQ(texts(svg, "target-label"), alignment.target);
  const auto links = of_class(svg, "link");
  ASSERT_EQ(links.size(), 3u);  // one weight is too faint to be seen
  // The heaviest is on top.
  EXPECT_EQ(links[0]->tip(), "chat → the: 0.25");
  EXPECT_EQ(links[2]->tip(), "le → the: 1");
  EXPECT_EQ(links[0]->attribute("stroke-opacity"), "0.25");
  EXPECT_EQ(links[1]->attribute("stroke-opacity"), "0.5");
  EXPECT_EQ(links[2]->attribute("stroke-opacity"), "");
  // Each line ends beside its tokens.
  const Element& label = *of_class(svg, "target-label")[1];
  EXPECT_NEAR(links[1]->number("y2"), label.number("y") - 4.3, 0.02);
  EXPECT_LT(links[1]->number("x2"), label.number("x"));
  test::expect_texts_fit(svg, "alignment");
}

TEST(Alignment, ManyAndLongTokens) {
  Alignment alignment;
  for (int n = 0; n < 300; ++n) alignment.source.push_back(std::string(500, 'W') + std::to_string(n));
  for (int n = 0; n < 3; ++n) alignment.target.push_back("<b>" + std::to_string(n));
  alignment.weights.assign(900, 0.1);
  const Drawing drawing = draw(alignment);
  test::expect_texts_fit(test::read_svg(drawing), "many tokens");
  EXPECT_LT(drawing.height, 1400);
  EXPECT_EQ(test::marks_at_edges(test::read_png(to_png(drawing))), 0u);
}

TEST(Alignment, NoWeightNoLine) {
  Alignment alignment{"", {"a"}, {"b"}, {0}};
  EXPECT_EQ(of_class(test::read_svg(draw(alignment)), "link").size(), 0u);
}

TEST(Alignment, RefusesWhatDoesNotFit) {
  EXPECT_THROW(draw(Alignment{"", {}, {}, {}}), Error);
  EXPECT_THROW(draw(Alignment{"", {"a"}, {"b"}, {1, 2}}), Error);
  EXPECT_THROW(draw(Alignment{"", {"a"}, {"b"}, {-1}}), Error);
  EXPECT_THROW(draw(Alignment{"", {"a"}, {"b"}, {kNan}}), Error);
}

HeadCenters one_head(double row, double col, std::vector<double> covariance = {}) {
  HeadCenters centers;
  centers.layers = centers.heads = 1;
  centers.centers = {row, col};
  centers.covariances = std::move(covariance);
  return centers;
}

TEST(HeadCenters, RowsGoDownAndColumnsRight) {
  const Element svg = test::read_svg(draw(one_head(1, 2)));
  const Element& query = *of_class(svg, "query").at(0);
  const double x = (query.number("x1") + query.number("x2")) / 2, y = query.number("y1");
  const Element& center = *of_class(svg, "center").at(0);
  EXPECT_GT(center.number("cx"), x);
  EXPECT_GT(center.number("cy"), y);
  EXPECT_NEAR(center.number("cx") - x, 2 * (center.number("cy") - y), 0.05);
  EXPECT_EQ(center.tip(), "head 0: 1 rows, 2 columns");
  EXPECT_EQ(of_class(svg, "ellipse-90").size(), 0u);
  test::expect_texts_fit(svg, "one head");
}

TEST(HeadCenters, EllipsesHoldTheSharesOfANormalDistribution) {
  // Twice as far along the columns as along the rows.
  const Element svg = test::read_svg(draw(one_head(0, 0, {1, 0, 0, 4})));
  const Element& most = *of_class(svg, "ellipse-90").at(0);
  const Element& half = *of_class(svg, "ellipse-50").at(0);
  EXPECT_NEAR(most.number("rx"), 2 * most.number("ry"), 0.05);
  EXPECT_EQ(most.attribute("transform"), "");
  EXPECT_NEAR(most.number("rx") / half.number("rx"), std::sqrt(std::log(0.1) / std::log(0.5)), 1e-3);
  // In units of the axis: √(−2 ln 0.1) deviations.
  const auto ticks = of_class(svg, "x-tick");
  const double unit = (ticks[1]->number("x") - ticks[0]->number("x")) /
                      (std::stod(ticks.back()->text) - std::stod(ticks[ticks.size() - 2]->text));
  EXPECT_NEAR(most.number("rx") / unit, 2 * std::sqrt(-2 * std::log(0.1)), 0.02);
}

TEST(HeadCenters, EllipsesAreTurned) {
  // Rows grow with columns: from the upper left to the lower right on the page, which is clockwise.
  const Element svg = test::read_svg(draw(one_head(0, 0, {1, 0.5, 0.5, 1})));
  EXPECT_TRUE(of_class(svg, "ellipse-90").at(0)->attribute("transform").starts_with("rotate(45 "));
}

TEST(HeadCenters, TrajectoriesRunOverTheEpochs) {
  HeadCenters centers;
  centers.title = "Layers <x>";
  centers.epochs = 3;
  centers.layers = 5;
  centers.heads = 9;
  for (int n = 0; n < 3 * 5 * 9 * 2; ++n) centers.centers.push_back(std::sin(n) * 3);
  for (int n = 0; n < 3 * 5 * 9; ++n) centers.covariances.insert(centers.covariances.end(), {0.5, 0.1, 0.1, 0.3});
  const Drawing drawing = draw(centers);
  const Element svg = test::read_svg(drawing);
  EXPECT_EQ(of_class(svg, "trajectory").size(), 45u);
  EXPECT_EQ(of_class(svg, "center").size(), 45u);
  EXPECT_EQ(texts(svg, "panel-title").size(), 5u);
  EXPECT_EQ(texts(svg, "legend-name").size(), 9u);
  test::expect_texts_fit(svg, "layers");
  EXPECT_EQ(test::marks_at_edges(test::read_png(to_png(drawing))), 0u);
}

TEST(HeadCenters, RefusesWhatIsNoCovariance) {
  EXPECT_NO_THROW(draw(one_head(0, 0, {0, 0, 0, 0})));
  EXPECT_THROW(draw(one_head(0, 0, {1, 0.9, 0.1, 1})), Error);  // not symmetric
  EXPECT_THROW(draw(one_head(0, 0, {1, 2, 2, 1})), Error);      // not positive
  EXPECT_THROW(draw(one_head(0, 0, {-1, 0, 0, 1})), Error);
  EXPECT_THROW(draw(one_head(0, 0, {1, 0, 0})), Error);
  EXPECT_THROW(draw(one_head(kNan, 0)), Error);
  EXPECT_THROW(draw(one_head(1e300, 0)), Error);
  EXPECT_THROW(draw(HeadCenters{}), Error);
}

}  // namespace
}  // namespace rapt::pictures
