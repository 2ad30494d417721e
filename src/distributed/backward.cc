#include "distributed/backward.h"

#include <cmath>
#include <cstring>

#include "attend/inner_call.h"
#include "backends/host/storage.h"

namespace rapt::inline v1::distributed {
namespace {

template <class T>
void add_numbers(T* __restrict sum, const T* __restrict more, std::int64_t count) {
  for_each_number(count, [&](std::int64_t n) { sum[n] += more[n]; });
}

// `from` is contiguous, and so are often the rows of a head of `to`.
template <class T>
void add_rows(const View& to, std::int64_t first, const View& from) {
  const std::int64_t rows = from.shape[2], dim = from.shape[3];
  const bool together = to.strides[2] == dim;
  for (std::int64_t b = 0; b < from.shape[0]; ++b)
    for (std::int64_t h = 0; h < from.shape[1]; ++h)
      for (std::int64_t i = 0; i < rows; i += together ? std::max<std::int64_t>(rows, 1) : 1)
        add_numbers(row_at<T>(to, b, h, first + i), row_at<T>(from, b, h, i), together ? rows * dim : dim);
}

}  // namespace

Wanted::Wanted(const Call& call, const Gradients& gradients)
    : k(gradients.k), bias_row(gradients.bias && call.shared_bias) {
  for (std::size_t s = 0; s < call.inputs.v.size(); ++s) v.push_back(s < gradients.v.size() && gradients.v[s]);
  for (const NamedGradient& gradient : gradients.parameters) {
    Parameter parameter;
    parameter.name = gradient.name;
    parameter.shape = gradient.value.shape;
    for (const ParameterSpec& spec : call.whole.mechanism->parameters())
      if (spec.name == gradient.name) parameter.spec = &spec;
    for (const ParameterSpec& spec : call.whole.normalizer->info.parameters)
      if (!parameter.spec && spec.name == gradient.name) {
        parameter.spec = &spec;
        parameter.is_sink = call.is_softmax;
      }
    parameters.push_back(parameter);
  }
}

Shape slot_shape(const Wanted::Parameter& parameter, const Slot& slot) {
  return parameter_of(View{nullptr, Dtype::f64, parameter.shape, contiguous_strides(parameter.shape), {}},
                      *parameter.spec, slot)
      .shape;
}

template <class T>
PieceSums<T>::PieceSums(const Call& call, const Wanted& wanted, const KeyPlace& place, const Span& slots)
    : place_(place), slots_(slots) {
  std::size_t bytes = 0;
  std::vector<std::pair<View*, std::size_t>> places;
  const auto put = [&](View& view, Dtype dtype, const Shape& shape) {
    view = {nullptr, dtype, shape, contiguous_strides(shape), {}};
    places.emplace_back(&view, bytes);
    bytes += (static_cast<std::size_t>(element_count(shape)) * size_of(dtype) + 63) / 64 * 64;
  };
  sums_.resize(static_cast<std::size_t>(slots.count()));
  const std::int64_t rows = call.keys.rows(place).count();
  for (std::int64_t n = slots.begin; n < slots.end; ++n) {
    const Slot slot = call.slots->at(n);
    Sums& sums = sums_[static_cast<std::size_t>(n - slots.begin)];
    const auto put_rows = [&](View& to, ConstView of) {
      of.data = this;  // slot_of() leaves alone what has no data
      Shape shape = slot_of(of, slot, call.whole.heads).shape;
      shape[2] = rows;
      put(to, dtype_of<T>(), shape);
    };
    if (wanted.k) put_rows(sums.k, call.inputs.k);
    sums.v.resize(wanted.v.size());
    for (std::size_t s = 0; s < wanted.v.size(); ++s)
      if (wanted.v[s]) put_rows(sums.v[s], call.inputs.v[s]);
    if (wanted.bias_row) {
      Shape shape = slot_of(call.options.bias, slot, call.whole.heads).shape;
      shape[3] = rows;
      put(sums.bias_row, dtype_of<T>(), shape);
    }
    sums.parameters.resize(wanted.parameters.size());
    for (std::size_t p = 0; p < wanted.parameters.size(); ++p)
      put(sums.parameters[p], Dtype::f64, slot_shape(wanted.parameters[p], slot));
  }
  bytes_.resize(bytes + 64);
  for (const auto& [view, at] : places) view->data = bytes_.data() + at;
}

template <class T>
void PieceSums<T>::clear() {
  std::memset(bytes_.data(), 0, bytes_.size());
}

template <class T>
BackwardWork<T>::BackwardWork(const Cells& cells, const Wanted& wanted, std::vector<BackwardSlot<T>> slots,
                              std::vector<QueryPiece> pieces)
    : cells_(cells), wanted_(wanted), slots_(std::move(slots)), pieces_(std::move(pieces)) {
  for (const BackwardSlot<T>& slot : slots_) {
    if (slot.dq) store_zeros(slot.dq);
    if (slot.dbias) store_zeros(slot.dbias);  // of what is hidden
  }
  known_.assign(slots_.size() * pieces_.size(), cells.call().is_solved() ? 1 : 0);
}

// Cells are computed in any order. Rows of dq belong to one of them; to the sums of the keys they are added in turn.
template <class T>
void BackwardWork<T>::add(const KeyPieces& keys, PieceSums<T>& sums, const Tasks& tasks) {
  if (slots_.empty() || pieces_.empty()) return;
  while (static_cast<int>(workers_.size()) < tasks.workers()) workers_.push_back(std::make_unique<Worker>());
  const auto pieces = static_cast<std::int64_t>(pieces_.size());
  const std::int64_t first = sums.slots().begin - slots_.front().slot;
  // The sink belongs to no key: the first piece has it.
  const bool has_sink = sums.place().unit == 0 && sums.place().piece == 0;
  Tickets added(pieces * sums.slots().count());
  tasks.run(pieces * sums.slots().count(), [&](std::int64_t n, int worker_number, int threads) {
    try {
      const auto which = static_cast<std::size_t>(first + n / pieces);
      const BackwardSlot<T>& slot = slots_[which];
      const typename PieceSums<T>::Sums& to = sums.slot(slot.slot);
      const QueryPiece& queries = pieces_[static_cast<std::size_t>(n % pieces)];
      Worker& worker = *workers_[static_cast<std::size_t>(worker_number)];
      const bool any = compute_cell(slot, which, queries, keys, to, threads, worker,
                                    known_[which * pieces_.size() + static_cast<std::size_t>(n % pieces)]);
      // A process with nothing to add does not wait.
      if (any || has_sink)
        for (std::int64_t before = n - n % pieces; before < n; ++before) added.wait(before, 1);
      if (any) add_cell(to, worker);
      for (std::size_t p = 0; p < wanted_.parameters.size() && has_sink; ++p)
        if (wanted_.parameters[p].is_sink) add_sink(slot, queries, to.parameters[p]);
      added.done(n);
    } catch (...) {
      added.abandon();
      throw;
    }
  });
}

// What a cell is told of its rows. False: none of them has chosen a key of it.
template <class T>
bool BackwardWork<T>::load_rows_of(const BackwardSlot<T>& slot, const QueryPiece& queries, const Span& keys, bool known,
                                   Saved::Rows& saved) const {
  const Call& call = cells_.call();
  const Slot& place = cells_.slot(slot.slot);
  const Shape shape{place.batches.count(), place.heads.count(), queries.rows.count(), 1};
  saved.resize(element_count(shape), std::is_same_v<T, double>);
  saved.of_more_keys = true;
  if (slot.means && known) saved.means.resize(static_cast<std::size_t>(saved.count));
  bool any = !call.is_choice();
  std::size_t n = 0;
  for_each_row(shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    T& second = saved.sum<T>()[n];
    saved.max<T>()[n] = *row_at<T>(slot.max, b, h, queries.at + i);
    second = *row_at<T>(slot.sum, b, h, queries.at + i);
    if (slot.means && known) saved.means[n] = *row_at<double>(slot.means, b, h, queries.at + i);
    ++n;
    // The chosen key, or NaN.
    if (!call.is_choice() || second != second) {
      any = true;
      return;
    }
    second -= static_cast<T>(keys.begin);
    if (second < T(0) || second >= static_cast<T>(keys.count())) second = T(-1);
    else any = true;
  });
  return any;
}

