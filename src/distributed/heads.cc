#include <memory>

#include "backends/host/storage.h"
#include "distributed/exchange.h"
#include "distributed/forward.h"
#include "distributed/totals.h"
#include "distributed/ways.h"
#include "distributed/whole_rows.h"

namespace rapt::inline v1::distributed {
namespace {

std::vector<std::unique_ptr<SlotRows>> collected(const Call& call, const std::vector<ConstView>& own, const Cut& cut) {
  std::vector<std::unique_ptr<SlotRows>> list;
  for (const ConstView& view : own) {
    list.push_back(std::make_unique<SlotRows>(call, view, cut));
    list.back()->collect(view);
  }
  return list;
}

// Keys and values of this process's slots, unit by unit.
class LocalKeys {
 public:
  explicit LocalKeys(const Call& call)
      : call_(call), slots_(slots_of(call, call.rank())), k_(call, call.inputs.k, call.keys) {
    k_.collect(call.inputs.k);
    v_ = collected(call, call.inputs.v, call.keys);
  }

  std::array<KeyPieces, 2> unit(std::int64_t u) { return {rows(call_.keys.early(u)), rows(call_.keys.late(u))}; }
  KeyPieces all() { return rows({0, call_.keys.length()}); }

 private:
  KeyPieces rows(const Span& span) {
    KeyPieces piece;
    piece.rows = span;
    for (std::int64_t s = slots_.begin; s < slots_.end; ++s) {
      piece.k.push_back(part_of(k_.at(s), 2, span.begin, span.count()));
      std::vector<ConstView>& v = piece.v.emplace_back();
      for (const auto& set : v_) v.push_back(part_of(set->at(s), 2, span.begin, span.count()));
    }
    return piece;
  }

