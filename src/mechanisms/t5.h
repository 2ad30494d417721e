#pragma once

#include "rapt/hooks.h"

namespace rapt::mechanisms {

// T5's buckets: the first half of the distances exactly, the others on a logarithmic scale up to max_distance.
// Bidirectional: half of the buckets are for keys after the query. Else those of its decoder, all for keys before it.
struct T5 {
  static constexpr std::string_view formula = "q·k/√Dk + table[bucket(j−i)]";
  static constexpr bool scaled = true;
  static constexpr std::array parameters{
      ParameterSpec{.name = "table", .role = Role::relative_value, .heads = Heads::required, .sizes = {kAny}},
  };
  static constexpr std::array settings{SettingSpec{.name = "max_distance", .value = 128, .low = 1, .high = 1e9},
                                       SettingSpec{.name = "bidirectional", .value = 1, .low = 0, .high = 1}};

  std::int64_t index(std::int64_t offset, const TableShape& table) const {
    const bool bidirectional = table.settings[1] != 0;
    const std::int64_t half = bidirectional ? table.rows / 2 : table.rows;
    const std::int64_t first = bidirectional && offset > 0 ? half : 0;
    const std::int64_t distance = offset < 0 ? -offset : (bidirectional ? offset : 0);
    const std::int64_t exact = half / 2;
    if (distance < exact) return first + distance;
    // With fewer than four buckets, or no distance beyond the exact ones, the last bucket takes the rest.
    const double max_distance = table.settings[0];
    std::int64_t bucket = half - 1;
    if (exact > 0 && max_distance > static_cast<double>(exact)) {
      const double place = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                           std::log(max_distance / static_cast<double>(exact));
      bucket = exact + static_cast<std::int64_t>(place * static_cast<double>(half - exact));
    }
    return first + clamp(bucket, 0, half > 0 ? half - 1 : 0);
  }

  template <class N, class P, class At>
  constexpr N score(N raw, const P& p, const At& at) const {
    return raw * at.scale + p[0];
  }
};

}  // namespace rapt::mechanisms