// Adds to dq, leaves the rest in the worker. False: no query sees a key.
template <class T>
bool BackwardWork<T>::compute_cell(const BackwardSlot<T>& slot, std::size_t which, const QueryPiece& queries,
                                   const KeyPieces& keys, const typename PieceSums<T>::Sums& to, int threads,
                                   Worker& worker, std::uint8_t& known) const {
  if (!cells_.describe(slot.slot, queries, keys.rows, threads, worker.workspace)) return false;
  if (!load_rows_of(slot, queries, keys.rows, known != 0, *worker.saved.rows())) return false;
  const auto rows = [&](const auto& view) {
    return view.data ? part_of(view, 2, queries.at, queries.rows.count()) : view;
  };
  std::size_t used = 0;
  worker.numbers.resize(3 + wanted_.v.size());
  const auto make = [&](const Shape& shape) {
    std::vector<T>& numbers = worker.numbers[used++];
    numbers.resize(std::max(numbers.size(), static_cast<std::size_t>(element_count(shape)) + 1));
    return View{numbers.data(), dtype_of<T>(), shape, contiguous_strides(shape), {}};
  };
  Gradients& cell = worker.cell;
  cell = {};
  if (slot.dq) cell.q = make(rows(slot.dq).shape);
  if (wanted_.k) cell.k = make(to.k.shape);
  for (std::size_t s = 0; s < wanted_.v.size(); ++s) cell.v.push_back(wanted_.v[s] ? make(to.v[s].shape) : View{});
  if (wanted_.bias_row) cell.bias = make(to.bias_row.shape);
  if (slot.dbias) cell.bias = part_of(rows(slot.dbias), 3, keys.rows.begin, keys.rows.count());
  worker.parameters.resize(wanted_.parameters.size());
  for (std::size_t p = 0; p < wanted_.parameters.size(); ++p) {
    if (wanted_.parameters[p].is_sink) continue;
    worker.parameters[p].resize(static_cast<std::size_t>(element_count(to.parameters[p].shape)));
    View view = to.parameters[p];
    view.data = worker.parameters[p].data();
    cell.parameters.push_back({wanted_.parameters[p].name, view});
  }

  std::vector<ConstView> out, grad_out;
  for (std::size_t s = 0; s < slot.out.size(); ++s) {
    out.push_back(rows(slot.out[s]));
    grad_out.push_back(rows(slot.grad_out[s]));
  }
  const Inputs inputs{rows(slot.q), keys.k[which], keys.v[which]};
  if (slot.means && !known) {
    find_row_means(cells_.outer(slot.slot), inputs, out, grad_out, worker.saved, worker.workspace.options,
                   rows(slot.grad_lse));
    std::size_t n = 0;
    const View means = rows(slot.means);
    for_each_row(means.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      *row_at<double>(means, b, h, i) = worker.saved.rows()->means[n++];
    });
    known = 1;
  }
  attend_backward_within(cells_.outer(slot.slot), inputs, out, grad_out, &worker.saved, cell, worker.workspace.options,
                         rows(slot.grad_lse));
  if (slot.dq) add_rows<T>(slot.dq, queries.at, cell.q);
  return true;
}

