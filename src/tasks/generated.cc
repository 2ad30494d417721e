#include "tasks/generated.h"

#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "rapt/error.h"

namespace rapt::inline v1::tasks {

void check(const Amount& amount) {
  constexpr std::int64_t kMostExamples = 100'000'000;
  constexpr std::int64_t kLongest = 10'000;
  for (const std::int64_t count : {amount.train, amount.valid, amount.test})
    if (count < 0 || count > kMostExamples)
      throw Error(std::string(amount.task) + ": expected a count from 0 to " + std::to_string(kMostExamples) +
                  ", got " + std::to_string(count));
  if (amount.min_length > amount.max_length)
    throw Error("setting min_length: expected at most --max-length, " + std::to_string(amount.max_length) + ", got " +
                std::to_string(amount.min_length));
  if (amount.min_length < 1 || amount.max_length > kLongest)
    throw Error(std::string(amount.task) + ": expected lengths within 1 to " + std::to_string(kLongest) + ", got " +
                std::to_string(amount.min_length) + " to " + std::to_string(amount.max_length));
}

TaskData cut(std::vector<Example> examples, const Amount& amount, Random& random) {
  random.shuffle(std::span(examples));
  TaskData data;
  auto from = std::make_move_iterator(examples.begin());
  const auto take = [&](std::int64_t count) {
    std::vector<Example> part(from, from + count);
    from += count;
    return part;
  };
  data.train = take(amount.train);
  data.valid = take(amount.valid);
  data.test = take(amount.test);
  return data;
}

}  // namespace rapt::inline v1::tasks
