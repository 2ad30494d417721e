#pragma once

#include <span>

#include "rapt/api.h"
#include "rapt/view.h"

// Attention over part of the keys, and merging parts. A part is an ordinary call of attend() with first_key among the
// options and row_max and row_sum among the outputs; ring attention, split caches and shared prefixes are merges.
namespace rapt::inline v1 {

// One part's results: out [B,H,Sq,Dv], row_max and row_sum [B,H,Sq,1].
struct Partial {
  ConstView out{};
  ConstView row_max{};
  ConstView row_sum{};
};

// Where the merged result goes; out may be one of the parts. What is left out is not written.
struct Merged {
  View out{};
  View row_max{};
  View row_sum{};
  View lse{};
};

// Merges the parts in order: the same bits for any number of threads. Allocates nothing.
RAPT_API void merge(std::span<const Partial> parts, const Merged& merged, int threads = 0);

// Gradients of one part's out, and of its lse = row_max + log(row_sum), for attend_backward().
struct PartialGradient {
  View out{};  // [B,H,Sq,Dv]
  View lse{};  // [B,H,Sq,1]
};

// From the gradient of the merged out to those of every part. `merged` is what merge() wrote.
RAPT_API void merge_backward(std::span<const Partial> parts, const Partial& merged, const ConstView& grad_out,
                             std::span<const PartialGradient> gradients, int threads = 0);

}  // namespace rapt::inline v1
