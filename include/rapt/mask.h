#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rapt/view.h"

namespace rapt::inline v1 {

// A query sees the keys up to its own position. top_left: that is AttendOptions::first_query + i.
// bottom_right: the last query is at the last key of its batch, so first_query is L − Sq, L = key length or Sk.
enum class Causal : std::uint8_t { none, top_left, bottom_right };

// A query at position p sees keys from p − left to p + right. Negative: no limit.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
};

// A dense mask of bytes, nonzero = attend. Each of the first three sizes may be 1 to broadcast.
struct BoolView {
  const std::uint8_t* data = nullptr;
  Shape shape{};
  Shape strides{};
  Device device{};

  explicit operator bool() const { return data != nullptr; }
};

// What a query may see: all parts combined by "and"; one left out hides nothing. True = attend.
struct Mask {
  Causal causal = Causal::none;
  std::optional<Window> window{};
  std::vector<std::int64_t> key_lengths{};  // one per batch: keys at and beyond it are hidden

  // Sequences of unequal length packed end to end: sequence s has the queries
  // [query_starts[s], query_starts[s+1]) and sees only its own keys. Causal and window count from its start.
  std::vector<std::int64_t> query_starts{};
  std::vector<std::int64_t> key_starts{};

  BoolView dense{};
};

}  // namespace rapt::inline v1
