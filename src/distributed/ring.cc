#include <cmath>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <memory>

#include "backends/host/storage.h"
#include "distributed/feed.h"
#include "distributed/forward.h"
#include "distributed/kept_memory.h"
#include "distributed/totals.h"
#include "distributed/ways.h"
#include "distributed/whole_rows.h"

namespace rapt::inline v1::distributed {
namespace {

int sums_tag(std::int64_t unit) { return 10000 + static_cast<int>(unit % 8192); }
int result_tag(std::int64_t unit) { return 20000 + static_cast<int>(unit % 8192); }

// The sums of the pieces on their way: from process 0, which has the first queries in the order of sums, to the last one, and
// from there to whom the keys belong.
template <class T>
class Relay {
 public:
  Relay(const Call& call, const Wanted& wanted, const Gradients& gradients)
      : call_(call), wanted_(wanted), gradients_(gradients), totals_(call, wanted), groups_(sum_groups(call)) {
    const Span own = call.keys.units_of(call.rank(), call.size());
    own_ = query_pieces(call.keys, own);
    next_result_ = own.begin * parts_of_unit();
    last_result_ = call.rank() == last() ? next_result_ : own.end * parts_of_unit();
    receive_results();
  }

  // As for Feed: after a failure messages keep their memory.
  ~Relay() {
    if (std::uncaught_exceptions() == 0) return;
    for (auto& sums : sent_) keep_for_messages(std::move(sums));
    for (auto* list : {&arriving_, &results_})
      for (auto& [sums, message] : *list) keep_for_messages(std::move(sums));
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // A unit has so many parts, a piece and a group of slots each, and parts of all units are counted.
  std::int64_t parts_of_unit() const { return 2 * groups_; }

  // The sums of a part so far. Parts are taken in order.
  template <class Progress>
  std::unique_ptr<PieceSums<T>> take(std::int64_t part, const Progress& progress) {
    if (call_.rank() == 0) {
      auto sums = make(part);
      sums->clear();
      return sums;
    }
    for (; started_ < std::min(part + 1 + kAhead, call_.keys.units() * parts_of_unit()); ++started_) {
      auto sums = make(started_);
      std::vector<std::byte>& bytes = sums->bytes();
      const int message = call_.communicator->start_receive(bytes.data(), bytes.size(), call_.rank() - 1,
                                                            sums_tag(started_ / parts_of_unit()));
      arriving_.emplace_back(std::move(sums), message);
    }
    while (!call_.communicator->test(arriving_.front().second)) {
      progress();
      std::this_thread::yield();
    }
    auto sums = std::move(arriving_.front().first);
    arriving_.pop_front();
    return sums;
  }

  void pass_on(std::unique_ptr<PieceSums<T>> sums) {
    const std::int64_t unit = sums->place().unit;
    const int own = call_.rank(), owner = call_.keys.owner(unit, call_.size());
    if (own == last()) {
      totals_.add(*sums);
      if (owner == own) return store(*sums);
    }
    const int to = own == last() ? owner : own + 1;
    const int tag = own == last() ? result_tag(unit) : sums_tag(unit);
    std::vector<std::byte>& bytes = sums->bytes();
    sending_.push_back(call_.communicator->start_send(bytes.data(), bytes.size(), to, tag));
    sent_.push_back(std::move(sums));
    progress();
  }

  void progress() {
    for (std::size_t n = 0; n < sending_.size();)
      if (call_.communicator->test(sending_[n])) {
        sending_.erase(sending_.begin() + static_cast<std::ptrdiff_t>(n));
        sent_.erase(sent_.begin() + static_cast<std::ptrdiff_t>(n));
      } else {
        ++n;
      }
    while (!results_.empty() && call_.communicator->test(results_.front().second)) {
      store(*results_.front().first);
      results_.pop_front();
      receive_results();
    }
  }

  // All of this process's keys, and what belongs to all.
  template <class Progress>
  void finish(const Progress& progress) {
    while (!results_.empty() || !sending_.empty()) {
      progress();
      std::this_thread::yield();
    }
    totals_.share_all(last());
    totals_.store(gradients_);
  }

 private:
  static constexpr std::int64_t kAhead = 2;
  static constexpr std::size_t kResults = 4;

  int last() const { return call_.size() - 1; }

  std::unique_ptr<PieceSums<T>> make(std::int64_t part) const {
    const std::int64_t group = part / 2 % groups_, slots = call_.slots->count();
    return std::make_unique<PieceSums<T>>(call_, wanted_, KeyPlace{part / parts_of_unit(), static_cast<int>(part % 2)},
                                          Span{slots * group / groups_, slots * (group + 1) / groups_});
  }

  // Few at a time: what is here is stored and its memory free again.
  void receive_results() {
    for (; results_.size() < kResults && next_result_ < last_result_; ++next_result_) {
      auto sums = make(next_result_);
      std::vector<std::byte>& bytes = sums->bytes();
      const int message = call_.communicator->start_receive(bytes.data(), bytes.size(), last(),
                                                            result_tag(next_result_ / parts_of_unit()));
      results_.emplace_back(std::move(sums), message);
    }
  }

  void store(const PieceSums<T>& sums) const {
    const Span rows = call_.keys.rows(sums.place());
    for (const QueryPiece& place : own_) {
      if (rows.count() == 0 || place.rows.begin != rows.begin) continue;
      for (std::int64_t n = sums.slots().begin; n < sums.slots().end; ++n) {
        const auto& from = sums.slot(n);
        const auto target = [&](const View& view) {
          return part_of(slot_of(view, call_.slots->at(n), call_.whole.heads), 2, place.at, place.rows.count());
        };
        if (wanted_.k) store_view<T>(from.k, target(gradients_.k));
        for (std::size_t s = 0; s < wanted_.v.size(); ++s)
          if (wanted_.v[s]) store_view<T>(from.v[s], target(gradients_.v[s]));
      }
    }
  }

  using Receiving = std::deque<std::pair<std::unique_ptr<PieceSums<T>>, int>>;

  const Call& call_;
  const Wanted& wanted_;
  const Gradients& gradients_;
  Totals<T> totals_;
  std::int64_t groups_, next_result_ = 0, last_result_ = 0;
  std::vector<QueryPiece> own_;  // pieces of keys
  std::vector<std::unique_ptr<PieceSums<T>>> sent_;
  std::vector<int> sending_;
  Receiving arriving_, results_;
  std::int64_t started_ = 0;
};

}  // namespace

int threads_of(const Call& call) { return call.whole.threads; }

std::int64_t sum_groups(const Call& call) {
  constexpr std::int64_t kWorth = 32;  // times what is waited for
  const std::int64_t pieces = 2 * call.keys.units();
  const std::int64_t wanted = (kWorth * (call.size() - 1) + pieces - 1) / pieces;
  return std::max<std::int64_t>(1, std::min(wanted, call.slots->count()));
}

template <class T>
void store_lse(const Call& call, const View& lse, const View& max, const View& sum) {
  if (!lse) return;
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  for_each_row(max.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const T m = *row_at<T>(max, b, h, i), s = *row_at<T>(sum, b, h, i);
    T value = m;
    if (call.is_solved()) value = m == kNothing ? m : m + s;
    else if (!call.is_choice()) value = s == T(0) ? kNothing : m + std::log(s);
    store_row(&value, 1, matrix_of(lse, b, h), i);
  });
}

template <class T>
void store_view(const View& src, const View& dst) {
  for_each_row(src.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    store_row(row_at<T>(src, b, h, i), src.shape[3], matrix_of(dst, b, h), i);
  });
}

