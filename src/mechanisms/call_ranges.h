#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

namespace rapt::inline v1 {

struct NumberRange {
  double low = 0, high = 0;
  bool is_whole = false;  // all are integers
};

// What a formula may read in one call.
struct CallRanges {
  std::array<std::int64_t, 2> query{}, key{};  // positions, first and last
  std::array<std::int64_t, 2> grid{};
  std::array<std::int64_t, 2> batch{}, head{};  // first and last
  std::int64_t queries = 1, keys = 1;
  bool is_double = false;
  // Of a slot's numbers, and of a table's, which are read one by one; none where they are on a device.
  std::function<std::optional<NumberRange>(int)> value, table;
  std::function<std::array<std::int64_t, 2>(int)> table_size;
};

}  // namespace rapt::inline v1
