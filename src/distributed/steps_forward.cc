#include <algorithm>

#include "attend/inner_call.h"
#include "distributed/travel.h"
#include "distributed/ways.h"

namespace rapt::inline v1::distributed {
namespace {

// A piece of this process's queries, and the sums over the keys that it has met.
struct ForwardPiece {
  QueryPiece place;
  HeadRows rows;
  ConstView q;
  RowSums sums;
  std::vector<void*> totals;  // of each value set
};

class StepsForward {
 public:
  StepsForward(const Call& call, Site& site)
      : call_(call),
        site_(site),
        compute_(call.whole.is_double ? Dtype::f64 : Dtype::f32),
        cells_(call, &site),
        schedule_(call.keys, call.rank(), call.size()),
        travel_(call, schedule_, site) {
    const Problem& p = call.whole;
    std::int64_t most = 0;
    for (const QueryPiece& at : query_pieces(call.queries, call.queries.units_of(call.rank(), call.size()))) {
      ForwardPiece piece{at, {p.batch, p.heads, at.rows.count()}, {}, {}, {}};
      const std::int64_t rows = piece.rows.count();
      // Copies, so that cells are alike in every process.
      const ConstView q = part_of(call.inputs.q, 2, at.at, at.rows.count());
      piece.q = make(q.dtype, q.shape);
      site.store(q, {const_cast<void*>(piece.q.data), piece.q.dtype, piece.q.shape, piece.q.strides, piece.q.device});
      piece.sums = site.take_rows(rows, 0);
      site.start(piece.sums, call.is_additive);
      for (const Operand& v : p.v) {
        const std::size_t bytes = static_cast<std::size_t>(rows * v.dim) * size_of(compute_);
        piece.totals.push_back(site.take(bytes));
        site.clear(piece.totals.back(), bytes);
      }
      most = std::max(most, rows);
      pieces_.push_back(std::move(piece));
    }
    part_ = site.take_rows(most, 0);
    for (const Operand& v : p.v)
      parts_.push_back(site.take(static_cast<std::size_t>(most * v.dim) * size_of(compute_)));
  }

  void run() {
    for (std::int64_t step = schedule_.first_step(); step <= schedule_.last_step(); ++step) {
      site_.after_transfer();
      travel_.prepare(step);
      site_.before_transfer();
      if (const std::int64_t unit = schedule_.unit_at(step); unit >= 0)
        for (const KeyPieces& keys : travel_.at(unit))
          for (ForwardPiece& piece : pieces_) add(piece, keys);
      travel_.exchange(step);
    }
    for (ForwardPiece& piece : pieces_) {
      part_of_piece(piece);
      if (!call_.is_additive) site_.finish(piece.sums, sets_, piece.rows, call_.sink);
    }
  }

  void store(const Outputs& outputs) {
    for (const ForwardPiece& piece : pieces_) {
      for (std::size_t s = 0; s < outputs.out.size(); ++s) site_.store(total(piece, s), rows_of(outputs.out[s], piece));
      if (outputs.lse) site_.store_lse(piece.sums, rows_of(outputs.lse, piece));
    }
    if (outputs.saved) save(outputs, *outputs.saved->rows());
  }

 private:
  View make(Dtype dtype, const Shape& shape) const {
    return contiguous(site_.take(padded_bytes(shape, dtype)), dtype, shape, site_.device());
  }
  static View rows_of(const View& view, const ForwardPiece& piece) {
    return part_of(view, 2, piece.place.at, piece.place.rows.count());
  }
  Shape shape_of(const ForwardPiece& piece, std::int64_t dim) const {
    return {piece.rows.batches, piece.rows.heads, piece.rows.rows, dim};
  }
  View total(const ForwardPiece& piece, std::size_t set) const {
    return contiguous(piece.totals[set], compute_, shape_of(piece, call_.whole.v[set].dim), site_.device());
  }
  // What merge() and its like are told about a piece.
  void part_of_piece(const ForwardPiece& piece) {
    sets_.clear();
    for (std::size_t s = 0; s < piece.totals.size(); ++s)
      sets_.push_back({piece.totals[s], parts_[s], compute_, nullptr, call_.whole.v[s].dim});
  }

