#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attend/problem.h"

// Where the arrays of a call over processes are, and where they are summed: ordinary memory, or a device's.
namespace rapt::inline v1::distributed {

// Softmax statistics of some rows, contiguous numbers of the compute type.
struct RowSums {
  void* max = nullptr;
  void* sum = nullptr;
  std::int64_t rows = 0;
};

// One value set of some rows: [rows, dim], contiguous.
struct OutSums {
  void* total = nullptr;  // of the compute type
  const void* part = nullptr;
  Dtype part_dtype = Dtype::f32;
  const void* remainder = nullptr;  // what rounding took from the part, of the same type; null: nothing
  std::int64_t dim = 0;
};

// A head's own number, or one for all; rows are [batches, heads, rows].
struct HeadRows {
  std::int64_t batches = 0, heads = 0, rows = 0;
  std::int64_t count() const { return batches * heads * rows; }
};

// Rows of keys that queries see: begin[b·rows + i] to end[…], counted from the first key of the sequence.
struct KeyRanges {
  std::span<const std::int64_t> begin, end;
  std::int64_t first_key = 0, keys = 0;
};

// The normaliser's sink: one more score of every row, [H] or one number; without data there is none. Everything is done
// in stream order, if there is a stream, without waiting.
class Site {
 public:
  virtual ~Site() = default;

  virtual Device device() const = 0;
  // Aligned memory that lives as long as this object.
  virtual void* take(std::size_t bytes) = 0;
  // Statistics of rows, and memory for what rounding takes from an output of `dim` numbers a row; 0: none.
  virtual RowSums take_rows(std::int64_t rows, std::int64_t dim) = 0;
  virtual void* remainder_of(const RowSums& rows) = 0;
  virtual void clear(void* data, std::size_t bytes) = 0;
  virtual void clear(const View& view) = 0;
  // Copies elements to another type or layout.
  virtual void store(const ConstView& from, const View& to) = 0;
  // to += from: `to` of `type`, f32 or f64.
  virtual void add(const void* from, Dtype from_type, void* to, Dtype type, std::int64_t count) = 0;
  // kept + lost = from, in 16 bits each.
  virtual void split(const void* from, std::int64_t count, Dtype type, void* kept, void* lost) = 0;

  // Rows that have met no key: of a softmax, or of a sum.
  virtual void start(const RowSums& rows, bool additive) = 0;
  // total = softmax over the keys of both. The sums of `total` are not divided yet, those of the part are.
  virtual void merge(const RowSums& total, const RowSums& part, std::span<const OutSums> out) = 0;
  // Where weights do not depend on other keys: `log_sum` are logarithms of the parts' sums.
  virtual void add_rows(const RowSums& total, const void* log_sum, std::span<const OutSums> out) = 0;
  // Adds the sink and divides by the sums.
  virtual void finish(const RowSums& total, std::span<const OutSums> out, const HeadRows& rows,
                      const ConstView& sink) = 0;
  // max + log(sum): [batches, heads, rows, 1].
  virtual void store_lse(const RowSums& total, const View& lse) = 0;
  // What the rows of one piece add to the gradient of the sink, [H] or one number, in f64. Outputs and their gradients are
  // contiguous; grad_lse without data: none.
  virtual void add_sink(const RowSums& total, std::span<const ConstView> out, std::span<const ConstView> grad_out,
                        const ConstView& grad_lse, const HeadRows& rows, const ConstView& sink, double* to,
                        bool per_head) = 0;
  // visible[b, h, i, j] = whether key j is in the range of query i, and `given` allows it (without data: everything).
  // Cells do it themselves in ordinary memory.
  virtual void hide(const KeyRanges&, const BoolView& /*given*/, const BoolView& /*visible*/) {}

  // attend_backward() shall have these rows, of take_rows().
  virtual void use_rows(Saved::Rows& saved, const RowSums& rows, std::int64_t dim) = 0;
  // Those that a forward call kept.
  virtual RowSums rows_of(Saved::Rows& saved) = 0;
  // Memory for those of the call over processes, and for outputs in f32, of `dims` numbers a row; 0: not kept. It outlives
  // this.
  virtual RowSums keep_rows(Saved::Rows& saved, std::int64_t rows, std::span<const std::int64_t> dims) = 0;
  // Those outputs.
  virtual void* wide_out(Saved::Rows& saved, std::span<const std::int64_t> dims, std::size_t set) = 0;

  // Whether a cell of 16-bit rows may be computed where it gives 16-bit results, rather than in f32 from end to end.
  virtual bool has_tensor_cores(const Problem&) const { return false; }

  // Null: messages are exchanged when exchange() returns.
  virtual void* transfer_stream() { return nullptr; }
  // Later transfers wait for the work so far, and later work for the transfers so far.
  virtual void before_transfer() {}
  virtual void after_transfer() {}
};

// Of a call's device and stream.
std::unique_ptr<Site> site_of(const Device& device, void* stream, Dtype compute);

}  // namespace rapt::inline v1::distributed
