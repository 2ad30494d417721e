#include "pictures/drawing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "pictures/picture_file.h"
#include "pictures/png.h"
#include "rapt/error.h"
#include "tensor/files.h"
#include "tests/pictures/png_reader.h"
#include "tests/pictures/svg_reader.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::pictures {
namespace {

using test::Element;
using test::of_class;

constexpr Rgb kRed{200, 30, 40};
constexpr Rgb kBlue{20, 60, 180};

Drawing sample() {
  Drawing drawing{.width = 60, .height = 40, .title = "a < b", .description = "shapes"};
  drawing.add(Rect{"box", {5, 5, 10, 10}, {.fill = kRed}, "tip & more"});
  drawing.add(Line{"line", {20, 10}, {30, 10}, {kBlue, 4, {}}});
  drawing.add(Polyline{"triangle", {{35, 5}, {45, 5}, {35, 15}}, {.fill = kBlue}, true});
  drawing.add(Ellipse{"oval", {52, 10}, 6, 2, 90, {.fill = kRed}});
  drawing.add(Cells{"cells", {5, 20, 20, 10}, 1, 2, {kRed, kBlue}});
  Group group("clipped", {.tip = "a group", .clip = Box{30, 20, 5, 10}});
  group.items.push_back({Rect{"wide", {20, 15, 30, 20}, {.fill = kRed}}});
  drawing.add(std::move(group));
  drawing.add(Text{.kind = "word", .at = {5, 38}, .content = "<x>", .size = 6});
  return drawing;
}

TEST(Drawing, SvgStandsAlone) {
  const std::string text = to_svg(sample());
  const Element svg = test::read_svg(text);
  EXPECT_EQ(svg.name, "svg");
  EXPECT_EQ(svg.attribute("xmlns"), "http://www.w3.org/2000/svg");
  EXPECT_EQ(svg.attribute("role"), "img");
  EXPECT_EQ(svg.attribute("viewBox"), "0 0 60 40");
  EXPECT_NE(svg.attribute("font-family").find("sans-serif"), std::string::npos);
  ASSERT_GE(svg.children.size(), 2u);
  EXPECT_EQ(svg.children[0].name, "title");
  EXPECT_EQ(svg.children[0].text, "a < b");
  EXPECT_EQ(svg.children[1].name, "desc");
  EXPECT_EQ(of_class(svg, "box")[0]->tip(), "tip & more");
  EXPECT_EQ(of_class(svg, "word")[0]->name, "text");
  EXPECT_EQ(of_class(svg, "word")[0]->text, "<x>");
  EXPECT_EQ(of_class(svg, "clipped")[0]->tip(), "a group");
  // Ids would clash if a page has several pictures.
  EXPECT_EQ(text.find(" id="), std::string::npos);
  EXPECT_EQ(text.find("url("), std::string::npos);
}

TEST(Drawing, PngIsTheSameDrawing) {
  const test::Pixels pixels = test::read_png(to_png(sample(), Theme::light, 4));
  EXPECT_EQ(pixels.width, 240);
  EXPECT_EQ(pixels.height, 160);
  const auto at = [&](double x, double y) { return pixels.at(4 * x, 4 * y); };
  const Rgb white{255, 255, 255};
  EXPECT_EQ(at(1, 1), white);
  EXPECT_EQ(at(10, 10), kRed);
  EXPECT_EQ(at(25, 10), kBlue);
  EXPECT_EQ(at(25, 13), white);
  EXPECT_EQ(at(37, 7), kBlue);
  EXPECT_EQ(at(44, 14), white);
  EXPECT_EQ(at(52, 14.5), kRed);  // turned: higher than wide
  EXPECT_EQ(at(56, 10), white);
  EXPECT_EQ(at(14.5, 25), kRed);
  EXPECT_EQ(at(15.5, 25), kBlue);  // no smoothing between cells
  EXPECT_EQ(at(32, 25), kRed);
  EXPECT_EQ(at(28, 25), white);  // clipped
  EXPECT_EQ(at(36, 25), white);
}

TEST(Drawing, DarkAndAutomaticThemes) {
  const Element dark = test::read_svg(to_svg(sample(), Theme::dark));
  EXPECT_EQ(test::fills(dark, "page")[0], hex(theme_color(Role::page, true)));
  EXPECT_EQ(test::fills(dark, "box")[0], hex(kRed));
  EXPECT_EQ(to_svg(sample()).find("prefers-color-scheme"), std::string::npos);
  const std::string text = to_svg(sample(), Theme::automatic);
  const Element automatic = test::read_svg(text);
  // Light by default; the media rule changes the colours of roles, by class.
  EXPECT_EQ(test::fills(automatic, "page")[0], "#ffffff");
  EXPECT_TRUE(of_class(automatic, "page")[0]->has_class("fill-page"));
  EXPECT_TRUE(of_class(automatic, "word")[0]->has_class("fill-ink"));
  EXPECT_NE(text.find("@media screen and (prefers-color-scheme: dark)"), std::string::npos);
  EXPECT_NE(text.find(".fill-ink {fill: " + hex(theme_color(Role::ink, true)) + "}"), std::string::npos);
  EXPECT_EQ(test::read_png(to_png(sample(), Theme::dark)).at(1, 1), theme_color(Role::page, true));
}

TEST(Drawing, RolesContrastWithThePage) {
  for (const bool dark : {false, true}) {
    const double page = luminance(theme_color(Role::page, dark));
    for (const auto& [role, least] : {std::pair{Role::ink, 12.0}, {Role::muted, 7.0}, {Role::axis, 3.0}}) {
      const double ink = luminance(theme_color(role, dark));
      EXPECT_GT((std::max(ink, page) + 0.05) / (std::min(ink, page) + 0.05), least) << dark;
    }
  }
}

TEST(Drawing, RefusesNumbersThatAreNone) {
  Drawing drawing{.width = 10, .height = 10, .title = "x"};
  drawing.add(Line{"line", {0, 0}, {std::numeric_limits<double>::quiet_NaN(), 1}, {}});
  EXPECT_THROW(to_svg(drawing), Error);
  drawing.items = {{Polyline{"line", {{0, 0}, {1, std::numeric_limits<double>::infinity()}}, {}}}};
  EXPECT_THROW(to_svg(drawing), Error);
}

TEST(Drawing, RefusesPngsThatAreTooLarge) {
  Drawing drawing{.width = 1e6, .height = 10, .title = "x"};
  EXPECT_THROW(to_png(drawing), Error);
  drawing.width = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(to_png(drawing), Error);
}

TEST(PictureFile, KindFollowsTheName) {
  const test::TemporaryDirectory folder;
  write_picture(sample(), folder / "a.svg");
  write_picture(sample(), folder / "a.png", {Theme::light, 3});
  EXPECT_EQ(read_file(folder / "a.svg"), to_svg(sample()));
  EXPECT_EQ(test::read_png(read_file(folder / "a.png")).width, 180);
  for (const char* name : {"a.jpg", "a", ".svg", "a.SVG", "a.svg.gz", "png"})
    EXPECT_THROW(write_picture(sample(), folder / name), Error) << name;
  EXPECT_THROW(write_picture(sample(), folder / "missing/a.svg"), Error);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / ".")) ++files;
  EXPECT_EQ(files, 2u);
}

}  // namespace
}  // namespace rapt::pictures