  void add(ForwardPiece& piece, const KeyPieces& keys) {
    if (!cells_.describe(0, piece.place, keys.rows, call_.whole.threads, workspace_)) return;
    const Inputs inputs{piece.q, keys.k[0], keys.v[0]};
    if (has_fast_cells(call_, site_) && add_fast(piece, inputs)) return;
    part_of_piece(piece);
    Outputs outputs;
    for (std::size_t s = 0; s < parts_.size(); ++s)
      outputs.out.push_back(contiguous(parts_[s], compute_, shape_of(piece, sets_[s].dim), site_.device()));
    const RowSums part{part_.max, part_.sum, piece.sums.rows};
    const auto row_view = [&](void* data) { return contiguous(data, compute_, shape_of(piece, 1), site_.device()); };
    if (call_.is_additive) {
      outputs.lse = row_view(part.sum);
    } else {
      outputs.row_max = row_view(part.max);
      outputs.row_sum = row_view(part.sum);
    }
    attend_within(cells_.outer(0), inputs, outputs, workspace_.options);
    if (call_.is_additive) site_.add_rows(piece.sums, part.sum, sets_);
    else site_.merge(piece.sums, part, sets_);
  }

  // False: the kernels of this call keep no more than a rounded output.
  bool add_fast(ForwardPiece& piece, const Inputs& inputs) {
    Outputs outputs;
    outputs.out = {contiguous(parts_[0], inputs.q.dtype, shape_of(piece, call_.whole.v[0].dim), site_.device())};
    outputs.saved = &saved_;
    attend_within(cells_.outer(0), inputs, outputs, workspace_.options);
    Saved::Rows& rows = *saved_.rows();
    if (rows.remainder_dim == 0) return false;
    part_of_piece(piece);
    const RowSums part = site_.rows_of(rows);
    sets_[0].part_dtype = inputs.q.dtype;
    sets_[0].remainder = site_.remainder_of(part);
    site_.merge(piece.sums, part, sets_);
    return true;
  }

  void save(const Outputs& outputs, Saved::Rows& saved) {
    const Problem& p = call_.whole;
    const std::int64_t own = call_.inputs.q.shape[2];
    const std::vector<std::int64_t> dims = wide_dims(call_, outputs.out);
    const RowSums rows = site_.keep_rows(saved, p.batch * p.heads * own, dims);
    const auto put = [&](void* to, Dtype dtype, std::int64_t dim, const auto& of) {
      const View all = contiguous(to, dtype, {p.batch, p.heads, own, dim}, site_.device());
      for (const ForwardPiece& piece : pieces_)
        site_.store(contiguous(of(piece), dtype, shape_of(piece, dim), site_.device()), rows_of(all, piece));
    };
    put(rows.max, compute_, 1, [](const ForwardPiece& piece) { return piece.sums.max; });
    put(rows.sum, compute_, 1, [](const ForwardPiece& piece) { return piece.sums.sum; });
    if (call_.is_additive) site_.clear(rows.sum, static_cast<std::size_t>(rows.rows) * size_of(compute_));
    for (std::size_t s = 0; s < dims.size(); ++s) {
      if (dims[s] == 0) continue;
      saved.has_wide_out = true;
      put(site_.wide_out(saved, dims, s), Dtype::f32, dims[s],
          [s](const ForwardPiece& piece) { return piece.totals[s]; });
    }
  }

  const Call& call_;
  Site& site_;
  Dtype compute_;
  Cells cells_;
  Schedule schedule_;
  Travel travel_;
  std::vector<ForwardPiece> pieces_;
  RowSums part_;
  std::vector<void*> parts_;
  std::vector<OutSums> sets_;
  Cells::Workspace workspace_;
  Saved saved_;
};

}  // namespace

void steps_forward(const Call& call, const Outputs& outputs) {
  const auto site = site_of(call.whole.device, call.options.stream, call.whole.is_double ? Dtype::f64 : Dtype::f32);
  if (call.slots->count() == 0) {
    if (outputs.saved) site->keep_rows(*outputs.saved->rows(), 0, {});
    return;
  }
  StepsForward forward(call, *site);
  forward.run();
  forward.store(outputs);
}

}  // namespace rapt::inline v1::distributed
