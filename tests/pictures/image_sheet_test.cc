#include "pictures/image_sheet.h"

#include <gtest/gtest.h>

#include "pictures/picture_file.h"
#include "tests/pictures/png_reader.h"
#include "tests/pictures/svg_reader.h"

namespace rapt::pictures {
namespace {

using test::of_class;
using test::read_svg;
using test::texts;

constexpr Rgb kRed{200, 0, 0};
constexpr Rgb kBlue{0, 0, 200};

ImageSheet sheet() {
  ImageSheet s;
  s.title = "Two & three";
  s.columns = {"in", "<out>", "a longer title"};
  s.rows = {"first", "second"};
  s.tiles = {{1, 2, {kRed, kBlue}}, {1, 1, {kBlue}}, {}, {2, 1, {kBlue, kRed}}, {1, 1, {kRed}}, {1, 1, {kRed}}};
  s.legend = {{"red things", {kRed}, LegendMark::box}};
  return s;
}

TEST(ImageSheet, TilesStandInTheirPlaces) {
  const test::Element root = read_svg(draw(sheet()));
  EXPECT_EQ(texts(root, "column"), (std::vector<std::string>{"in", "<out>", "a longer title"}));
  EXPECT_EQ(texts(root, "row"), (std::vector<std::string>{"first", "second"}));
  const auto tiles = of_class(root, "tile");
  ASSERT_EQ(tiles.size(), 5U);
  EXPECT_EQ(tiles[0]->number("x"), tiles[2]->number("x"));
  EXPECT_EQ(tiles[1]->number("x"), tiles[3]->number("x"));
  EXPECT_EQ(tiles[0]->number("y"), tiles[1]->number("y"));
  EXPECT_GT(tiles[2]->number("y"), tiles[0]->number("y") + tiles[0]->number("height"));
  EXPECT_GT(tiles[4]->number("x"), tiles[3]->number("x") + tiles[3]->number("width"));
  test::expect_texts_fit(root, "sheet");
}

TEST(ImageSheet, PixelsKeepTheirColors) {
  const Drawing drawing = draw(sheet());
  const test::Pixels image = test::read_png(encode_picture(drawing, PictureFormat::png, {.scale = 1}));
  const test::Element root = read_svg(drawing);
  const auto* first = of_class(root, "tile")[0];
  const auto at = [&](double across) {
    return image.at(first->number("x") + across * first->number("width"),
                    first->number("y") + first->number("height") / 2);
  };
  EXPECT_EQ(at(0.25), kRed);
  EXPECT_EQ(at(0.75), kBlue);
}

TEST(ImageSheet, TerminalShowsEveryTile) {
  const std::string rich = terminal_view(sheet(), {.columns = 80, .lines = 24, .rich = true});
  EXPECT_NE(rich.find("38;2;200;0;0"), std::string::npos);
  EXPECT_NE(rich.find("48;2;0;0;200"), std::string::npos);
  for (const char* word : {"first", "second", "in"}) EXPECT_NE(rich.find(word), std::string::npos);
  const std::string plain = terminal_view(sheet(), {.columns = 20, .lines = 10, .rich = false});
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace rapt::pictures
