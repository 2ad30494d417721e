// Figures for papers: PDF files, and sizes in centimetres and points. Of a PDF the page size, the fonts and
// reproducibility are checked.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <regex>

#include "pictures/alignment.h"
#include "pictures/bars.h"
#include "pictures/centers.h"
#include "pictures/curves.h"
#include "pictures/heatmap_grid.h"
#include "pictures/image_sheet.h"
#include "pictures/picture_file.h"
#include "pictures/png.h"
#include "pictures/scaling.h"
#include "tests/pictures/png_reader.h"
#include "tests/pictures/svg_reader.h"

namespace rapt::pictures {
namespace {

using Texts = std::vector<std::string>;

// Width and height of the page in points.
std::pair<double, double> page_of(const std::string& pdf) {
  std::smatch found;
  if (!std::regex_search(pdf, found, std::regex(R"(/MediaBox \[ ?0 0 ([0-9.]+) ([0-9.]+) ?\])"))) return {0, 0};
  return {std::stod(found[1]), std::stod(found[2])};
}

Curves curves() {
  Curves curves;
  curves.x_title = "step";
  for (const char* name : {"dot product", "additive", "without attention"})
    curves.series.push_back({name, {1, 2, 3, 400}, {0.5, 0.25, 0.125, 0.1}});
  return curves;
}

Bars bars() {
  return {"Accuracy", "%", {"dot", "a longer name of a group"}, {{"valid", {99.7, 19.8}}, {"test", {100, -3}}}};
}

HeatMap map_of(std::int64_t rows, std::int64_t cols) {
  HeatMap map;
  map.title = "A map with a title that is longer than a column of a paper";
  map.rows = rows;
  map.cols = cols;
  for (std::int64_t n = 0; n < rows * cols; ++n) map.values.push_back(std::sin(static_cast<double>(n)));
  map.low = -1;
  map.numbers = CellNumbers::never;
  return map;
}

HeatMapGrid grid() {
  HeatMapGrid grid;
  grid.low = -1;
  grid.row_title = "queries";
  grid.col_title = "keys";
  for (int n = 0; n < 6; ++n) grid.maps.push_back(map_of(9, 9));
  return grid;
}

HeadCenters centers() {
  HeadCenters centers;
  centers.layers = 4;
  centers.heads = 9;
  for (int n = 0; n < 72; ++n) centers.centers.push_back(std::cos(static_cast<double>(n)) * 3);
  return centers;
}

Alignment alignment() { return {"", {"the", "cat", "sat"}, {"le", "chat"}, {0.5, 0.25, 0.25, 0, 1, 0}}; }

ImageSheet sheet() {
  ImageSheet sheet;
  sheet.columns = {"picture", "segmentation", "depth"};
  sheet.rows = {"scene 0", "predicted"};
  for (int n = 0; n < 6; ++n) sheet.tiles.push_back({1, 1, {{200, 30, 40}}});
  sheet.legend = {{"sky", {}, LegendMark::box}, {"ground", {}, LegendMark::box}};
  return sheet;
}

template <class Picture>
Drawing drawn(Picture picture, double width) {
  picture.width = width;
  return draw(picture);
}

// Every kind at the widths of a column and of a page: exactly as wide, with no label overlapping or cut.
TEST(Figure, EveryKindFillsTheWidth) {
  const std::vector<std::pair<std::string, std::function<Drawing(double)>>> kinds{
      {"curves", [](double w) { return drawn(curves(), w); }},
      {"bars", [](double w) { return drawn(bars(), w); }},
      {"heat map", [](double w) { return drawn(map_of(6, 8), w); }},
      {"wide map", [](double w) { return drawn(map_of(2, 300), w); }},
      {"grid", [](double w) { return drawn(grid(), w); }},
      {"centres", [](double w) { return drawn(centers(), w); }},
      {"alignment", [](double w) { return drawn(alignment(), w); }},
      {"sheet", [](double w) { return drawn(sheet(), w); }},
      {"scaling", [](double w) {
         Scaling scaling{"Time", "length", "seconds", {{"fused", {256, 512, 1024}, {1, 4, 16}}}, {}};
         return drawn(scaling, w);
       }}};
  for (const auto& [name, draw_so_wide] : kinds)
    for (const double width : {321.26, 400.0, 642.5, 1000.0}) {
      const Drawing drawing = draw_so_wide(width);
      EXPECT_NEAR(drawing.width, width, 1e-9) << name;
      test::expect_texts_fit(test::read_svg(drawing), name + " at " + std::to_string(width));
      EXPECT_EQ(test::marks_at_edges(test::read_png(to_png(drawing, Theme::light, 1))), 0u) << name << " " << width;
    }
}

TEST(Figure, ALegendMovesBelowANarrowPlot) {
  const auto place = [](double width) {
    const test::Element svg = test::read_svg(drawn(curves(), width));
    return std::pair{test::of_class(svg, "legend-name")[0]->number("y"),
                     test::of_class(svg, "x-title")[0]->number("y")};
  };
  EXPECT_GT(place(321).first, place(321).second);
  EXPECT_LT(place(900).first, place(900).second);
}

// A drawing that cannot be that narrow is wider, and the caller refuses it.
TEST(Figure, LabelsDoNotShrink) {
  EXPECT_GT(drawn(curves(), 60).width, 100);
  HeatMap map = map_of(12, 12);
  map.numbers = CellNumbers::always;
  EXPECT_GT(drawn(map, 200).width, 210);
}

TEST(Figure, PdfIsOnePageOfTheSize) {
  const Drawing drawing = drawn(curves(), 321.26);
  const std::string pdf = encode_picture(drawing, PictureFormat::pdf, {.unit = 1});
  EXPECT_EQ(pdf.substr(0, 5), "%PDF-");
  EXPECT_NEAR(page_of(pdf).first, 8.5 / 2.54 * 72, 0.01);
  EXPECT_NEAR(page_of(pdf).second, drawing.height * 0.75, 0.01);
  // Text stays text, in fonts that the file carries.
  EXPECT_NE(pdf.find("/Type /Font"), std::string::npos);
  EXPECT_NE(pdf.find("/FontFile"), std::string::npos);
  const std::string twice = encode_picture(drawing, PictureFormat::pdf, {.unit = 2});
  EXPECT_NEAR(page_of(twice).first, 2 * page_of(pdf).first, 0.01);
  // No date and no chance: the same picture gives the same file.
  EXPECT_EQ(pdf.find("CreationDate"), std::string::npos);
  EXPECT_EQ(pdf, encode_picture(drawing, PictureFormat::pdf, {.unit = 1}));
}

TEST(Figure, SvgAndPngSayTheirSize) {
  const Drawing drawing = drawn(curves(), 321.26);
  const test::Element svg = test::read_svg(encode_picture(drawing, PictureFormat::svg, {.unit = 1.5}));
  EXPECT_NEAR(std::stod(svg.attribute("width")), 1.5 * 85, 0.01);
  EXPECT_TRUE(svg.attribute("width").ends_with("mm"));
  EXPECT_EQ(svg.attribute("viewBox").substr(0, 10), "0 0 321.26");
  const std::string png = encode_picture(drawing, PictureFormat::png, {.scale = 3.125, .unit = 1});
  EXPECT_EQ(test::read_png(png).width, std::ceil(321.26 * 3.125));
  // 300 dots to the inch are 11811 to the metre.
  const std::size_t at = png.find("pHYs");
  ASSERT_NE(at, std::string::npos);
  std::uint32_t per_meter = 0;
  for (std::size_t n = 0; n < 4; ++n) per_meter = per_meter << 8 | static_cast<unsigned char>(png[at + 4 + n]);
  EXPECT_EQ(per_meter, 11811u);
}

TEST(Figure, CellsOfAPdfReachUnderTheirNeighbours) {
  const Drawing drawing = draw(map_of(3, 3));
  const test::Element seamless = test::read_svg(to_svg(drawing, SvgOptions{.seamless = true}));
  const test::Element plain = test::read_svg(drawing);
  EXPECT_EQ(test::of_class(seamless, "cell")[0]->attribute("stroke"),
            test::of_class(seamless, "cell")[0]->attribute("fill"));
  EXPECT_EQ(test::of_class(plain, "cell")[0]->attributes.count("stroke"), 0u);
}

}  // namespace
}  // namespace rapt::pictures
