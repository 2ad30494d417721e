#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace rapt::inline v1 {

// How many heads of a wave share one thing (a matrix, a table), and each head's number among them. `owner` gives what
// head n uses, as a number.
struct Sharing {
  std::vector<std::int64_t> place, rank, count;
  std::int64_t places = 0;

  template <class F>
  Sharing(std::size_t heads, const F& owner) {
    place.reserve(heads);
    rank.reserve(heads);
    count.reserve(heads);
    if (follow_each_other(heads, owner)) return;
    std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> seen;  // owner → place, count
    for (std::size_t n = 0; n < heads; ++n) {
      auto [it, fresh] = seen.try_emplace(owner(n), places, 0);
      if (fresh) ++places;
      place.push_back(it->second.first);
      rank.push_back(it->second.second++);
    }
    for (std::size_t n = 0; n < heads; ++n) count.push_back(seen[owner(n)].second);
  }

  // f of every head that shares with this one, itself included, in order.
  template <class F>
  void for_each(std::size_t head, const F& f) const {
    for (std::size_t n = 0; n < place.size(); ++n)
      if (place[n] == place[head]) f(n);
  }
  // Σ f of those before it.
  template <class F>
  std::int64_t before(std::size_t head, const F& f) const {
    std::int64_t sum = 0;
    if (rank[head] > 0) for_each(head, [&](std::size_t n) { sum += n < head ? f(n) : 0; });
    return sum;
  }

 private:
  // Without a map where the owners ascend, as they do but for a thing that batches share: the heads of each are neighbours.
  template <class F>
  bool follow_each_other(std::size_t heads, const F& owner) {
    for (std::size_t n = 1; n < heads; ++n)
      if (owner(n) < owner(n - 1)) return false;
    for (std::size_t n = 0; n < heads;) {
      std::size_t end = n + 1;
      while (end < heads && owner(end) == owner(n)) ++end;
      for (std::size_t m = n; m < end; ++m) {
        place.push_back(places);
        rank.push_back(static_cast<std::int64_t>(m - n));
        count.push_back(static_cast<std::int64_t>(end - n));
      }
      ++places;
      n = end;
    }
    return true;
  }
};

}  // namespace rapt::inline v1
