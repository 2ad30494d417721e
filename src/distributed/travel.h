#pragma once

#include <array>
#include <vector>

#include "distributed/schedule.h"
#include "distributed/site.h"
#include "distributed/work.h"

namespace rapt::inline v1::distributed {

// Keys and values travelling from process to process in steps: the transfers of a step and the work of the step before
// use different memory.
class Travel {
 public:
  Travel(const Call& call, const Schedule& schedule, Site& site);

  // What this process adds to a step, before its work.
  void prepare(std::int64_t step);
  // Early and late piece of the step's unit.
  std::array<KeyPieces, 2> at(std::int64_t unit) const;
  // The next step's units.
  void exchange(std::int64_t step);

 private:
  void* memory_of(std::int64_t unit) const { return units_[static_cast<std::size_t>(unit % 2)]; }
  std::array<std::vector<View>, 2> views(std::int64_t unit, void* memory, std::size_t* bytes = nullptr) const;
  void pack(std::int64_t unit, void* memory) const;
  std::size_t bytes_of(std::int64_t unit) const;

  const Call& call_;
  const Schedule& schedule_;
  Site& site_;
  std::vector<ConstView> arrays_;  // k, then each v: this process's rows
  std::vector<QueryPiece> own_;    // pieces of them
  std::array<void*, 2> units_{};
  void* home_ = nullptr;  // for process 0
};

// Exchanges the messages that have bytes.
void exchange_some(const Call& call, Site& site, std::vector<Message> messages);

// [batches, heads, rows, dim] without gaps.
View contiguous(void* data, Dtype dtype, const Shape& shape, const Device& device);
// Bytes up to where the next array may start.
inline std::size_t padded_bytes(const Shape& shape, Dtype dtype) {
  return (static_cast<std::size_t>(element_count(shape)) * size_of(dtype) + 63) / 64 * 64;
}

// Numbers a row of the outputs that `saved` keeps in f32, since δ is not to be taken of rounded ones; 0: not kept.
template <class V>
std::vector<std::int64_t> wide_dims(const Call& call, const std::vector<V>& out) {
  std::vector<std::int64_t> dims;
  for (const V& view : out) dims.push_back(call.is_softmax && size_of(view.dtype) == 2 ? view.shape[3] : 0);
  return dims;
}

// Whether cells may run on the tensor cores of a device: their outputs and gradients then have 16 bits.
bool has_fast_cells(const Call& call, const Site& site);

}  // namespace rapt::inline v1::distributed
