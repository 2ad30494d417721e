#include "tasks/subwords.h"

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tasks/sequence_run.h"

namespace rapt::tasks::test {
namespace {

// This program links no subword library, like programs that use rapt::train alone.
TEST(SubwordLibraries, WithoutOneSubwordsAreRefused) {
  try {
    learn_subwords(std::vector<std::string>{"some text"}, {}, "source");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected a program that is built with SentencePiece"), std::string::npos)
        << error.what();
  }
  // Joining subwords needs none.
  DataConfig data;
  data.target_units = Units::subwords;
  EXPECT_EQ(data.join_target(std::vector<std::string>{"▁some", "▁te", "xt"}), "some text");
}

}  // namespace
}  // namespace rapt::tasks::test
