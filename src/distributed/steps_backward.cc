#include <algorithm>

#include "attend/inner_call.h"
#include "distributed/backward.h"
#include "distributed/travel.h"
#include "distributed/ways.h"

namespace rapt::inline v1::distributed {
namespace {

// A piece of this process's queries: contiguous copies, so that cells are alike in every process.
struct BackwardPiece {
  QueryPiece place;
  HeadRows rows;
  ConstView q, grad_lse;
  std::vector<ConstView> out;       // of the compute type
  std::vector<ConstView> cell_out;  // what cells are given
  std::vector<ConstView> grad_out;
  RowSums sums;
  Saved saved;
  void* dq = nullptr;  // of the compute type; null: not wanted
};

// The sums of one piece of keys over all queries so far.
struct KeySums {
  View k;
  std::vector<View> v;
  View bias_row;
  std::vector<View> parameters;  // of type f64
};

class StepsBackward {
 public:
  StepsBackward(const Call& call, const Given& given, Saved::Rows& saved, const std::vector<ConstView>& out, Site& site)
      : call_(call),
        site_(site),
        gradients_(call.gradients),
        wanted_(call, call.gradients),
        compute_(call.whole.is_double ? Dtype::f64 : Dtype::f32),
        is_fast_(has_fast_cells(call, site) && (*given.grad_out)[0].dtype == call.whole.q.dtype),
        cell_type_(is_fast_ ? call.whole.q.dtype : compute_),
        cells_(call, &site),
        schedule_(call.keys, call.rank(), call.size()),
        travel_(call, schedule_, site),
        own_keys_(query_pieces(call.keys, call.keys.units_of(call.rank(), call.size()))) {
    for (const View* view : {&gradients_.q, &gradients_.k, &gradients_.bias})
      if (*view) site.clear(*view);
    for (const View& view : gradients_.v)
      if (view) site.clear(view);
    make_pieces(given, saved, out);
    make_cell();
    std::size_t most = 0;
    for (std::int64_t unit = 0; unit < call.keys.units(); ++unit) most = std::max(most, bytes_of(unit));
    for (void*& memory : sums_) memory = site.take(most);
    result_ = site.take(most);
    make_totals();
  }

  void run() {
    for (std::int64_t step = schedule_.first_step(); step <= schedule_.last_step(); ++step) {
      site_.after_transfer();
      store_result();
      travel_.prepare(step);
      const std::int64_t unit = schedule_.unit_at(step);
      void* const memory = sums_[static_cast<std::size_t>(unit & 1)];
      if (unit >= 0 && call_.rank() == 0) site_.clear(memory, bytes_of(unit));
      site_.before_transfer();
      if (unit >= 0) {
        const std::array<KeySums, 2> sums = views(unit, memory);
        const std::array<KeyPieces, 2> keys = travel_.at(unit);
        for (const std::size_t piece : {std::size_t{0}, std::size_t{1}})
          add(keys[piece], sums[piece], unit == 0 && piece == 0);
        if (call_.rank() == last()) {
          add_to_totals(unit, sums);
          if (schedule_.owns(unit)) store_keys(unit, sums);
        }
      }
      travel_.exchange(step);
      pass_on(step);
    }
    site_.after_transfer();
    store_result();
    share_totals();
    for (const BackwardPiece& piece : pieces_)
      if (piece.dq)
        site_.store(contiguous(piece.dq, compute_, piece.q.shape, site_.device()), rows_of(gradients_.q, piece));
  }

 private:
  int last() const { return call_.size() - 1; }
  View make(Dtype dtype, const Shape& shape) const {
    return contiguous(site_.take(padded_bytes(shape, dtype)), dtype, shape, site_.device());
  }
  View copied(const ConstView& from, Dtype dtype) const {
    const View to = make(dtype, from.shape);
    site_.store(from, to);
    return to;
  }
  template <class V>
  static V rows_of(const V& view, const BackwardPiece& piece) {
    return part_of(view, 2, piece.place.at, piece.place.rows.count());
  }
  Shape shape_of(const BackwardPiece& piece, std::int64_t dim) const {
    return {piece.rows.batches, piece.rows.heads, piece.rows.rows, dim};
  }

