#include "distributed/forward.h"

#include <cmath>
#include <limits>

#include "attend/inner_call.h"
#include "backends/host/storage.h"
#include "distributed/row_sums.h"

namespace rapt::inline v1::distributed {

template <class T>
ForwardWork<T>::ForwardWork(const Cells& cells, std::vector<ForwardSlot<T>> slots, std::vector<QueryPiece> pieces)
    : cells_(cells), slots_(std::move(slots)), pieces_(std::move(pieces)) {
  const Call& call = cells.call();
  for (const ForwardSlot<T>& slot : slots_)
    for_each_row(slot.max.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      *row_at<T>(slot.max, b, h, i) = call.is_additive ? T(0) : -std::numeric_limits<T>::infinity();
      *row_at<T>(slot.sum, b, h, i) = call.is_choice() ? T(-1) : T(0);
      for (const View& total : slot.total) std::fill_n(row_at<T>(total, b, h, i), total.shape[3], T(0));
    });
}

template <class T>
void ForwardWork<T>::add(std::span<const KeyPieces> keys, const Tasks& tasks) {
  while (static_cast<int>(workers_.size()) < tasks.workers()) workers_.push_back(std::make_unique<Worker>());
  const auto pieces = static_cast<std::int64_t>(pieces_.size());
  tasks.run(pieces * static_cast<std::int64_t>(slots_.size()), [&](std::int64_t n, int worker, int threads) {
    const auto which = static_cast<std::size_t>(n / pieces);
    for (const KeyPieces& piece : keys)
      add_cell(slots_[which], which, pieces_[static_cast<std::size_t>(n % pieces)], piece, threads,
               *workers_[static_cast<std::size_t>(worker)]);
  });
}

template <class T>
void ForwardWork<T>::add_cell(const ForwardSlot<T>& slot, std::size_t which, const QueryPiece& queries,
                              const KeyPieces& keys, int threads, Worker& worker) const {
  if (!cells_.describe(slot.slot, queries, keys.rows, threads, worker.workspace)) return;
  const Slot& place = cells_.slot(slot.slot);
  const Shape rows{place.batches.count(), place.heads.count(), queries.rows.count(), 1};
  const auto make = [](std::vector<T>& numbers, const Shape& shape) {
    numbers.resize(std::max(numbers.size(), static_cast<std::size_t>(element_count(shape)) + 1));
    return View{numbers.data(), dtype_of<T>(), shape, contiguous_strides(shape), {}};
  };
  worker.out.resize(slot.total.size());
  worker.part.clear();
  for (std::size_t s = 0; s < slot.total.size(); ++s) {
    Shape shape = rows;
    shape[3] = slot.total[s].shape[3];
    worker.part.push_back(make(worker.out[s], shape));
  }
  worker.part_max = make(worker.max, rows);
  worker.part_sum = make(worker.sum, rows);
  Outputs outputs;
  outputs.out = worker.part;
  const Call& call = cells_.call();
  if (call.is_choice()) {
    outputs.saved = &worker.saved;
  } else if (call.is_additive) {
    outputs.lse = worker.part_sum;
  } else {
    outputs.row_max = worker.part_max;
    outputs.row_sum = worker.part_sum;
  }
  const Inputs inputs{part_of(slot.q, 2, queries.at, queries.rows.count()), keys.k[which], keys.v[which]};
  attend_within(cells_.outer(slot.slot), inputs, outputs, worker.workspace.options);
  if (call.is_choice()) choose(slot, queries, keys.rows, worker);
  else if (call.is_additive) add_rows(slot, queries, worker);
  else merge(slot, queries, worker);
}

template <class T>
void ForwardWork<T>::add_rows(const ForwardSlot<T>& slot, const QueryPiece& queries, const Worker& worker) const {
  for_each_row(worker.part_sum.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const T log_sum = *row_at<T>(worker.part_sum, b, h, i);
    *row_at<T>(slot.sum, b, h, queries.at + i) += std::exp(log_sum);
    for (std::size_t s = 0; s < worker.part.size(); ++s) {
      T* const __restrict total = row_at<T>(slot.total[s], b, h, queries.at + i);
      const T* const __restrict part = row_at<T>(worker.part[s], b, h, i);
      for_each_number(worker.part[s].shape[3], [&](std::int64_t d) { total[d] += part[d]; });
    }
  });
}

template <class T>
void ForwardWork<T>::merge(const ForwardSlot<T>& slot, const QueryPiece& queries, const Worker& worker) const {
  for_each_row(worker.part_max.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const double part_sum = *row_at<T>(worker.part_sum, b, h, i), part_max = *row_at<T>(worker.part_max, b, h, i);
    if (part_sum == 0) return;
    const Shares<T> shares = merge_row(*row_at<T>(slot.max, b, h, queries.at + i),
                                       *row_at<T>(slot.sum, b, h, queries.at + i), part_max, part_sum);
    for (std::size_t s = 0; s < worker.part.size(); ++s)
      merge_numbers(row_at<T>(slot.total[s], b, h, queries.at + i), row_at<T>(ConstView(worker.part[s]), b, h, i),
                    worker.part[s].shape[3], shares);
  });
}

// The largest score, of equals the first, and of several NaN any: as in one call.
template <class T>
void ForwardWork<T>::choose(const ForwardSlot<T>& slot, const QueryPiece& queries, const Span& keys,
                            const Worker& worker) const {
  Saved::Rows& rows = *worker.saved.rows();
  std::size_t n = 0;
  for_each_row(worker.part_max.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const T largest = rows.max<T>()[n], key = rows.sum<T>()[n++];
    T& max = *row_at<T>(slot.max, b, h, queries.at + i);
    T& chosen = *row_at<T>(slot.sum, b, h, queries.at + i);
    if (key < T(0) || max != max) return;
    const T place = key + static_cast<T>(keys.begin);
    if (largest < max || (largest == max && place > chosen)) return;
    max = largest;
    chosen = place;
    for (std::size_t s = 0; s < worker.part.size(); ++s)
      std::copy_n(row_at<T>(ConstView(worker.part[s]), b, h, i), worker.part[s].shape[3],
                  row_at<T>(slot.total[s], b, h, queries.at + i));
  });
}

template <class T>
void ForwardWork<T>::finish(const Tasks& tasks) {
  if (!cells_.call().is_softmax) return;
  const ConstView& sink = cells_.call().sink;
  tasks.run(static_cast<std::int64_t>(slots_.size()), [&](std::int64_t n, int, int) {
    const ForwardSlot<T>& slot = slots_[static_cast<std::size_t>(n)];
    const Slot& place = cells_.slot(slot.slot);
    for_each_row(slot.max.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      T& max = *row_at<T>(slot.max, b, h, i);
      T& sum = *row_at<T>(slot.sum, b, h, i);
      double logit = 0;
      if (sink)
        load_row(matrix_of(sink.shape[3] > 1 ? part_of(sink, 3, place.heads.begin + h, 1) : sink, 0, 0), 0, 1, &logit);
      const T factor = finish_row(max, sum, static_cast<bool>(sink), logit);
      for (const View& total : slot.total) {
        T* const row = row_at<T>(total, b, h, i);
        for (std::int64_t d = 0; d < total.shape[3]; ++d) row[d] *= factor;
      }
    });
  });
}

template class ForwardWork<float>;
template class ForwardWork<double>;

}  // namespace rapt::inline v1::distributed
