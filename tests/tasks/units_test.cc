#include "tasks/units.h"

#include <gtest/gtest.h>

#include "rapt/error.h"

namespace rapt::tasks::test {
namespace {

using Tokens = std::vector<std::string>;

std::string error_of(std::string_view text, Units units) {
  try {
    split(text, units);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(UnitsOfText, CharactersAreCodePoints) {
  EXPECT_EQ(split("", Units::characters), Tokens{});
  EXPECT_EQ(split("a b", Units::characters), (Tokens{"a", " ", "b"}));
  EXPECT_EQ(split("aé€😀", Units::characters), (Tokens{"a", "é", "€", "😀"}));
  // A letter and its combining accent are two.
  EXPECT_EQ(split("e\xcc\x81", Units::characters), (Tokens{"e", "\xcc\x81"}));
  // The first and the last of each size.
  for (const char* edge : {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(split(edge, Units::characters), Tokens{edge});
}

TEST(UnitsOfText, WordsLieBetweenWhiteSpace) {
  EXPECT_EQ(split("", Units::words), Tokens{});
  EXPECT_EQ(split(" \t\r\n\v\f ", Units::words), Tokens{});
  EXPECT_EQ(split("  K AE1\tT \n", Units::words), (Tokens{"K", "AE1", "T"}));
  EXPECT_EQ(split("für\v€ x", Units::words), (Tokens{"für", "€", "x"}));
  // A no-break space is not ASCII.
  EXPECT_EQ(split("a\u00a0b", Units::words), Tokens{"a\u00a0b"});
}

TEST(UnitsOfText, SubwordsJoinWhereAWordBegins) {
  EXPECT_EQ(join(Tokens{"▁un", "hap", "py", "▁", "dog", "s"}, Units::subwords), "unhappy dogs");
  EXPECT_EQ(join(Tokens{"a", "▁b"}, Units::subwords), "a b");
  EXPECT_EQ(join(Tokens{"▁", "▁", "▁a", "▁"}, Units::subwords), "a");
  EXPECT_EQ(join(Tokens{}, Units::subwords), "");
  // Before a model has cut them they are words; what stands for a space cannot be one of their characters.
  EXPECT_EQ(split("  un happy ", Units::subwords), (Tokens{"un", "happy"}));
  EXPECT_THROW(split("a▁b", Units::subwords), Error);
  EXPECT_EQ(split("a▁b", Units::words), Tokens{"a▁b"});
}

TEST(UnitsOfText, InvalidBytesAreNamed) {
  const std::vector<std::string> invalid = {"\x80",
                                            "\xbf",
                                            "\xc0\xaf",
                                            "\xc1\xbf",
                                            "\xe0\x9f\xbf",
                                            "\xed\xa0\x80",
                                            "\xed\xbf\xbf",
                                            "\xf0\x8f\xbf\xbf",
                                            "\xf4\x90\x80\x80",
                                            "\xf5\x80\x80\x80",
                                            "\xff",
                                            "\xfe",
                                            "\xc3",
                                            "\xe2\x82",
                                            "\xf0\x9f\x98",
                                            "\xc3(",
                                            "\xe2(\x82",
                                            "\xf0\x9f(\x80"};
  for (const Units units : {Units::characters, Units::words})
    for (const std::string& bytes : invalid) {
      EXPECT_TRUE(error_of("é " + bytes, units).ends_with(" at byte 3")) << testing::PrintToString(bytes);
      EXPECT_TRUE(error_of(bytes + " a", units).ends_with(" at byte 0")) << testing::PrintToString(bytes);
    }
}

// All texts of up to three bytes: split throws or gives back the text.
TEST(UnitsOfText, ShortTextsOfAnyBytes) {
  int valid = 0;
  for (int n = 0; n < 1 << 16; ++n) {
    const std::string text{static_cast<char>(n >> 8), static_cast<char>(n), '\xa1'};
    try {
      const Tokens tokens = split(text, Units::characters);
      EXPECT_EQ(join(tokens, Units::characters), text);
      ++valid;
    } catch (const Error&) {
    }
  }
  // 128·30 of an ASCII byte and two, and 16·64 of three less 32 too long and 32 surrogates.
  EXPECT_EQ(valid, 128 * 30 + 16 * 64 - 32 - 32);
}

TEST(UnitsOfText, FindInvalid) {
  EXPECT_EQ(find_invalid_utf8(""), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("aé€😀"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("aé\x80"), 3U);
}

TEST(UnitsOfText, Join) {
  EXPECT_EQ(join(Tokens{"a", "é"}, Units::characters), "aé");
  EXPECT_EQ(join(Tokens{"a", "é"}, Units::words), "a é");
  EXPECT_EQ(join(Tokens{}, Units::words), "");
}

}  // namespace
}  // namespace rapt::tasks::test
