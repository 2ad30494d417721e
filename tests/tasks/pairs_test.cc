#include "tasks/pairs.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tensor/files.h"
#include "tensor/random.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::tasks::test {
namespace {

using Tokens = std::vector<std::string>;

PairFile parse(std::string_view text, std::int64_t max_length = 10) {
  return parse_pairs(text, "x.tsv", Units::characters, Units::words, max_length);
}

std::string error_of(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Pairs, SourceTabTarget) {
  const PairFile file = parse("cat\tK AE T\nä b\t\n\n'\tX");
  const std::vector<Example> expected = {{{"c", "a", "t"}, {"K", "AE", "T"}}, {{"ä", " ", "b"}, {}}, {{"'"}, {"X"}}};
  EXPECT_EQ(file.examples, expected);
  EXPECT_EQ(file.empty_lines, 1);
}

TEST(Pairs, ByteOrderMarkAndBothLineEnds) {
  const PairFile file = parse(
      "\xef\xbb\xbf"
      "a\tX Y\r\n\r\nb\tZ\r\n");
  const std::vector<Example> expected = {{{"a"}, {"X", "Y"}}, {{"b"}, {"Z"}}};
  EXPECT_EQ(file.examples, expected);
  EXPECT_EQ(file.empty_lines, 1);
  // Only at the start, and only one carriage return, is it no text.
  EXPECT_EQ(parse("a\tX\n\xef\xbb\xbf"
                  "b\tY")
                .examples[1]
                .source,
            (Tokens{"\xef\xbb\xbf", "b"}));
  EXPECT_EQ(parse_pairs("a\tb\r\r\n", "x", Units::characters, Units::characters, 9).examples[0].target,
            (Tokens{"b", "\r"}));
}

TEST(Pairs, LongLinesAreSkippedAndCounted) {
  const auto skip = [](std::string_view text) {
    return parse_pairs(text, "x.tsv", Units::characters, Units::words, 3, true);
  };
  const PairFile file = skip("abc\tX\nabcd\tX\n\nc\t1 2 3 4\nd\tY\n");
  EXPECT_EQ(file.examples, (std::vector<Example>{{{"a", "b", "c"}, {"X"}}, {{"d"}, {"Y"}}}));
  EXPECT_EQ(file.lines, (std::vector<std::int64_t>{1, 5}));
  EXPECT_EQ(file.long_lines, 2);
  EXPECT_EQ(file.empty_lines, 1);
  // Other mistakes stay mistakes, and a file of long lines alone has nothing to learn from.
  EXPECT_THROW(skip("abcd\tX\nno tab\n"), Error);
  EXPECT_THROW(skip("abcd\tX\n"), Error);
  // How many subwords a text has is not known here.
  EXPECT_EQ(parse_pairs("a b c d\tx y", "x", Units::subwords, Units::subwords, 1).examples.size(), 1U);
}

TEST(Pairs, ErrorsNameFileAndLine) {
  EXPECT_EQ(error_of("a\tX\nb X\n"), "x.tsv:2: expected source TAB target, got no tab");
  EXPECT_EQ(error_of("\n\na\tX\tY\tZ"), "x.tsv:3: expected source TAB target, got 3 tabs");
  EXPECT_EQ(error_of("a\tX\n\tY\n"), "x.tsv:2: expected a source before the tab, got none");
  EXPECT_EQ(error_of("abcdefghijk\tX"), "x.tsv:1: expected a source of at most 10 characters (--longest), got 11");
  EXPECT_EQ(error_of("a\t1 2 3 4 5 6 7 8 9 10 11"),
            "x.tsv:1: expected a target of at most 10 words (--longest), got 11");
  EXPECT_EQ(error_of(std::string_view("a\tX\nb\tY\0\n", 9)),
            "x.tsv:2: expected text, got a NUL byte at byte 3 of the line");
  EXPECT_EQ(error_of("a\tX\xff\n"), "x.tsv:1: expected UTF-8, got an invalid byte at byte 3 of the line");
  EXPECT_EQ(error_of("ab\xc3\tX\n"), "x.tsv:1: expected UTF-8, got an invalid byte at byte 2 of the line");
  for (const char* text : {"", "\n", "\r\n\n", "\xef\xbb\xbf"})
    EXPECT_NE(error_of(text).find("x.tsv:1: expected lines of source TAB target"), std::string::npos) << text;
  EXPECT_THROW(parse_pairs(" \tX", "x", Units::words, Units::words, 10), Error);
  EXPECT_THROW(parse("a\tX", 0), Error);
  EXPECT_EQ(parse("abcdefghij\tX").examples[0].source.size(), 10U);
}

TEST(Pairs, Files) {
  const rapt::test::TemporaryDirectory directory;
  const std::string path = directory / "pairs.tsv";
  write_file(path, "a b\tc\nd");
  EXPECT_THROW(
      {
        try {
          read_pairs(path, Units::words, Units::characters, 5);
        } catch (const Error& error) {
          EXPECT_EQ(error.what(), path + ":2: expected source TAB target, got no tab");
          throw;
        }
      },
      Error);
  write_file(path, "a b\tc\n");
  EXPECT_EQ(read_pairs(path, Units::words, Units::characters, 5).examples[0].source, (Tokens{"a", "b"}));
  EXPECT_THROW(read_pairs(directory / "none", Units::words, Units::words, 5), Error);
  EXPECT_THROW(read_pairs(directory.path(), Units::words, Units::words, 5), Error);
}

// Troublesome bytes in any order: an error that names the file, or examples that keep the rules.
TEST(Pairs, HostileBytes) {
  const std::string bytes("a\t\t\n\n\r \0\xc3\xa9\xe2\xff", 13);
  Random random(4);
  int good = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string text;
    for (std::uint64_t n = random.below(9); n > 0; --n) text += bytes[random.below(bytes.size())];
    try {
      const PairFile file = parse(text, 4);
      ++good;
      ASSERT_FALSE(file.examples.empty());
      for (const Example& example : file.examples) {
        ASSERT_FALSE(example.source.empty());
        ASSERT_LE(example.source.size(), 4U);
        ASSERT_LE(example.target.size(), 4U);
      }
    } catch (const Error& error) {
      ASSERT_TRUE(std::string_view(error.what()).starts_with("x.tsv:")) << error.what();
    }
  }
  EXPECT_GT(good, 1000);
}

