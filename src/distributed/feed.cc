#include "distributed/feed.h"

#include <cstring>
#include <exception>
#include <memory>

#include "distributed/kept_memory.h"

namespace rapt::inline v1::distributed {
namespace {

// Units in flight at one time differ by less.
int tag_of(std::int64_t unit) { return static_cast<int>(unit % 8192); }

// Rows [first, first + count) of every batch and head, one after the other.
void copy_rows(const ConstView& from, std::int64_t first, std::int64_t count, std::byte*& to) {
  const auto size = static_cast<std::int64_t>(size_of(from.dtype));
  const auto bytes = static_cast<std::size_t>(from.shape[3] * size);
  for (std::int64_t b = 0; b < from.shape[0]; ++b)
    for (std::int64_t h = 0; h < from.shape[1]; ++h)
      for (std::int64_t i = first; i < first + count; ++i, to += bytes)
        if (bytes > 0)
          std::memcpy(to,
                      static_cast<const char*>(from.data) +
                          (b * from.strides[0] + h * from.strides[1] + i * from.strides[2]) * size,
                      bytes);
}

std::size_t row_bytes(const ConstView& view) {
  return static_cast<std::size_t>(view.shape[0] * view.shape[1] * view.shape[3]) * size_of(view.dtype);
}

// Pieces start at multiples of this, whatever their type.
std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Feed::Feed(const Call& call) : call_(call), arrays_{call.inputs.k} {
  for (const ConstView& v : call.inputs.v) arrays_.push_back(v);
}

Feed::~Feed() {
  bool failed = std::uncaught_exceptions() > 0;
  try {
    for (Buffer& one : buffers_)
      if (!failed) drain(one);
  } catch (...) {
    failed = true;
  }
  if (failed) keep_for_messages(std::make_shared<std::array<Buffer, kBuffers>>(std::move(buffers_)));
}

std::size_t Feed::bytes_of(std::int64_t unit) const {
  std::size_t bytes = 0;
  for (const Span& rows : {call_.keys.early(unit), call_.keys.late(unit)})
    for (const ConstView& array : arrays_) bytes += aligned(row_bytes(array) * static_cast<std::size_t>(rows.count()));
  return bytes;
}

void Feed::pack(Buffer& buffer) {
  const std::vector<QueryPiece> own = query_pieces(call_.keys, call_.keys.units_of(call_.rank(), call_.size()));
  std::byte* to = buffer.bytes.data();
  for (const Span& rows : {call_.keys.early(buffer.unit), call_.keys.late(buffer.unit)})
    for (const ConstView& array : arrays_) {
      std::byte* const begin = to;
      for (const QueryPiece& piece : own)
        if (piece.rows.begin == rows.begin && rows.count() > 0) copy_rows(array, piece.at, rows.count(), to);
      to = begin + aligned(row_bytes(array) * static_cast<std::size_t>(rows.count()));
    }
}

void Feed::forward(Buffer& buffer) {
  buffer.here = true;
  const int own = call_.rank(), owner = call_.keys.owner(buffer.unit, call_.size());
  const auto send = [&](int to) {
    buffer.sending.push_back(
        call_.communicator->start_send(buffer.bytes.data(), buffer.bytes.size(), to, tag_of(buffer.unit)));
    bytes_sent_ += buffer.bytes.size();
  };
  if (own == owner && owner > 0) send(0);
  if (own + 1 < call_.size() && own + 1 != owner) send(own + 1);
}

void Feed::start(std::int64_t unit) {
  Buffer& to = buffer(unit);
  drain(to);
  to.unit = unit;
  to.here = false;
  to.bytes.resize(bytes_of(unit));
  const int own = call_.rank(), owner = call_.keys.owner(unit, call_.size());
  if (own == owner) {
    pack(to);
    forward(to);
  } else {
    const int from = own == 0 || own == owner + 1 ? owner : own - 1;
    to.receiving = call_.communicator->start_receive(to.bytes.data(), to.bytes.size(), from, tag_of(unit));
  }
}

// A process that waits for one message keeps the others progressing.
void Feed::drain(Buffer& buffer) {
  while (buffer.receiving >= 0 || !buffer.sending.empty()) {
    progress();
    if (!buffer.sending.empty()) std::this_thread::yield();
  }
}

void Feed::progress() {
  for (Buffer& one : buffers_) {
    if (one.receiving >= 0 && call_.communicator->test(one.receiving)) {
      one.receiving = -1;
      forward(one);
    }
    std::erase_if(one.sending, [&](int message) { return call_.communicator->test(message); });
  }
}

std::array<KeyPieces, 2> Feed::take(std::int64_t unit) {
  for (; started_ < std::min(unit + 1 + kAhead, units()); ++started_) start(started_);
  Buffer& from = buffer(unit);
  for (int tries = 0; !from.here; ++tries) {
    progress();
    if (!from.here && tries > 100) std::this_thread::yield();
  }
  std::array<KeyPieces, 2> pieces;
  const std::byte* at = from.bytes.data();
  const std::array<Span, 2> rows{call_.keys.early(unit), call_.keys.late(unit)};
  for (std::size_t n = 0; n < 2; ++n) {
    pieces[n].rows = rows[n];
    std::vector<ConstView> views;
    for (const ConstView& array : arrays_) {
      ConstView view = array;
      view.shape[2] = rows[n].count();
      view.strides = contiguous_strides(view.shape);
      view.data = at;
      at += aligned(row_bytes(array) * static_cast<std::size_t>(rows[n].count()));
      views.push_back(view);
    }
    for (std::int64_t s = 0; s < call_.slots->count(); ++s) {
      const Slot slot = call_.slots->at(s);
      pieces[n].k.push_back(slot_of(views[0], slot, call_.whole.heads));
      std::vector<ConstView>& v = pieces[n].v.emplace_back();
      for (std::size_t set = 1; set < views.size(); ++set) v.push_back(slot_of(views[set], slot, call_.whole.heads));
    }
  }
  return pieces;
}

}  // namespace rapt::inline v1::distributed
