#include "distributed/travel.h"

#include <algorithm>

namespace rapt::inline v1::distributed {

View contiguous(void* data, Dtype dtype, const Shape& shape, const Device& device) {
  return {data, dtype, shape, contiguous_strides(shape), device};
}

void exchange_some(const Call& call, Site& site, std::vector<Message> messages) {
  std::erase_if(messages, [](const Message& message) { return message.bytes == 0; });
  if (messages.empty()) return;
  call.communicator->exchange(messages, site.device(), site.transfer_stream());
}

bool has_fast_cells(const Call& call, const Site& site) {
  const Problem& p = call.whole;
  const bool low = p.q.dtype == Dtype::bf16 || p.q.dtype == Dtype::f16;
  return low && p.k.dtype == p.q.dtype && p.v.size() == 1 && p.v[0].dtype == p.q.dtype && p.q.dim % 8 == 0 &&
         p.v[0].dim % 8 == 0 && call.is_softmax && !call.options.bias && !call.options.mask.dense &&
         p.mask.query_starts.empty() && p.path == Path::automatic && site.has_tensor_cores(p);
}

Travel::Travel(const Call& call, const Schedule& schedule, Site& site)
    : call_(call),
      schedule_(schedule),
      site_(site),
      arrays_{call.inputs.k},
      own_(query_pieces(call.keys, call.keys.units_of(call.rank(), call.size()))) {
  for (const ConstView& v : call.inputs.v) arrays_.push_back(v);
  std::size_t most = 0;
  for (std::int64_t unit = 0; unit < call.keys.units(); ++unit) most = std::max(most, bytes_of(unit));
  for (void*& unit : units_) unit = site.take(most);
  if (call.rank() > 0) home_ = site.take(most);
}

std::array<std::vector<View>, 2> Travel::views(std::int64_t unit, void* memory, std::size_t* bytes) const {
  std::array<std::vector<View>, 2> pieces;
  auto* const begin = static_cast<std::byte*>(memory);
  std::size_t at = 0;
  for (const int piece : {0, 1})
    for (const ConstView& array : arrays_) {
      Shape shape = array.shape;
      shape[2] = call_.keys.rows({unit, piece}).count();
      pieces[static_cast<std::size_t>(piece)].push_back(
          contiguous(begin ? begin + at : nullptr, array.dtype, shape, site_.device()));
      at += padded_bytes(shape, array.dtype);
    }
  if (bytes) *bytes = at;
  return pieces;
}

std::size_t Travel::bytes_of(std::int64_t unit) const {
  std::size_t bytes = 0;
  views(unit, nullptr, &bytes);
  return bytes;
}

void Travel::pack(std::int64_t unit, void* memory) const {
  const auto pieces = views(unit, memory);
  for (const int piece : {0, 1}) {
    const Span rows = call_.keys.rows({unit, piece});
    for (const QueryPiece& own : own_)
      if (own.rows.begin == rows.begin && rows.count() > 0)
        for (std::size_t n = 0; n < arrays_.size(); ++n)
          site_.store(part_of(arrays_[n], 2, own.at, rows.count()), pieces[static_cast<std::size_t>(piece)][n]);
  }
}

void Travel::prepare(std::int64_t step) {
  const std::int64_t next = schedule_.unit_at(step + 1);
  if (schedule_.owns(next)) pack(next, memory_of(next));
  for (const Schedule::Transfer& transfer : schedule_.keys(step))
    if (!transfer.receives && transfer.unit != schedule_.unit_at(step)) pack(transfer.unit, home_);
}

std::array<KeyPieces, 2> Travel::at(std::int64_t unit) const {
  const auto all = views(unit, memory_of(unit));
  std::array<KeyPieces, 2> pieces;
  for (const int piece : {0, 1}) {
    const std::vector<View>& arrays = all[static_cast<std::size_t>(piece)];
    KeyPieces& to = pieces[static_cast<std::size_t>(piece)];
    to.rows = call_.keys.rows({unit, piece});
    to.k = {arrays[0]};
    to.v = {std::vector<ConstView>(arrays.begin() + 1, arrays.end())};
  }
  return pieces;
}

void Travel::exchange(std::int64_t step) {
  std::vector<Message> messages;
  for (const Schedule::Transfer& transfer : schedule_.keys(step)) {
    const bool is_home = !transfer.receives && transfer.unit != schedule_.unit_at(step);
    messages.push_back(
        {is_home ? home_ : memory_of(transfer.unit), bytes_of(transfer.unit), transfer.process, transfer.receives});
  }
  exchange_some(call_, site_, std::move(messages));
}

}  // namespace rapt::inline v1::distributed
