#include "distributed/cells.h"

#include <algorithm>

#include "attend/visibility.h"

namespace rapt::inline v1::distributed {
namespace {

std::size_t index(std::int64_t n) { return static_cast<std::size_t>(n); }

// One number for all batches, or one for each.
std::int64_t number_of(const std::vector<std::int64_t>& list, std::int64_t b) {
  return list[list.size() == 1 ? 0 : index(b)];
}

// The same for the batches of a slot.
template <class F>
std::vector<std::int64_t> numbers_of(const std::vector<std::int64_t>& list, const Slot& slot, const F& f) {
  std::vector<std::int64_t> result;
  if (list.size() == 1) result.push_back(f(list[0]));
  else
    for (std::int64_t b = slot.batches.begin; b < slot.batches.end && !list.empty(); ++b)
      result.push_back(f(number_of(list, b)));
  return result;
}

}  // namespace

std::vector<QueryPiece> query_pieces(const Cut& cut, const Span& units) {
  std::vector<QueryPiece> pieces;
  if (units.count() == 0) return pieces;
  const std::int64_t early = cut.early(units.begin).begin;
  const std::int64_t late = cut.late(units.end - 1).begin - (cut.early(units.end - 1).end - early);
  for (std::int64_t u = units.begin; u < units.end; ++u)
    for (const bool is_late : {false, true}) {
      const Span rows = is_late ? cut.late(u) : cut.early(u);
      if (rows.count() > 0) pieces.push_back({rows, rows.begin - (is_late ? late : early)});
    }
  return pieces;
}

Cells::Cells(const Call& call, Site* site) : call_(call), site_(site) {
  for (std::int64_t n = 0; n < call.slots->count(); ++n) {
    const Slot slot = call.slots->at(n);
    AttendOptions options = call.options;
    for (NamedView& parameter : options.score.parameters)
      for (const ParameterSpec& spec : call.whole.mechanism->parameters())
        if (spec.name == parameter.name) parameter.value = parameter_of(parameter.value, spec, slot);
    // The sink is one more score of the whole row; it is added when all keys are.
    if (call.is_softmax) options.normalizer_parameters.clear();
    for (NamedView& parameter : options.normalizer_parameters)
      for (const ParameterSpec& spec : call.whole.normalizer->info.parameters)
        if (spec.name == parameter.name) parameter.value = parameter_of(parameter.value, spec, slot);
    options.bias = slot_of(options.bias, slot, call.whole.heads);
    options.mask.query_starts.clear();
    options.mask.key_starts.clear();
    slots_.push_back(slot);
    options_.push_back(std::move(options));
  }
}

OuterCall Cells::outer(std::int64_t n) const {
  return {slot(n).batches.begin, slot(n).heads.begin, call_.queries.length(), call_.keys.length()};
}

Visible Cells::find_ranges(const Slot& slot, const QueryPiece& queries, const Span& keys, Workspace& workspace) const {
  const Visibility visibility(call_.whole);
  if (visibility.is_whole()) return Visible::all;
  const std::int64_t count = queries.rows.count();
  workspace.begin.resize(index(count * slot.batches.count()));
  workspace.end.resize(workspace.begin.size());
  bool any = false, all = true;
  for (std::int64_t b = 0; b < slot.batches.count(); ++b) {
    std::int64_t* const begin = workspace.begin.data() + b * count;
    std::int64_t* const end = workspace.end.data() + b * count;
    visibility.ranges(slot.batches.begin + b, queries.rows.begin, static_cast<int>(count), begin, end);
    for (std::int64_t n = 0; n < count; ++n) {
      any = any || (begin[n] < keys.end && end[n] > keys.begin);
      all = all && begin[n] <= keys.begin && end[n] >= keys.end;
    }
  }
  if (all) return Visible::all;
  return any ? Visible::some : Visible::none;
}

BoolView Cells::dense_of(const Slot& slot, const QueryPiece& queries, const Span& keys) const {
  BoolView dense = call_.options.mask.dense;
  if (!dense) return dense;
  const auto cut = [&](std::size_t axis, std::int64_t first, std::int64_t count) {
    if (dense.shape[axis] == 1 && axis < 3) return;
    dense.data += first * dense.strides[axis];
    dense.shape[axis] = count;
  };
  cut(0, slot.batches.begin, slot.batches.count());
  cut(1, slot.heads.begin, slot.heads.count());
  cut(2, queries.at, queries.rows.count());
  cut(3, keys.begin, keys.count());
  return dense;
}

// Packed sequences as bytes: a part of them has no starts to count from.
void Cells::hide_by_ranges(const Slot& slot, const QueryPiece& queries, const Span& keys, Workspace& workspace) const {
  const std::int64_t rows = queries.rows.count(), columns = keys.count();
  BoolView& dense = workspace.options.mask.dense;
  const BoolView given = dense;
  const std::int64_t heads = given ? given.shape[1] : 1;
  dense.shape = {slot.batches.count(), heads, rows, columns};
  dense.strides = contiguous_strides(dense.shape);
  const auto bytes = static_cast<std::size_t>(element_count(dense.shape));
  if (site_ && site_->device().kind != Device::Kind::cpu) {
    if (bytes > workspace.visible_bytes) workspace.visible_on_device = site_->take(workspace.visible_bytes = bytes);
    dense.data = static_cast<const std::uint8_t*>(workspace.visible_on_device);
    dense.device = site_->device();
    site_->hide({workspace.begin, workspace.end, keys.begin, columns}, given, dense);
    return;
  }
  workspace.visible.resize(bytes);
  dense.data = workspace.visible.data();
  dense.device = {};
  std::uint8_t* to = workspace.visible.data();
  for (std::int64_t b = 0; b < slot.batches.count(); ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t begin = workspace.begin[index(b * rows + i)], end = workspace.end[index(b * rows + i)];
        const std::uint8_t* from = nullptr;
        if (given)
          from = given.data + (given.shape[0] == 1 ? 0 : b) * given.strides[0] + h * given.strides[1] +
                 (given.shape[2] == 1 ? 0 : i) * given.strides[2];
        for (std::int64_t j = 0; j < columns; ++j) {
          const std::int64_t key = keys.begin + j;
          *to++ = key >= begin && key < end && (!from || from[j] != 0) ? 1 : 0;
        }
      }
}

bool Cells::describe(std::int64_t n, const QueryPiece& queries, const Span& keys, int threads,
                     Workspace& workspace) const {
  const Slot& slot = slots_[index(n)];
  if (keys.count() == 0 || queries.rows.count() == 0) return false;
  const Visible visible = find_ranges(slot, queries, keys, workspace);
  if (visible == Visible::none) return false;
  const AttendOptions& base = options_[index(n)];
  AttendOptions& o = workspace.options;
  o = base;
  o.threads = threads;
  o.first_key = keys.begin;
  o.first_query = {queries.rows.begin};
  o.mask.dense = dense_of(slot, queries, keys);
  if (o.bias) {
    if (!call_.shared_bias) o.bias = part_of(o.bias, 2, queries.at, queries.rows.count());
    o.bias = part_of(o.bias, 3, keys.begin, keys.count());
  }
  const bool packed = !call_.whole.mask.query_starts.empty();
  if (!packed)
    o.first_query = numbers_of(base.first_query, slot, [&](std::int64_t first) { return first + queries.rows.begin; });
  // Of a cell that is seen whole no mask is asked.
  if (packed || visible == Visible::all) {
    o.mask.causal = Causal::none;
    o.mask.window.reset();
    o.mask.key_lengths.clear();
    if (visible != Visible::all) hide_by_ranges(slot, queries, keys, workspace);
    return true;
  }
  o.mask.key_lengths = numbers_of(base.mask.key_lengths, slot, [&](std::int64_t length) {
    return std::clamp<std::int64_t>(length - keys.begin, 0, keys.count());
  });
  return true;
}

}  // namespace rapt::inline v1::distributed