  const Call& call_;
  Span slots_;
  SlotRows k_;
  std::vector<std::unique_ptr<SlotRows>> v_;
};

template <class T>
ConstView typed(const ConstView& view) {
  ConstView other = view;
  other.dtype = dtype_of<T>();
  return other;
}

Span all_units(const Cut& cut) { return {0, cut.units()}; }

}  // namespace

template <class T>
void heads_forward(const Call& call, const Outputs& outputs) {
  const Cells cells(call);
  const Span slots = slots_of(call, call.rank());
  const std::int64_t rows = call.inputs.q.shape[2];
  SlotRows q(call, call.inputs.q, call.queries);
  q.collect(call.inputs.q);
  LocalKeys keys(call);
  // Whole rows in the type of computation.
  std::vector<std::unique_ptr<SlotRows>> out;
  for (const View& view : outputs.out) out.push_back(std::make_unique<SlotRows>(call, typed<T>(view), call.queries));
  std::vector<T> own_max(static_cast<std::size_t>(call.whole.batch * call.whole.heads * rows) + 1),
      own_sum(own_max.size()), own_lse(own_max.size());
  const View own_max_view = rows_view(call, own_max.data(), rows), own_sum_view = rows_view(call, own_sum.data(), rows);
  const View own_lse_view = rows_view(call, own_lse.data(), rows);
  SlotRows max(call, own_max_view, call.queries), sum(call, own_sum_view, call.queries),
      lse(call, own_lse_view, call.queries);
  const Tasks tasks(threads_of(call), [] {});
  std::vector<ForwardSlot<T>> work_slots;
  for (std::int64_t n = slots.begin; n < slots.end; ++n) {
    ForwardSlot<T> slot{n, q.at(n), {}, max.at(n), sum.at(n)};
    for (const auto& set : out) slot.total.push_back(set->at(n));
    work_slots.push_back(slot);
  }
  std::vector<QueryPiece> pieces = query_pieces(call.queries, all_units(call.queries));
  if (call.is_solved()) {
    const KeyPieces all = keys.all();
    WholeRows<T>(cells, std::move(pieces), all).forward(work_slots, tasks);
  } else {
    ForwardWork<T> work(cells, std::move(work_slots), std::move(pieces));
    for (std::int64_t unit = 0; unit < call.keys.units() && slots.count() > 0; ++unit) work.add(keys.unit(unit), tasks);
    work.finish(tasks);
  }
  for (std::int64_t n = slots.begin; n < slots.end; ++n) store_lse<T>(call, lse.at(n), max.at(n), sum.at(n));
  std::vector<Block<T>> own_out(out.size());
  std::vector<View> wide(outputs.out);
  for (std::size_t s = 0; s < out.size(); ++s) {
    const View& to = outputs.out[s];
    if (to.dtype == dtype_of<T>()) {
      out[s]->spread(to);
      continue;
    }
    own_out[s] = Block<T>(to.shape);
    wide[s] = own_out[s].view();
    out[s]->spread(wide[s]);
    store_view<T>(wide[s], to);
  }
  lse.spread(own_lse_view);
  if (outputs.lse) store_view<T>(own_lse_view, outputs.lse);
  if (!outputs.saved) return;
  max.spread(own_max_view);
  sum.spread(own_sum_view);
  Saved::Rows& saved = *outputs.saved->rows();
  saved.resize(static_cast<std::int64_t>(own_max.size()) - 1, std::is_same_v<T, double>);
  std::copy_n(own_max.begin(), saved.count, saved.max<T>());
  if (call.is_additive) std::fill_n(saved.sum<T>(), saved.count, T(0));
  else std::copy_n(own_sum.begin(), saved.count, saved.sum<T>());
  // The others need no δ of theirs.
  if (call.is_softmax) keep_wide_out<T>(outputs, wide, saved);
}

template <class T>
void heads_backward(const Call& call, const Given& given, const Saved::Rows& rows) {
  const Cells cells(call);
  const Gradients& gradients = call.gradients;
  store_zeros(gradients);
  const Wanted wanted(call, gradients);
  const Span slots = slots_of(call, call.rank());
  const std::int64_t own_rows = call.inputs.q.shape[2];
  auto& saved = const_cast<Saved::Rows&>(rows);
  const View own_max = rows_view(call, saved.max<T>(), own_rows), own_sum = rows_view(call, saved.sum<T>(), own_rows);
  SlotRows q(call, call.inputs.q, call.queries), max(call, own_max, call.queries), sum(call, own_sum, call.queries);
  q.collect(call.inputs.q);
  max.collect(own_max);
  sum.collect(own_sum);
  LocalKeys keys(call);
  const auto out = collected(call, *given.out, call.queries), grad_out = collected(call, *given.grad_out, call.queries);
  const auto gradient_rows = [&](const View& view, const Cut& cut) {
    return view ? std::make_unique<SlotRows>(call, typed<T>(view), cut) : nullptr;
  };
  const auto dq = gradient_rows(gradients.q, call.queries), dk = gradient_rows(gradients.k, call.keys);
  std::vector<std::unique_ptr<SlotRows>> dv;
  for (const View& view : gradients.v) dv.push_back(gradient_rows(view, call.keys));
  Totals<T> totals(call, wanted);
  const Tasks tasks(threads_of(call), [] {});
  std::vector<Block<double>> means;
  means.reserve(static_cast<std::size_t>(slots.count()));
  std::vector<BackwardSlot<T>> work_slots;
  for (std::int64_t n = slots.begin; n < slots.end; ++n) {
    BackwardSlot<T> slot;
    slot.slot = n;
    slot.q = q.at(n);
    for (const auto& set : out) slot.out.push_back(set->at(n));
    for (const auto& set : grad_out) slot.grad_out.push_back(set->at(n));
    slot.max = max.at(n);
    slot.sum = sum.at(n);
    if (call.is_solved() || call.is_softmax) slot.means = means.emplace_back(slot.max.shape).view();
    if (dq) slot.dq = dq->at(n);
    work_slots.push_back(slot);
  }
  const std::vector<QueryPiece> query_places = query_pieces(call.queries, all_units(call.queries));
  if (call.is_solved()) {
    const KeyPieces all = keys.all();
    WholeRows<T>(cells, query_places, all).find_means(work_slots, tasks);
  }
  BackwardWork<T> work(cells, wanted, std::move(work_slots), query_places);
  for (std::int64_t unit = 0; unit < call.keys.units() && slots.count() > 0; ++unit) {
    const std::array<KeyPieces, 2> pieces = keys.unit(unit);
    for (const int piece : {0, 1}) {
      const Span place = call.keys.rows({unit, piece});
      PieceSums<T> sums(call, wanted, {unit, piece}, slots);
      sums.clear();
      work.add(pieces[static_cast<std::size_t>(piece)], sums, tasks);
      totals.add(sums);
      for (std::int64_t n = slots.begin; n < slots.end && place.count() > 0; ++n) {
        const auto& from = sums.slot(n);
        const auto target = [&](SlotRows& to) { return part_of(to.at(n), 2, place.begin, place.count()); };
        if (dk) store_view<T>(from.k, target(*dk));
        for (std::size_t s = 0; s < dv.size(); ++s)
          if (dv[s]) store_view<T>(from.v[s], target(*dv[s]));
      }
    }
  }
  const auto spread = [&](SlotRows& from, const View& to) {
    if (to.dtype == dtype_of<T>()) return from.spread(to);
    Block<T> own(to.shape);
    from.spread(own.view());
    store_view<T>(own.view(), to);
  };
  if (dq) spread(*dq, gradients.q);
  if (dk) spread(*dk, gradients.k);
  for (std::size_t s = 0; s < dv.size(); ++s)
    if (dv[s]) spread(*dv[s], gradients.v[s]);
  totals.share_slots([&](std::int64_t slot) { return slot_owner(call, slot); });
  totals.store(gradients);
}

template void heads_forward<float>(const Call&, const Outputs&);
template void heads_forward<double>(const Call&, const Outputs&);
template void heads_backward<float>(const Call&, const Given&, const Saved::Rows&);
template void heads_backward<double>(const Call&, const Given&, const Saved::Rows&);

}  // namespace rapt::inline v1::distributed