// Computed independently.
TEST(Pairs, TheHashIsFixed) {
  EXPECT_EQ(stable_hash(""), 0xefd01f60ba992926);
  EXPECT_EQ(stable_hash("a"), 0x82a2a958a9bece5b);
  EXPECT_EQ(stable_hash("attention"), 0x0a7c0072607469bbU);
  EXPECT_EQ(stable_hash("ä"), 0xd496e8b7a31c2b2e);
}

TEST(Pairs, SplitKeepsASourceTogether) {
  std::vector<Example> examples;
  for (int n = 0; n < 20000; ++n) {
    const Tokens source = split(std::to_string(n % 10000), Units::characters);
    examples.push_back({source, {std::to_string(n)}});
  }
  const TaskData data = split_by_hash(examples, 0.05, 0.1);
  EXPECT_EQ(data.train.size() + data.valid.size() + data.test.size(), examples.size());
  EXPECT_NEAR(data.valid.size(), 1000, 200);
  EXPECT_NEAR(data.test.size(), 2000, 300);
  std::set<Tokens> seen;
  for (const auto* part : {&data.train, &data.valid, &data.test}) {
    std::set<Tokens> here;
    for (const Example& example : *part) here.insert(example.source);
    EXPECT_EQ(part->size(), 2 * here.size());
    for (const Tokens& source : here) EXPECT_TRUE(seen.insert(source).second);
  }
  // Where scripts/cmudict puts these three.
  const std::vector<Example> words = {{split("'bout", Units::characters), {}},
                                      {split("'cause", Units::characters), {}},
                                      {split("'kay", Units::characters), {}}};
  const TaskData parts = split_by_hash(words, 0.05, 0.05);
  EXPECT_EQ(parts.test, (std::vector<Example>{words[0]}));
  EXPECT_EQ(parts.train, (std::vector<Example>{words[1]}));
  EXPECT_EQ(parts.valid, (std::vector<Example>{words[2]}));
}

TEST(Pairs, SplitFractions) {
  const std::vector<Example> one = {{{"a"}, {"b"}}};
  EXPECT_EQ(split_by_hash(one, 0, 0).train, one);
  for (const auto& [valid, test] : std::vector<std::pair<double, double>>{
           {-0.1, 0.1}, {0.1, -0.1}, {0.5, 0.5}, {std::nan(""), 0}, {0, std::nan("")}})
    EXPECT_THROW(split_by_hash(one, valid, test), Error);
}

TEST(Pairs, GroupBySource) {
  const std::vector<Example> examples = {{{"a"}, {"X"}}, {{"b"}, {"Y"}},   {{"a"}, {"Z"}},
                                         {{"a"}, {"X"}}, {{"a", "b"}, {}}, {{"ab"}, {"W"}}};
  const std::vector<References> groups = group_by_source(examples);
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0].source, Tokens{"a"});
  EXPECT_EQ(groups[0].targets, (std::vector<Tokens>{{"X"}, {"Z"}}));
  EXPECT_EQ(groups[2].targets, (std::vector<Tokens>{{}}));
  EXPECT_EQ(groups[3].targets, (std::vector<Tokens>{{"W"}}));
}

}  // namespace
}  // namespace rapt::tasks::test
