#include "tensor/tape.h"

#include <algorithm>
#include <cstring>

#include "backends/host/poison.h"

namespace rapt::inline v1 {
namespace {

constexpr std::size_t kFirstChunk = std::size_t{1} << 18;

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Arena64::Chunk Arena64::make_chunk(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64}));
  forbid_memory(data, bytes);
  return {std::unique_ptr<std::byte[], Free>(data), bytes};
}

void* Arena64::take(std::size_t bytes) {
  const std::size_t asked = bytes;
  bytes = rounded(std::max<std::size_t>(bytes, 1)) + kBetweenPieces;
  while (current_ < chunks_.size() && used_ + bytes > chunks_[current_].size) ++current_, used_ = 0;
  if (current_ == chunks_.size()) {
    const std::size_t last = chunks_.empty() ? kFirstChunk : chunks_.back().size * 2;
    chunks_.push_back(make_chunk(std::max(last, bytes)));
  }
  void* place = chunks_[current_].data.get() + used_;
  used_ += bytes;
  allow_memory(place, asked);
  return place;
}

void Arena64::forbid_rest() const {
  for (std::size_t c = current_; c < chunks_.size(); ++c) {
    const std::size_t from = c == current_ ? used_ : 0;
    forbid_memory(chunks_[c].data.get() + from, chunks_[c].size - from);
  }
}

void Arena64::rewind(const Mark& mark) {
  current_ = mark.chunk, used_ = mark.used;
  forbid_rest();
}

void* Arena64::keep_only(const Mark& mark, const void* data, std::size_t bytes) {
  current_ = mark.chunk, used_ = mark.used;
  auto* place = static_cast<std::byte*>(take(bytes));
  // The ranges may overlap.
  std::memmove(place, data, bytes);
  const std::byte* free = chunks_[current_].data.get() + used_;
  forbid_memory(place + bytes, static_cast<std::size_t>(free - (place + bytes)));
  forbid_rest();
  return place;
}

void Arena64::reset() {
  rewind({});
  if (chunks_.size() < 2) return;
  // One piece as large as all: the next round needs no allocation.
  const std::size_t total = capacity();
  chunks_.clear();
  chunks_.push_back(make_chunk(total));
}

std::size_t Arena64::capacity() const {
  std::size_t total = 0;
  for (const Chunk& chunk : chunks_) total += chunk.size;
  return total;
}

template <class T>
Tensor<T> Tape<T>::make(std::span<const std::int64_t> sizes) {
  Tensor<T> t;
  t.rank = static_cast<int>(sizes.size());
  std::int64_t count = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    t.shape[d] = sizes[d];
    t.strides[d] = count;
    count *= sizes[d];
  }
  t.data = scratch(count);
  if (recording_) {
    t.grad = scratch(count);
    std::memset(t.grad, 0, static_cast<std::size_t>(count) * sizeof(T));
  }
  return t;
}

template <class T>
void Tape<T>::backward() {
  for (std::size_t n = steps_.size(); n-- > 0;) steps_[n].run(steps_[n].object);
}

template <class T>
Tensor<T> Tape<T>::keep_only(const Arena64::Mark& mark, const Tensor<T>& x) {
  if (recording_ || !x.is_contiguous()) return x;
  Tensor<T> moved = x;
  moved.data = static_cast<T*>(arena_.keep_only(mark, x.data, static_cast<std::size_t>(x.count()) * sizeof(T)));
  return moved;
}

template <class T>
void Tape<T>::reset() {
  for (std::size_t n = steps_.size(); n-- > 0;)
    if (steps_[n].destroy) steps_[n].destroy(steps_[n].object);
  steps_.clear();
  arena_.reset();
}

template class Tape<float>;
template class Tape<double>;

}  // namespace rapt::inline v1
