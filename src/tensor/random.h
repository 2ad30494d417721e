#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace rapt::inline v1 {

// Counter-based random numbers: number n is a fixed function of the ids and n, with the same bits on every platform.
// Streams with different ids (say seed, epoch, purpose) are independent; set_position continues anywhere.
class Random {
 public:
  template <std::integral... Ids>
    requires(sizeof...(Ids) > 0)
  explicit Random(Ids... ids) {
    const std::array<std::uint64_t, sizeof...(Ids)> words{static_cast<std::uint64_t>(ids)...};
    set_key(words);
  }

  std::uint64_t next_u64();

  // In [0, 1), a multiple of 2⁻⁵³.
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }

  // Normal, mean 0, variance 1. Consumes two numbers of the stream.
  double normal();

  // Uniform over 0 … n − 1. Throws for n = 0.
  std::uint64_t below(std::uint64_t n);

  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t n = items.size(); n > 1; --n) {
      using std::swap;
      swap(items[n - 1], items[static_cast<std::size_t>(below(n))]);
    }
  }

  // How many numbers were consumed, and where to continue.
  std::uint64_t position() const { return position_; }
  void set_position(std::uint64_t position) { position_ = position; }

 private:
  void set_key(std::span<const std::uint64_t> ids);

  std::uint64_t start_ = 0;
  std::uint64_t twist_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace rapt::inline v1