template <class T>
void BackwardWork<T>::add_cell(const typename PieceSums<T>::Sums& to, const Worker& worker) const {
  if (wanted_.k) add_rows<T>(to.k, 0, worker.cell.k);
  for (std::size_t s = 0; s < wanted_.v.size(); ++s)
    if (wanted_.v[s]) add_rows<T>(to.v[s], 0, worker.cell.v[s]);
  if (wanted_.bias_row) add_rows<T>(to.bias_row, 0, worker.cell.bias);
  for (std::size_t p = 0; p < wanted_.parameters.size(); ++p) {
    if (wanted_.parameters[p].is_sink) continue;
    auto* const sum = static_cast<double*>(to.parameters[p].data);
    for (std::size_t m = 0; m < worker.parameters[p].size(); ++m) sum[m] += worker.parameters[p][m];
  }
}

// Its weight is exp(sink − max)/sum, and no value stands behind it.
template <class T>
void BackwardWork<T>::add_sink(const BackwardSlot<T>& slot, const QueryPiece& queries, const View& to) const {
  const Slot& place = cells_.slot(slot.slot);
  const ConstView& sink = cells_.call().sink;
  std::vector<double> out, grad;
  const Shape shape{place.batches.count(), place.heads.count(), queries.rows.count(), 1};
  for_each_row(shape, [&](std::int64_t b, std::int64_t h, std::int64_t n) {
    const std::int64_t i = queries.at + n;
    const double max = *row_at<T>(slot.max, b, h, i), sum = *row_at<T>(slot.sum, b, h, i);
    if (sum == 0) return;
    double logit = 0, along = 0;
    const ConstView one = sink.shape[3] > 1 ? part_of(sink, 3, place.heads.begin + h, 1) : sink;
    load_row(matrix_of(one, 0, 0), 0, 1, &logit);
    for (std::size_t s = 0; s < slot.out.size(); ++s) {
      const std::int64_t dim = slot.out[s].shape[3];
      out.resize(static_cast<std::size_t>(dim));
      grad.resize(static_cast<std::size_t>(dim));
      load_row(matrix_of(slot.out[s], b, h), i, dim, out.data());
      load_row(matrix_of(slot.grad_out[s], b, h), i, dim, grad.data());
      for (std::size_t d = 0; d < out.size(); ++d) along -= out[d] * grad[d];
    }
    if (slot.grad_lse) {
      double lse = 0;
      load_row(matrix_of(slot.grad_lse, b, h), i, 1, &lse);
      along += lse;
    }
    static_cast<double*>(to.data)[to.shape[3] > 1 ? h : 0] += std::exp(logit - max) / sum * along;
  });
}

template class PieceSums<float>;
template class PieceSums<double>;
template class BackwardWork<float>;
template class BackwardWork<double>;

}  // namespace rapt::inline v1::distributed