template <class T>
void keep_wide_out(const Outputs& outputs, const std::vector<View>& wide, Saved::Rows& saved) {
  saved.has_wide_out = false;
  saved.wide_out.assign(outputs.out.size(), {});
  if constexpr (std::is_same_v<T, float>)
    for (std::size_t s = 0; s < wide.size(); ++s) {
      if (!has_16_bits(outputs.out[s].dtype)) continue;
      saved.has_wide_out = true;
      const auto* numbers = static_cast<const float*>(wide[s].data);
      saved.wide_out[s].assign(numbers, numbers + element_count(wide[s].shape));
    }
}

template <class T>
void ring_forward(const Call& call, const Outputs& outputs) {
  const Cells cells(call);
  const std::int64_t rows = call.inputs.q.shape[2];
  std::vector<Block<T>> own_totals;
  std::vector<View> totals;
  // Sums are made where the result goes, if its type allows.
  own_totals.reserve(outputs.out.size());
  for (const View& out : outputs.out) {
    if (out.dtype == dtype_of<T>()) totals.push_back(out);
    else totals.push_back(own_totals.emplace_back(out.shape).view());
  }
  std::vector<T> max(static_cast<std::size_t>(call.whole.batch * call.whole.heads * rows)), sum(max.size());
  const View max_view = rows_view(call, max.data(), rows), sum_view = rows_view(call, sum.data(), rows);
  std::vector<ForwardSlot<T>> slots;
  for (std::int64_t n = 0; n < cells.slots(); ++n) {
    const auto of = [&](const auto& view) { return slot_of(view, cells.slot(n), call.whole.heads); };
    ForwardSlot<T> slot;
    slot.slot = n;
    slot.q = of(call.inputs.q);
    for (const View& total : totals) slot.total.push_back(of(total));
    slot.max = of(max_view);
    slot.sum = of(sum_view);
    if (rows > 0) slots.push_back(slot);
  }
  std::vector<QueryPiece> pieces = query_pieces(call.queries, call.queries.units_of(call.rank(), call.size()));
  if (call.is_solved()) {
    const AllKeys keys(call);
    WholeRows<T>(cells, std::move(pieces), keys.pieces()).forward(slots, Tasks(threads_of(call), [] {}));
  } else {
    ForwardWork<T> work(cells, std::move(slots), std::move(pieces));
    Feed feed(call);
    const Tasks tasks(threads_of(call), [&] { feed.progress(); });
    for (std::int64_t unit = 0; unit < feed.units(); ++unit) work.add(feed.take(unit), tasks);
    work.finish(tasks);
  }
  for (std::size_t s = 0; s < totals.size(); ++s)
    if (totals[s].data != outputs.out[s].data) store_view<T>(totals[s], outputs.out[s]);
  store_lse<T>(call, outputs.lse, max_view, sum_view);
  if (!outputs.saved) return;
  Saved::Rows& saved = *outputs.saved->rows();
  saved.resize(static_cast<std::int64_t>(max.size()), std::is_same_v<T, double>);
  std::copy(max.begin(), max.end(), saved.max<T>());
  if (call.is_additive) std::fill(sum.begin(), sum.end(), T(0));
  std::copy(sum.begin(), sum.end(), saved.sum<T>());
  if (call.is_softmax) keep_wide_out<T>(outputs, totals, saved);
}