  void make_pieces(const Given& given, Saved::Rows& saved, const std::vector<ConstView>& out) {
    const Problem& p = call_.whole;
    const std::int64_t own = call_.inputs.q.shape[2];
    const RowSums all = site_.rows_of(saved);
    const Dtype low = p.q.dtype;
    for (const QueryPiece& at : query_pieces(call_.queries, call_.queries.units_of(call_.rank(), call_.size()))) {
      BackwardPiece piece;
      piece.place = at;
      piece.rows = {p.batch, p.heads, at.rows.count()};
      piece.q = copied(rows_of(call_.inputs.q, piece), low);
      for (const ConstView& view : *given.grad_out) piece.grad_out.push_back(copied(rows_of(view, piece), view.dtype));
      if (call_.grad_lse) piece.grad_lse = copied(rows_of(call_.grad_lse, piece), call_.grad_lse.dtype);
      for (const ConstView& view : out) piece.out.push_back(copied(rows_of(view, piece), compute_));
      const std::int64_t dim = is_fast_ ? p.v[0].dim : 0;
      piece.sums = site_.take_rows(piece.rows.count(), dim);
      for (const auto& [from, to] : {std::pair{all.max, piece.sums.max}, {all.sum, piece.sums.sum}})
        site_.store(rows_of(contiguous(from, compute_, {p.batch, p.heads, own, 1}, site_.device()), piece),
                    contiguous(to, compute_, shape_of(piece, 1), site_.device()));
      piece.cell_out = piece.out;
      if (is_fast_) {
        const View kept = make(low, piece.out[0].shape);
        site_.split(piece.out[0].data, element_count(kept.shape), low, kept.data, site_.remainder_of(piece.sums));
        piece.cell_out = {kept};
      }
      site_.use_rows(*piece.saved.rows(), piece.sums, dim);
      piece.saved.rows()->of_more_keys = true;
      if (gradients_.q) {
        const std::size_t bytes = padded_bytes(piece.q.shape, compute_);
        piece.dq = site_.take(bytes);
        site_.clear(piece.dq, bytes);
      }
      pieces_.push_back(std::move(piece));
    }
  }

  // Memory for the gradients of one cell.
  void make_cell() {
    const std::int64_t queries = call_.queries.piece_rows(), keys = call_.keys.piece_rows();
    const auto take = [&](Shape shape, std::int64_t rows) {
      shape[2] = rows;
      return site_.take(padded_bytes(shape, compute_));
    };
    if (gradients_.q) cell_q_ = take(call_.inputs.q.shape, queries);
    if (wanted_.k) cell_k_ = take(call_.inputs.k.shape, keys);
    for (std::size_t s = 0; s < wanted_.v.size(); ++s)
      cell_v_.push_back(wanted_.v[s] ? take(call_.inputs.v[s].shape, keys) : nullptr);
    if (wanted_.bias_row) {
      Shape shape = call_.options.bias.shape;
      shape[3] = keys;
      cell_bias_ = take(shape, 1);
    }
    for (const Wanted::Parameter& parameter : wanted_.parameters)
      cell_parameters_.push_back(make(Dtype::f64, parameter.shape));
  }

  void make_totals() {
    std::size_t at = 0;
    const auto put = [&](Dtype dtype, const Shape& shape) {
      const std::size_t begin = at;
      at += padded_bytes(shape, dtype);
      return begin;
    };
    std::vector<std::size_t> places;
    for (const Wanted::Parameter& parameter : wanted_.parameters) places.push_back(put(Dtype::f64, parameter.shape));
    Shape bias = call_.options.bias.shape;
    bias[3] = call_.keys.length();
    if (wanted_.bias_row) places.push_back(put(compute_, bias));
    total_bytes_ = at;
    totals_ = site_.take(at);
    site_.clear(totals_, at);
    auto* const begin = static_cast<std::byte*>(totals_);
    for (std::size_t n = 0; n < wanted_.parameters.size(); ++n)
      parameter_totals_.push_back(
          contiguous(begin + places[n], Dtype::f64, wanted_.parameters[n].shape, site_.device()));
    if (wanted_.bias_row) bias_total_ = contiguous(begin + places.back(), compute_, bias, site_.device());
  }

  std::array<KeySums, 2> views(std::int64_t unit, void* memory, std::size_t* bytes = nullptr) const {
    std::array<KeySums, 2> sums;
    auto* const begin = static_cast<std::byte*>(memory);
    std::size_t at = 0;
    const auto put = [&](Dtype dtype, const Shape& shape) {
      const View view = contiguous(begin ? begin + at : nullptr, dtype, shape, site_.device());
      at += padded_bytes(shape, dtype);
      return view;
    };
    for (const int piece : {0, 1}) {
      KeySums& to = sums[static_cast<std::size_t>(piece)];
      const std::int64_t rows = call_.keys.rows({unit, piece}).count();
      const auto put_rows = [&](Shape shape) {
        shape[2] = rows;
        return put(compute_, shape);
      };
      if (wanted_.k) to.k = put_rows(call_.inputs.k.shape);
      for (std::size_t s = 0; s < wanted_.v.size(); ++s)
        to.v.push_back(wanted_.v[s] ? put_rows(call_.inputs.v[s].shape) : View{});
      if (wanted_.bias_row) {
        Shape shape = call_.options.bias.shape;
        shape[3] = rows;
        to.bias_row = put(compute_, shape);
      }
      for (const Wanted::Parameter& parameter : wanted_.parameters)
        to.parameters.push_back(put(Dtype::f64, parameter.shape));
    }
    if (bytes) *bytes = at;
    return sums;
  }
  std::size_t bytes_of(std::int64_t unit) const {
    std::size_t bytes = 0;
    views(unit, nullptr, &bytes);
    return bytes;
  }

