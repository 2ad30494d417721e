#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace rapt::inline v1 {

// Among the heads of a wave: how many share one thing (a matrix, a table), and which of them each is. `owner` gives what
// head n uses, as a number.
struct Sharing {
  std::vector<std::int64_t> place, rank, count;
  std::int64_t places = 0;

  template <class F>
  Sharing(std::size_t heads, const F& owner) {
    std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> seen;  // owner → place, count
    for (std::size_t n = 0; n < heads; ++n) {
      auto [it, fresh] = seen.try_emplace(owner(n), places, 0);
      if (fresh) ++places;
      place.push_back(it->second.first);
      rank.push_back(it->second.second++);
    }
    for (std::size_t n = 0; n < heads; ++n) count.push_back(seen[owner(n)].second);
  }
};

}  // namespace rapt::inline v1
