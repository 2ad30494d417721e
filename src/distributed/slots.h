#pragma once

#include "attend/problem.h"
#include "distributed/cut.h"

namespace rapt::inline v1::distributed {

// Batches and heads that share no array with others: what is computed for one slot depends on no other slot.
struct Slot {
  Span batches, heads;
};

// By the shapes alone. With a gradient of the bias, what shares a bias is in one slot.
class Slots {
 public:
  Slots(const Problem& whole, bool bias_gradient);
  // Everything in one slot.
  explicit Slots(const Problem& whole);

  std::int64_t count() const { return batch_slots_ * head_slots_; }
  Slot at(std::int64_t n) const;

 private:
  std::int64_t batch_slots_ = 1, head_slots_ = 1, batches_ = 1, heads_ = 1;
};

// Part of an array along one dimension.
template <class V>
V part_of(V view, int axis, std::int64_t first, std::int64_t count) {
  const auto n = static_cast<std::size_t>(axis);
  using Byte = std::conditional_t<std::is_same_v<V, View>, char, const char>;
  if (view.data)
    view.data =
        static_cast<Byte*>(view.data) + first * view.strides[n] * static_cast<std::int64_t>(size_of(view.dtype));
  view.shape[n] = count;
  return view;
}

// The batches and heads of a slot; what is broadcast stays so. `heads` are those of the call.
template <class V>
V slot_of(V view, const Slot& slot, std::int64_t heads) {
  if (!view.data) return view;
  if (view.shape[0] != 1) view = part_of(view, 0, slot.batches.begin, slot.batches.count());
  const std::int64_t group = view.shape[1] == 0 ? 1 : heads / view.shape[1];
  return part_of(view, 1, slot.heads.begin / group, std::max<std::int64_t>(1, slot.heads.count() / group));
}

// A parameter's numbers of the slot's heads: it has them all, or one set for all.
template <class V>
V parameter_of(V view, const ParameterSpec& spec, const Slot& slot) {
  const int axis = 3 - spec.rank();
  if (spec.heads == Heads::shared || view.shape[static_cast<std::size_t>(axis)] == 1) return view;
  return part_of(view, axis, slot.heads.begin, slot.heads.count());
}

}  // namespace rapt::inline v1::distributed
