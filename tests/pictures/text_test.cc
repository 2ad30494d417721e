#include "pictures/text.h"

#include <gtest/gtest.h>

#include "pictures/terminal.h"

namespace rapt::pictures {
namespace {

TEST(Text, XmlHoldsNoMarksAndNoControls) {
  EXPECT_EQ(xml_text("<a href='x'>\"&"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
  EXPECT_EQ(xml_text(std::string("a\0b\x1f\n", 5)), "a\uFFFDb\uFFFD\uFFFD");
  EXPECT_EQ(xml_text("\xff\xc3"), "\uFFFD\uFFFD");                      // no character
  EXPECT_EQ(xml_text("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");            // half of a surrogate pair
  EXPECT_EQ(xml_text("\xe0\x80\xaf"), "\uFFFD\uFFFD\uFFFD");            // a longer form than needed
  EXPECT_EQ(xml_text("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  EXPECT_EQ(xml_text("\xef\xbf\xbf"), "\uFFFD");                        // U+FFFF, which XML excludes
  EXPECT_EQ(xml_text("größe 世界 😀"), "größe 世界 😀");
}

TEST(Text, Utf8) {
  EXPECT_TRUE(is_utf8("größe 世界 😀"));
  EXPECT_TRUE(is_utf8(""));
  EXPECT_FALSE(is_utf8("a\xff"));
  EXPECT_FALSE(is_utf8("\xe4\xb8"));
}

TEST(Text, SpacesOfTokensAreSeen) {
  EXPECT_EQ(visible(" the cat "), "␣the cat␣");
  EXPECT_EQ(visible("\n"), "↵");
  EXPECT_EQ(visible("a\tb"), "a⇥b");
  EXPECT_EQ(visible("  "), "␣␣");
  EXPECT_EQ(visible("\x1b[2J"), "\uFFFD[2J");
  EXPECT_EQ(visible("\u202Eabc\u2066"), "abc");
}

TEST(Text, ClipsBetweenCharacters) {
  EXPECT_EQ(clipped("short", 12, 100), "short");
  const std::string cut = clipped("öööööööööööööööööööööööö", 12, 60);
  EXPECT_TRUE(is_utf8(cut));
  EXPECT_TRUE(cut.ends_with("…"));
  EXPECT_LE(text_width(cut, 12), 60);
  EXPECT_GT(text_width(cut, 12), 45);
}

TEST(Text, ClipsManyMarksOverOneLetter) {
  std::string tower = "a";
  for (int n = 0; n < 5000; ++n) tower += "\u0301";
  EXPECT_LT(clipped(tower, 12, 100).size(), 200u);
}

TEST(Text, WrapsAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 12, 1000, 2), (std::vector<std::string>{"one two three"}));
  const auto lines = wrapped("one two three four five six seven eight", 12, 90, 2);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "one two three");
  EXPECT_TRUE(lines[1].ends_with("…"));
  EXPECT_EQ(wrapped("", 12, 90, 2).size(), 0u);
  EXPECT_EQ(wrapped(std::string(5000, 'x'), 12, 90, 2).size(), 1u);
}

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(-3), "−3");
  EXPECT_EQ(short_number(0.46536883), "0.47");
  EXPECT_EQ(short_number(0.03463), "0.035");
  EXPECT_EQ(short_number(5e-5), "5e-5");
  EXPECT_EQ(short_number(1.25e10), "1.2e10");
  EXPECT_EQ(short_number(4.2e-120), "4.2e-120");
  EXPECT_EQ(short_number(12.3), "12");
  EXPECT_EQ(number(2.50, 2), "2.5");
  EXPECT_EQ(number(-0.001, 2), "0");
  EXPECT_EQ(number(100, 0), "100");
}

TEST(Text, ColumnsOfATerminal) {
  EXPECT_EQ(terminal_columns("abc"), 3u);
  EXPECT_EQ(terminal_columns("世界"), 4u);
  EXPECT_EQ(terminal_columns("e\u0301"), 1u);
  EXPECT_EQ(in_columns("abcdef", 4, true), "abc…");
  EXPECT_EQ(in_columns("世界世", 4, true), "世… ");
  EXPECT_EQ(in_columns("ab", 4, true, true), "  ab");
  EXPECT_EQ(in_columns("−öx", 4, false), "-?x ");
  EXPECT_EQ(in_columns("ab", 0, true), "");
}

}  // namespace
}  // namespace rapt::pictures
