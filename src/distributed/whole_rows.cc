#include "distributed/whole_rows.h"

#include <cstring>
#include <limits>
#include <memory>

#include "attend/inner_call.h"
#include "distributed/feed.h"

namespace rapt::inline v1::distributed {

AllKeys::AllKeys(const Call& call) {
  pieces_.rows = {0, call.keys.length()};
  std::vector<View> arrays;
  const auto make = [&](const ConstView& own) {
    View all{nullptr, own.dtype, own.shape, {}, {}};
    all.shape[2] = call.keys.length();
    all.strides = contiguous_strides(all.shape);
    memory_.emplace_back(static_cast<std::size_t>(element_count(all.shape)) * size_of(own.dtype) + 1);
    all.data = memory_.back().data();
    arrays.push_back(all);
  };
  make(call.inputs.k);
  for (const ConstView& v : call.inputs.v) make(v);
  const auto of_slot = [&](std::size_t array, std::int64_t slot) {
    return slot_of(arrays[array], call.slots->at(slot), call.whole.heads);
  };
  for (std::int64_t n = 0; n < call.slots->count(); ++n) {
    pieces_.k.push_back(of_slot(0, n));
    std::vector<ConstView>& v = pieces_.v.emplace_back();
    for (std::size_t set = 1; set < arrays.size(); ++set) v.push_back(of_slot(set, n));
  }
  const auto copy = [](const ConstView& from, const View& to, std::int64_t first) {
    const std::size_t bytes = static_cast<std::size_t>(from.shape[3]) * size_of(from.dtype);
    const auto size = static_cast<std::int64_t>(size_of(from.dtype));
    for_each_row(from.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const std::int64_t source = b * from.strides[0] + h * from.strides[1] + i * from.strides[2];
      const std::int64_t target = b * to.strides[0] + h * to.strides[1] + (first + i) * to.strides[2];
      if (bytes > 0)
        std::memcpy(static_cast<char*>(to.data) + target * size, static_cast<const char*>(from.data) + source * size,
                    bytes);
    });
  };
  Feed feed(call);
  for (std::int64_t unit = 0; unit < feed.units(); ++unit)
    for (const KeyPieces& piece : feed.take(unit))
      for (std::int64_t n = 0; n < call.slots->count(); ++n) {
        const auto slot = static_cast<std::size_t>(n);
        copy(piece.k[slot], of_slot(0, n), piece.rows.begin);
        for (std::size_t set = 0; set < piece.v[slot].size(); ++set)
          copy(piece.v[slot][set], of_slot(set + 1, n), piece.rows.begin);
      }
}

template <class T>
template <class F>
void WholeRows<T>::run(std::size_t slots, const Tasks& tasks, const F& f) const {
  std::vector<std::unique_ptr<Worker>> workers;
  for (int n = 0; n < tasks.workers(); ++n) workers.push_back(std::make_unique<Worker>());
  const auto pieces = static_cast<std::int64_t>(pieces_.size());
  tasks.run(pieces * static_cast<std::int64_t>(slots), [&](std::int64_t n, int worker, int threads) {
    f(static_cast<std::size_t>(n / pieces), pieces_[static_cast<std::size_t>(n % pieces)], threads,
      *workers[static_cast<std::size_t>(worker)]);
  });
}

template <class T>
void WholeRows<T>::forward(const std::vector<ForwardSlot<T>>& slots, const Tasks& tasks) const {
  run(slots.size(), tasks, [&](std::size_t n, const QueryPiece& queries, int threads, Worker& worker) {
    compute(slots[n], n, queries, threads, worker);
  });
}

template <class T>
void WholeRows<T>::find_means(const std::vector<BackwardSlot<T>>& slots, const Tasks& tasks) const {
  run(slots.size(), tasks, [&](std::size_t n, const QueryPiece& queries, int threads, Worker& worker) {
    compute_means(slots[n], n, queries, threads, worker);
  });
}

template <class T>
void WholeRows<T>::compute(const ForwardSlot<T>& slot, std::size_t which, const QueryPiece& queries, int threads,
                           Worker& worker) const {
  const auto rows = [&](const auto& view) { return part_of(view, 2, queries.at, queries.rows.count()); };
  const View max = rows(slot.max), sum = rows(slot.sum);
  if (!cells_.describe(slot.slot, queries, keys_.rows, threads, worker.workspace)) {
    for_each_row(max.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      *row_at<T>(max, b, h, i) = -std::numeric_limits<T>::infinity();
      *row_at<T>(sum, b, h, i) = 0;
      for (const View& total : slot.total) std::fill_n(row_at<T>(rows(total), b, h, i), total.shape[3], T(0));
    });
    return;
  }
  Outputs outputs;
  for (const View& total : slot.total) outputs.out.push_back(rows(total));
  outputs.saved = &worker.saved;
  attend_within(cells_.outer(slot.slot), {rows(slot.q), keys_.k[which], keys_.v[which]}, outputs,
                worker.workspace.options);
  Saved::Rows& saved = *worker.saved.rows();
  std::size_t n = 0;
  for_each_row(max.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    *row_at<T>(max, b, h, i) = saved.max<T>()[n];
    *row_at<T>(sum, b, h, i) = saved.sum<T>()[n++];
  });
}

template <class T>
void WholeRows<T>::compute_means(const BackwardSlot<T>& slot, std::size_t which, const QueryPiece& queries, int threads,
                                 Worker& worker) const {
  if (!cells_.describe(slot.slot, queries, keys_.rows, threads, worker.workspace)) return;
  const auto rows = [&](const auto& view) { return part_of(view, 2, queries.at, queries.rows.count()); };
  const ConstView max = rows(slot.max), sum = rows(slot.sum);
  Saved::Rows& saved = *worker.saved.rows();
  saved.resize(element_count(max.shape), std::is_same_v<T, double>);
  std::size_t n = 0;
  for_each_row(max.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    saved.max<T>()[n] = *row_at<T>(max, b, h, i);
    saved.sum<T>()[n++] = *row_at<T>(sum, b, h, i);
  });
  std::vector<ConstView> out, grad_out;
  for (const ConstView& view : slot.out) out.push_back(rows(view));
  for (const ConstView& view : slot.grad_out) grad_out.push_back(rows(view));
  find_row_means(cells_.outer(slot.slot), {rows(slot.q), keys_.k[which], keys_.v[which]}, out, grad_out, worker.saved,
                 worker.workspace.options, {});
  n = 0;
  const View means = rows(slot.means);
  for_each_row(means.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    *row_at<double>(means, b, h, i) = saved.means[n++];
  });
}

template class WholeRows<float>;
template class WholeRows<double>;

}  // namespace rapt::inline v1::distributed