  // Queries in their order, so that every sum has one.
  void add(const KeyPieces& keys, const KeySums& sums, bool has_sink) {
    for (BackwardPiece& piece : pieces_) {
      if (cells_.describe(0, piece.place, keys.rows, call_.whole.threads, workspace_)) add_cell(piece, keys, sums);
      // The sink belongs to no key: the first piece has it.
      for (std::size_t p = 0; p < wanted_.parameters.size() && has_sink; ++p)
        if (wanted_.parameters[p].is_sink)
          site_.add_sink(piece.sums, piece.out, piece.grad_out, piece.grad_lse, piece.rows, call_.sink,
                         static_cast<double*>(sums.parameters[p].data), sums.parameters[p].shape[3] > 1);
    }
  }

  void add_cell(BackwardPiece& piece, const KeyPieces& keys, const KeySums& sums) {
    Gradients cell;
    const auto like = [&](void* data, const View& view) {
      return contiguous(data, cell_type_, view.shape, site_.device());
    };
    if (piece.dq) cell.q = contiguous(cell_q_, cell_type_, piece.q.shape, site_.device());
    if (wanted_.k) cell.k = like(cell_k_, sums.k);
    for (std::size_t s = 0; s < wanted_.v.size(); ++s)
      cell.v.push_back(wanted_.v[s] ? like(cell_v_[s], sums.v[s]) : View{});
    if (wanted_.bias_row) cell.bias = contiguous(cell_bias_, compute_, sums.bias_row.shape, site_.device());
    else if (gradients_.bias)
      cell.bias = part_of(rows_of(gradients_.bias, piece), 3, keys.rows.begin, keys.rows.count());
    for (std::size_t p = 0; p < wanted_.parameters.size(); ++p)
      if (!wanted_.parameters[p].is_sink) cell.parameters.push_back({wanted_.parameters[p].name, cell_parameters_[p]});
    attend_backward_within(cells_.outer(0), {piece.q, keys.k[0], keys.v[0]}, piece.cell_out, piece.grad_out,
                           &piece.saved, cell, workspace_.options, piece.grad_lse);
    const auto sum = [&](const View& from, void* to, Dtype type) {
      site_.add(from.data, from.dtype, to, type, element_count(from.shape));
    };
    if (piece.dq) sum(cell.q, piece.dq, compute_);
    if (wanted_.k) sum(cell.k, sums.k.data, compute_);
    for (std::size_t s = 0; s < wanted_.v.size(); ++s)
      if (wanted_.v[s]) sum(cell.v[s], sums.v[s].data, compute_);
    if (wanted_.bias_row) sum(cell.bias, sums.bias_row.data, compute_);
    for (std::size_t p = 0; p < wanted_.parameters.size(); ++p)
      if (!wanted_.parameters[p].is_sink) sum(cell_parameters_[p], sums.parameters[p].data, Dtype::f64);
  }

  void add_to_totals(std::int64_t unit, const std::array<KeySums, 2>& sums) {
    for (const int piece : {0, 1}) {
      const KeySums& from = sums[static_cast<std::size_t>(piece)];
      for (std::size_t p = 0; p < from.parameters.size(); ++p)
        site_.add(from.parameters[p].data, Dtype::f64, parameter_totals_[p].data, Dtype::f64,
                  element_count(from.parameters[p].shape));
      const Span rows = call_.keys.rows({unit, piece});
      if (wanted_.bias_row && rows.count() > 0)
        site_.store(from.bias_row, part_of(bias_total_, 3, rows.begin, rows.count()));
    }
  }

  void pass_on(std::int64_t step) {
    std::vector<Message> messages;
    for (const Schedule::Transfer& transfer : schedule_.sums(step)) {
      const bool is_result = transfer.receives && transfer.process == last();
      messages.push_back({is_result ? result_ : sums_[static_cast<std::size_t>(transfer.unit & 1)],
                          bytes_of(transfer.unit), transfer.process, transfer.receives});
      if (is_result) result_unit_ = transfer.unit;
    }
    if (messages.empty()) return;
    site_.before_transfer();
    exchange_some(call_, site_, std::move(messages));
  }

