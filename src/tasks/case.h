#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/pairs.h"

namespace rapt::inline v1::tasks {

struct CaseOptions {
  std::uint64_t seed = 1;
  std::int64_t train = 10000;
  std::int64_t valid = 1000;
  std::int64_t test = 1000;
  // Characters of the sentence, the tag not counted.
  int min_length = 5;
  int max_length = 40;
};

// "<U> I am a student" → "I AM A STUDENT", "<L> …" → lower case: made-up English sentences in mixed case. No two have
// the same words, whatever their tag and case. Throws if there are fewer sentences than asked for.
TaskData case_data(const CaseOptions& options);

// The tokens of a source as text: the tag is one, the space after it is dropped, then the characters. Throws without a
// tag.
std::vector<std::string> split_case_source(std::string_view text);

}  // namespace rapt::inline v1::tasks