template <class T>
void ring_backward(const Call& call, const Given& given, const Saved::Rows& rows) {
  const Cells cells(call);
  const Gradients& gradients = call.gradients;
  const Wanted wanted(call, gradients);
  const std::int64_t own_rows = call.inputs.q.shape[2];
  store_zeros(gradients);  // of keys that no query sees
  auto& saved = const_cast<Saved::Rows&>(rows);
  const View max = rows_view(call, saved.max<T>(), own_rows), sum = rows_view(call, saved.sum<T>(), own_rows);
  Block<T> own_dq;
  View dq = gradients.q;
  if (dq && dq.dtype != dtype_of<T>()) {
    own_dq = Block<T>(dq.shape);
    dq = own_dq.view();
  }
  const bool has_means = call.is_solved() || call.is_softmax;
  std::vector<double> means(has_means ? static_cast<std::size_t>(element_count(max.shape)) + 1 : 0);
  std::vector<BackwardSlot<T>> slots;
  for (std::int64_t n = 0; n < cells.slots() && own_rows > 0; ++n) {
    const auto of = [&](const auto& view) { return slot_of(view, cells.slot(n), call.whole.heads); };
    BackwardSlot<T> slot;
    slot.slot = n;
    slot.q = of(call.inputs.q);
    for (const ConstView& view : *given.out) slot.out.push_back(of(view));
    for (const ConstView& view : *given.grad_out) slot.grad_out.push_back(of(view));
    slot.grad_lse = of(call.grad_lse);
    slot.max = of(max);
    slot.sum = of(sum);
    if (has_means) slot.means = of(rows_view(call, means.data(), own_rows));
    slot.dq = of(dq);
    if (!call.shared_bias) slot.dbias = of(gradients.bias);
    slots.push_back(slot);
  }
  const std::vector<QueryPiece> pieces = query_pieces(call.queries, call.queries.units_of(call.rank(), call.size()));
  if (call.is_solved()) {
    const AllKeys keys(call);
    WholeRows<T>(cells, pieces, keys.pieces()).find_means(slots, Tasks(threads_of(call), [] {}));
  }
  BackwardWork<T> work(cells, wanted, std::move(slots), pieces);
  Feed feed(call);
  Relay<T> relay(call, wanted, gradients);
  const auto progress = [&] {
    feed.progress();
    relay.progress();
  };
  const Tasks tasks(threads_of(call), progress);
  for (std::int64_t unit = 0; unit < feed.units(); ++unit) {
    const std::array<KeyPieces, 2> keys = feed.take(unit);
    for (std::int64_t part = unit * relay.parts_of_unit(); part < (unit + 1) * relay.parts_of_unit(); ++part) {
      auto sums = relay.take(part, progress);
      work.add(keys[static_cast<std::size_t>(sums->place().piece)], *sums, tasks);
      relay.pass_on(std::move(sums));
    }
  }
  relay.finish(progress);
  if (dq && dq.data != gradients.q.data) store_view<T>(dq, gradients.q);
}

template void ring_forward<float>(const Call&, const Outputs&);
template void ring_forward<double>(const Call&, const Outputs&);
template void ring_backward<float>(const Call&, const Given&, const Saved::Rows&);
template void ring_backward<double>(const Call&, const Given&, const Saved::Rows&);
template void keep_wide_out<float>(const Outputs&, const std::vector<View>&, Saved::Rows&);
template void keep_wide_out<double>(const Outputs&, const std::vector<View>&, Saved::Rows&);
template void store_lse<float>(const Call&, const View&, const View&, const View&);
template void store_lse<double>(const Call&, const View&, const View&, const View&);
template void store_view<float>(const View&, const View&);
template void store_view<double>(const View&, const View&);

}  // namespace rapt::inline v1::distributed