  void store_result() {
    if (result_unit_ >= 0) store_keys(result_unit_, views(result_unit_, result_));
    result_unit_ = -1;
  }

  void store_keys(std::int64_t unit, const std::array<KeySums, 2>& sums) const {
    for (const int piece : {0, 1}) {
      const Span rows = call_.keys.rows({unit, piece});
      const KeySums& from = sums[static_cast<std::size_t>(piece)];
      for (const QueryPiece& own : own_keys_) {
        if (rows.count() == 0 || own.rows.begin != rows.begin) continue;
        if (wanted_.k) site_.store(from.k, part_of(gradients_.k, 2, own.at, rows.count()));
        for (std::size_t s = 0; s < wanted_.v.size(); ++s)
          if (wanted_.v[s]) site_.store(from.v[s], part_of(gradients_.v[s], 2, own.at, rows.count()));
      }
    }
  }

  // From the process that added everything to all.
  void share_totals() {
    std::vector<Message> messages;
    if (call_.rank() < last()) messages.push_back({totals_, total_bytes_, last(), true});
    for (int other = 0; call_.rank() == last() && other < last(); ++other)
      messages.push_back({totals_, total_bytes_, other, false});
    site_.before_transfer();
    exchange_some(call_, site_, std::move(messages));
    site_.after_transfer();
    for (std::size_t p = 0; p < wanted_.parameters.size(); ++p)
      site_.store(parameter_totals_[p], gradients_.parameters[p].value);
    // Of a single query, a process without a row may want no row of it either.
    if (wanted_.bias_row && gradients_.bias.shape[2] > 0) site_.store(bias_total_, gradients_.bias);
  }

  const Call& call_;
  Site& site_;
  const Gradients& gradients_;
  Wanted wanted_;
  Dtype compute_;
  bool is_fast_;
  Dtype cell_type_;  // of the gradients that a cell gives
  Cells cells_;
  Schedule schedule_;
  Travel travel_;
  std::vector<QueryPiece> own_keys_;
  std::vector<BackwardPiece> pieces_;
  void *cell_q_ = nullptr, *cell_k_ = nullptr, *cell_bias_ = nullptr;
  std::vector<void*> cell_v_;
  std::vector<View> cell_parameters_;
  std::array<void*, 2> sums_{};
  void* result_ = nullptr;
  std::int64_t result_unit_ = -1;
  void* totals_ = nullptr;
  std::size_t total_bytes_ = 0;
  std::vector<View> parameter_totals_;
  View bias_total_;
  Cells::Workspace workspace_;
};

}  // namespace

void steps_backward(const Call& call, const Given& given) {
  const Dtype compute = call.whole.is_double ? Dtype::f64 : Dtype::f32;
  const auto site = site_of(call.whole.device, call.options.stream, compute);
  if (call.slots->count() == 0) {
    const Gradients& g = call.gradients;
    for (const View* view : {&g.q, &g.k, &g.bias})
      if (*view) site->clear(*view);
    for (const View& view : g.v)
      if (view) site->clear(view);
    for (const NamedGradient& parameter : g.parameters) site->clear(parameter.value);
    return;
  }
  const bool has_rows = given.saved && given.saved->rows();
  std::vector<ConstView> out = *given.out;
  Saved again;
  Saved::Rows* rows = has_rows ? given.saved->rows() : again.rows();
  const std::int64_t count = call.whole.batch * call.whole.heads * call.inputs.q.shape[2];
  if (has_rows) {
    const std::vector<std::int64_t> dims = wide_dims(call, out);
    for (std::size_t s = 0; s < out.size() && rows->has_wide_out; ++s)
      if (dims[s] > 0) out[s] = contiguous(site->wide_out(*rows, dims, s), Dtype::f32, out[s].shape, site->device());
  } else if (call.is_additive) {
    const RowSums none = site->keep_rows(*rows, count, {});
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(compute);
    site->clear(none.max, bytes);
    site->clear(none.sum, bytes);
  } else {
    // Without the rows of the forward pass they are computed again, and so is what was rounded.
    Outputs outputs;
    outputs.saved = &again;
    for (ConstView& view : out) {
      outputs.out.push_back(
          contiguous(site->take(padded_bytes(view.shape, compute)), compute, view.shape, site->device()));
      view = outputs.out.back();
    }
    steps_forward(call, outputs);
  }
  StepsBackward(call, given, *rows, out, *site).run();
}

}  // namespace rapt::inline v1::distributed
