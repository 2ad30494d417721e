#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tasks/case.h"
#include "tasks/reverse.h"
#include "tasks/vocabulary.h"

namespace rapt::tasks::test {
namespace {

using Tokens = std::vector<std::string>;

std::vector<Example> all_of(const TaskData& data) {
  std::vector<Example> all = data.train;
  all.insert(all.end(), data.valid.begin(), data.valid.end());
  all.insert(all.end(), data.test.begin(), data.test.end());
  return all;
}

bool equal(const TaskData& a, const TaskData& b) {
  return a.train == b.train && a.valid == b.valid && a.test == b.test;
}

TEST(Reverse, TargetsAreBackwardsAndSourcesDiffer) {
  const ReverseOptions options;
  const TaskData data = reverse_data(options);
  EXPECT_EQ(static_cast<std::int64_t>(data.train.size()), options.train);
  EXPECT_EQ(static_cast<std::int64_t>(data.valid.size()), options.valid);
  EXPECT_EQ(static_cast<std::int64_t>(data.test.size()), options.test);
  std::set<Tokens> seen;
  std::set<std::string> symbols;
  for (const Example& example : all_of(data)) {
    EXPECT_TRUE(seen.insert(example.source).second);
    Tokens turned = example.target;
    std::reverse(turned.begin(), turned.end());
    EXPECT_EQ(turned, example.source);
    symbols.insert(example.source.begin(), example.source.end());
    EXPECT_GE(static_cast<int>(example.source.size()), options.min_length);
    EXPECT_LE(static_cast<int>(example.source.size()), options.max_length);
  }
  EXPECT_EQ(symbols, (std::set<std::string>{"a", "b", "c", "d"}));
}

TEST(Reverse, EveryPartHasEveryLength) {
  const TaskData data = reverse_data({.seed = 5, .train = 8000, .valid = 1000, .test = 1000, .max_length = 8});
  for (const auto* part : {&data.train, &data.valid, &data.test}) {
    std::map<std::size_t, int> lengths;
    for (const Example& example : *part) ++lengths[example.source.size()];
    EXPECT_EQ(lengths.size(), 6U);
  }
}

TEST(Reverse, SeedsDecide) {
  const ReverseOptions options{.seed = 3, .train = 200, .valid = 20, .test = 20, .max_length = 12};
  EXPECT_TRUE(equal(reverse_data(options), reverse_data(options)));
  ReverseOptions other = options;
  other.seed = 4;
  EXPECT_FALSE(equal(reverse_data(options), reverse_data(other)));
  // Pinned: a change makes every recorded run another one.
  EXPECT_EQ(join(reverse_data(options).train[0].source, Units::characters), "aaadccab");
}

TEST(Reverse, AllStringsAndNoMore) {
  const TaskData data = reverse_data({.train = 80, .valid = 3, .test = 1, .min_length = 1, .max_length = 3});
  EXPECT_EQ(all_of(data).size(), 4U + 16 + 64);
  EXPECT_THROW(reverse_data({.train = 80, .valid = 3, .test = 2, .min_length = 1, .max_length = 3}), Error);
}

TEST(Reverse, BadOptions) {
  EXPECT_THROW(reverse_data({.train = -1}), Error);
  EXPECT_THROW(reverse_data({.test = std::int64_t{1} << 62}), Error);
  EXPECT_THROW(reverse_data({.min_length = 0}), Error);
  EXPECT_THROW(reverse_data({.min_length = 5, .max_length = 4}), Error);
  EXPECT_THROW(reverse_data({.max_length = 1 << 30}), Error);
  EXPECT_EQ(reverse_data({.train = 1, .valid = 0, .test = 0, .min_length = 40, .max_length = 40}).train.size(), 1U);
}

std::string in_case(std::string text, bool to_upper) {
  for (char& c : text) c = static_cast<char>(to_upper ? std::toupper(c) : std::tolower(c));
  return text;
}

TEST(Case, TagsDecideTheTarget) {
  const CaseOptions options;
  const TaskData data = case_data(options);
  EXPECT_EQ(static_cast<std::int64_t>(data.train.size()), options.train);
  std::set<std::string> seen;
  std::array<int, 2> tags{};
  int mixed = 0;
  for (const Example& example : all_of(data)) {
    const std::string& tag = example.source[0];
    ASSERT_TRUE(tag == "<U>" || tag == "<L>");
    ++tags[tag == "<U>" ? 1 : 0];
    const std::string text = join(std::span(example.source).subspan(1), Units::characters);
    EXPECT_EQ(example.source.size(), text.size() + 1);
    EXPECT_EQ(join(example.target, Units::characters), in_case(text, tag == "<U>"));
    EXPECT_TRUE(seen.insert(in_case(text, false)).second) << text;
    EXPECT_GE(static_cast<int>(text.size()), options.min_length);
    EXPECT_LE(static_cast<int>(text.size()), options.max_length);
    EXPECT_FALSE(text.starts_with(' ') || text.ends_with(' ') || text.find("  ") != std::string::npos) << text;
    if (in_case(text, false) != text && in_case(text, true) != text) ++mixed;
  }
  EXPECT_NEAR(tags[0], tags[1], 600);
  EXPECT_GT(mixed, 9000);
  // Both cases of every letter, so that no symbol of a held-out sentence is unknown.
  const Vocabulary source = Vocabulary::from_examples(data.train, Side::source);
  EXPECT_EQ(source.size(), kFirstSymbol + 2 + 1 + 52);
}

TEST(Case, LengthsAreSpread) {
  const TaskData data = case_data({.train = 6000, .valid = 0, .test = 0, .min_length = 11, .max_length = 40});
  std::array<int, 3> thirds{};
  for (const Example& example : data.train) ++thirds[(example.target.size() - 11) / 10];
  for (const int count : thirds) EXPECT_GT(count, 1500);
}

TEST(Case, SeedsDecide) {
  const CaseOptions options{.seed = 3, .train = 200, .valid = 20, .test = 20};
  EXPECT_TRUE(equal(case_data(options), case_data(options)));
  CaseOptions other = options;
  other.seed = 4;
  EXPECT_FALSE(equal(case_data(options), case_data(other)));
  EXPECT_EQ(join(case_data(options).train[0].source, Units::characters), "<U>The dog visited the");
}

TEST(Case, OneLengthLongTextsAndTooMany) {
  for (const int length : {12, 100, 500})
    for (const Example& example :
         case_data({.train = 50, .valid = 0, .test = 0, .min_length = length, .max_length = length}).train)
      EXPECT_EQ(static_cast<int>(example.target.size()), length);
  EXPECT_THROW(case_data({.min_length = 1, .max_length = 3}), Error);
  EXPECT_THROW(case_data({.min_length = 0}), Error);
  EXPECT_THROW(case_data({.valid = -5}), Error);
}

TEST(Case, WrittenSources) {
  EXPECT_EQ(split_case_source("<U> I é"), (Tokens{"<U>", "I", " ", "é"}));
  EXPECT_EQ(split_case_source("<L>  <U>"), (Tokens{"<L>", " ", "<", "U", ">"}));
  EXPECT_EQ(split_case_source("<L> "), Tokens{"<L>"});
  for (const char* text : {"", "<U", "<U>", "<U>a", "<X> a", " <U> a", "abc"})
    EXPECT_THROW(split_case_source(text), Error) << text;
  EXPECT_THROW(split_case_source("<U> \xff"), Error);
}

}  // namespace
}  // namespace rapt::tasks::test
