#include "distributed/exchange.h"

#include <cstring>

namespace rapt::inline v1::distributed {
namespace {

constexpr int kCollectTag = 29001, kSpreadTag = 29002;

// Rows [first, first + count) of an array, to or from contiguous bytes.
template <class V, class Copy>
void for_rows(const V& view, std::int64_t first, std::int64_t count, const Copy& copy) {
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  for (std::int64_t b = 0; b < view.shape[0]; ++b)
    for (std::int64_t h = 0; h < view.shape[1]; ++h)
      for (std::int64_t i = first; i < first + count; ++i)
        copy((b * view.strides[0] + h * view.strides[1] + i * view.strides[2]) * size, view.shape[3] * size);
}

void pack(const ConstView& view, std::int64_t first, std::int64_t count, std::byte*& to) {
  for_rows(view, first, count, [&](std::int64_t at, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(to, static_cast<const char*>(view.data) + at, static_cast<std::size_t>(bytes));
    to += bytes;
  });
}

void unpack(const View& view, std::int64_t first, std::int64_t count, const std::byte*& from) {
  for_rows(view, first, count, [&](std::int64_t at, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(static_cast<char*>(view.data) + at, from, static_cast<std::size_t>(bytes));
    from += bytes;
  });
}

std::size_t slot_bytes(const ConstView& slot, std::int64_t rows) {
  return static_cast<std::size_t>(slot.shape[0] * slot.shape[1] * slot.shape[3] * rows) * size_of(slot.dtype);
}

}  // namespace

SlotRows::SlotRows(const Call& call, const ConstView& own, const Cut& cut)
    : call_(&call), cut_(&cut), slots_(slots_of(call, call.rank())) {
  ConstView any = own;
  any.data = this;  // slot_of() leaves alone what has no data
  std::size_t bytes = 0;
  std::vector<std::size_t> places;
  for (std::int64_t n = slots_.begin; n < slots_.end; ++n) {
    Shape shape = slot_of(any, call.slots->at(n), call.whole.heads).shape;
    shape[2] = cut.length();
    views_.push_back({nullptr, own.dtype, shape, contiguous_strides(shape), {}});
    places.push_back(bytes);
    bytes += (slot_bytes(views_.back(), shape[2]) + 63) / 64 * 64;
  }
  bytes_.resize(bytes + 64);
  for (std::size_t n = 0; n < views_.size(); ++n) views_[n].data = bytes_.data() + places[n];
}

void SlotRows::collect(const ConstView& own) {
  const int size = call_->size(), rank = call_->rank();
  std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(size)), in(static_cast<std::size_t>(size));
  std::vector<int> messages;
  const std::int64_t own_rows = own.shape[2];
  const auto own_slot = [&](std::int64_t n) { return slot_of(own, call_->slots->at(n), call_->whole.heads); };
  for (int other = 0; other < size; ++other) {
    const auto place = static_cast<std::size_t>(other);
    const Share share = cut_->share(other, size);
    std::size_t expected = 0, sent = 0;
    for (const View& view : views_) expected += slot_bytes(view, share.rows());
    in[place].resize(expected);
    if (expected > 0 && other != rank)
      messages.push_back(call_->communicator->start_receive(in[place].data(), expected, other, kCollectTag));
    const Span theirs = slots_of(*call_, other);
    if (own_rows == 0) continue;
    for (std::int64_t n = theirs.begin; n < theirs.end; ++n) sent += slot_bytes(own_slot(n), own_rows);
    out[place].resize(sent);
    std::byte* to = out[place].data();
    for (std::int64_t n = theirs.begin; n < theirs.end; ++n) pack(own_slot(n), 0, own_rows, to);
    if (sent > 0 && other != rank)
      messages.push_back(call_->communicator->start_send(out[place].data(), sent, other, kCollectTag));
  }
  in[static_cast<std::size_t>(rank)].swap(out[static_cast<std::size_t>(rank)]);
  for (const int message : messages) call_->communicator->wait(message);
  for (int other = 0; other < size; ++other) {
    const Share share = cut_->share(other, size);
    const std::byte* from = in[static_cast<std::size_t>(other)].data();
    if (share.rows() == 0 || in[static_cast<std::size_t>(other)].empty()) continue;
    // Of every batch and head the early rows, then the late ones.
    for (const View& view : views_)
      for (std::int64_t b = 0; b < view.shape[0]; ++b)
        for (std::int64_t h = 0; h < view.shape[1]; ++h) {
          const View one = part_of(part_of(view, 0, b, 1), 1, h, 1);
          unpack(one, share.early_begin, share.early_end - share.early_begin, from);
          unpack(one, share.late_begin, share.late_end - share.late_begin, from);
        }
  }
}

void SlotRows::spread(const View& own) {
  const int size = call_->size(), rank = call_->rank();
  std::vector<std::vector<std::byte>> out(static_cast<std::size_t>(size)), in(static_cast<std::size_t>(size));
  std::vector<int> messages;
  const std::int64_t own_rows = own.shape[2];
  const auto own_slot = [&](std::int64_t n) { return slot_of(own, call_->slots->at(n), call_->whole.heads); };
  for (int other = 0; other < size; ++other) {
    const auto place = static_cast<std::size_t>(other);
    const Share share = cut_->share(other, size);
    const Span theirs = slots_of(*call_, other);
    std::size_t expected = 0, sent = 0;
    for (std::int64_t n = theirs.begin; n < theirs.end && own_rows > 0; ++n)
      expected += slot_bytes(own_slot(n), own_rows);
    in[place].resize(expected);
    if (expected > 0 && other != rank)
      messages.push_back(call_->communicator->start_receive(in[place].data(), expected, other, kSpreadTag));
    for (const View& view : views_) sent += slot_bytes(view, share.rows());
    out[place].resize(sent);
    std::byte* to = out[place].data();
    for (const View& view : views_)
      for (std::int64_t b = 0; b < view.shape[0] && sent > 0; ++b)
        for (std::int64_t h = 0; h < view.shape[1]; ++h) {
          const View one = part_of(part_of(view, 0, b, 1), 1, h, 1);
          pack(one, share.early_begin, share.early_end - share.early_begin, to);
          pack(one, share.late_begin, share.late_end - share.late_begin, to);
        }
    if (sent > 0 && other != rank)
      messages.push_back(call_->communicator->start_send(out[place].data(), sent, other, kSpreadTag));
  }
  in[static_cast<std::size_t>(rank)].swap(out[static_cast<std::size_t>(rank)]);
  for (const int message : messages) call_->communicator->wait(message);
  for (int other = 0; other < size; ++other) {
    const Span theirs = slots_of(*call_, other);
    const std::byte* from = in[static_cast<std::size_t>(other)].data();
    for (std::int64_t n = theirs.begin; n < theirs.end && own_rows > 0; ++n) unpack(own_slot(n), 0, own_rows, from);
  }
}

}  // namespace rapt::inline v1::distributed
