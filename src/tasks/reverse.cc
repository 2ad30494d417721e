#include "tasks/reverse.h"

#include <limits>
#include <string>
#include <unordered_set>
#include <utility>

#include "rapt/error.h"
#include "tasks/generated.h"

namespace rapt::inline v1::tasks {
namespace {

// A length, and how many of its strings are not taken yet.
struct Stock {
  int length;
  std::int64_t left;
};

std::int64_t strings_of(int length) {
  return length < 31 ? std::int64_t{1} << (2 * length) : std::numeric_limits<std::int64_t>::max();
}

std::string random_string(int length, Random& random) {
  std::string text;
  for (int n = 0; n < length; ++n) text += static_cast<char>('a' + random.below(4));
  return text;
}

}  // namespace

TaskData reverse_data(const ReverseOptions& options) {
  const Amount amount{"reverse", options.train, options.valid, options.test, options.min_length, options.max_length};
  check(amount);
  // Ids that neither other tasks nor batches use.
  Random random(options.seed, 0x72657665727365);
  std::vector<Stock> stocks;
  for (int length = options.min_length; length <= options.max_length; ++length)
    stocks.push_back({length, strings_of(length)});
  std::unordered_set<std::string> taken;
  std::vector<Example> examples;
  while (static_cast<std::int64_t>(examples.size()) < amount.total()) {
    if (stocks.empty())
      throw Error("reverse: expected at most " + std::to_string(examples.size()) + ", got " +
                  std::to_string(amount.total()) + " strings of " + std::to_string(options.min_length) + " to " +
                  std::to_string(options.max_length) + " letters");
    const std::size_t choice = static_cast<std::size_t>(random.below(stocks.size()));
    Stock& stock = stocks[choice];
    std::string text = random_string(stock.length, random);
    while (!taken.insert(text).second) text = random_string(stock.length, random);
    if (--stock.left == 0) stocks.erase(stocks.begin() + static_cast<std::ptrdiff_t>(choice));
    Example example;
    example.source = split(text, Units::characters);
    example.target.assign(example.source.rbegin(), example.source.rend());
    examples.push_back(std::move(example));
  }
  return cut(std::move(examples), amount, random);
}

}  // namespace rapt::inline v1::tasks
