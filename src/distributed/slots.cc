#include "distributed/slots.h"

#include <algorithm>
#include <numeric>

namespace rapt::inline v1::distributed {

Slots::Slots(const Problem& whole, bool bias_gradient) : batches_(whole.batch), heads_(whole.heads) {
  if (whole.is_empty()) {
    batch_slots_ = head_slots_ = 0;
    return;
  }
  bool shared_batches = false;
  std::int64_t group = 1;
  const auto add = [&](const Operand& operand) {
    shared_batches = shared_batches || operand.batches != whole.batch;
    group = std::lcm(group, operand.group);
  };
  add(whole.q);
  add(whole.k);
  for (const Operand& v : whole.v) add(v);
  if (bias_gradient) add(whole.bias);
  batch_slots_ = shared_batches ? 1 : whole.batch;
  head_slots_ = whole.heads / group;
}

Slots::Slots(const Problem& whole) : batches_(whole.batch), heads_(whole.heads) {
  if (whole.is_empty()) batch_slots_ = head_slots_ = 0;
}

Slot Slots::at(std::int64_t n) const {
  const std::int64_t b = n / head_slots_, h = n % head_slots_;
  const std::int64_t batches = batches_ / batch_slots_, heads = heads_ / head_slots_;
  return {{b * batches, (b + 1) * batches}, {h * heads, (h + 1) * heads}};
}

}  // namespace rapt::inline v1::distributed
