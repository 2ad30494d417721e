#include "backends/cuda/backward.h"

#include <algorithm>

#include "backends/cuda/backward_call.h"
#include "backends/cuda/dense.h"
#include "backends/cuda/factorized/factorized.h"
#include "backends/cuda/joined_values.h"
#include "backends/cuda/largest_rows.h"
#include "backends/cuda/runtime/kernels.h"
#include "backends/cuda/saved_rows.h"
#include "rapt/tiles.h"

namespace rapt::inline v1::cuda {
namespace {

// The gradients of one call, kind by kind, in stream order.
class Backward : private BackwardCall {
 public:
  using BackwardCall::BackwardCall;

  void run() {
    for (std::size_t n = 0; n < problem_.v.size(); ++n) arguments_.grad_out[n] = array_of(request_.grad_out[n]);
    if (!run_factorized()) run_fast();
    if (!arguments_.rows.max) find_rows();
    if (problem_.normalizer->threshold == Threshold::first_largest) {
      largest_values();
      zeros();
      return;
    }
    find_delta();
    pairs();
    queries();
    keys(&wanted_.k);
    bias();
    for (const ParameterValue& value : problem_.parameters)
      if (value.given && is_table(value.spec->role)) table(value);
    for (const ParameterValue& value : problem_.parameters)
      if (value.given && value.spec->role == Role::table) free_table(value);
  }

 private:
  // In two passes over a grid. What follows then only runs where a number was not finite.
  bool run_factorized() {
    if (of_more_keys() || !factorized::takes_gradients(problem_, request_)) return false;
    const factorized::Gradients g = factorized::backward(problem_, call_, request_, wants_values(), workspace_);
    arguments_.rows = g.rows;
    const int slots = problem_.mechanism->definition().slots;
    for (const ParameterValue& value : problem_.parameters)
      if (value.given && value.spec->role == Role::value)
        store_sum({.batches = 1, .heads = call_.heads}, g.values, slots, value.first_slot, value.size(), value);
    arguments_.gate = g.redo;
    return true;
  }

  // On the tensor cores. What follows then only runs where a gradient is not finite: the fast kernels multiply hidden
  // numbers by 0, which is not 0 where they are infinite or NaN.
  void run_fast() {
    const FastPrograms* fast = programs_.fast;
    if (problem_.path != Path::automatic || !fast) return;
    FastGradients f;
    Array dv[kMaxValueSets];
    if (!plan_values(f, dv)) return;
    if (wanted_.q) f.dq = array_of(wanted_.q);
    if (wanted_.k) f.dk = shared_by_heads(wanted_.k);
    if (wanted_.bias) {
      const bool own = is_apart(wanted_.bias) && wanted_.bias.shape[2] == problem_.queries;
      if (own) f.dbias = array_of(wanted_.bias);
      else f.shared_bias = bias_gradient();
    }
    if (!fast->takes_gradients(fast_call_, f)) return;
    prepare_dense(fast_call_, TileRows::queries_and_keys, workspace_);
    f.padded_queries = padded_queries(call_.queries);
    const std::int64_t padded = problem_.batch * problem_.heads * f.padded_queries;
    const PaddedRows rows{workspace_.take<float>(padded), workspace_.take<float>(padded), f.padded_queries};
    f.redo = workspace_.take<int>(1);
    check(cudaMemsetAsync(f.redo, 0, sizeof(int), stream_), "gradients");
    if (call_.is_sigmoid) {
      arguments_.rows = request_.saved ? device_rows(*request_.saved) : unread_rows();
      fill_sigmoid_rows(call_, f.padded_queries, rows.log2_sum, rows.delta, stream_);
    } else if (!find_fast_rows(*fast, f, rows)) {
      arguments_.rows = {};
      return;
    }
    f.log2_sum = rows.log2_sum;
    f.delta = rows.delta;
    const int slots = problem_.mechanism->definition().slots;
    const std::int64_t parts = fast->value_parts(fast_call_);
    if (wants_values()) f.value_grads = workspace_.take<float>(problem_.batch * problem_.heads * parts * slots);
    const bool wants_shift = call_.is_sigmoid && wants_normalizer();
    if (wants_shift) f.shift_grads = workspace_.take<float>(problem_.batch * problem_.heads * parts);
    if (f.dbias.data) store_zeros(wanted_.bias, stream_);  // for tiles that no query sees
    if (const std::int64_t bytes = fast->gradient_memory(fast_call_, f)) f.memory = workspace_.take<std::byte>(bytes);
    if (!fast->gradients(fast_call_, f, stream_)) return;
    check(cudaGetLastError(), "gradients");
    if (call_.sets > 1 && f.dv.data)
      split(f.dv, dv, call_.sets, call_.batch, call_.heads / f.dv.group, call_.keys, stream_);
    for (const ParameterValue& value : problem_.parameters)
      if (value.given && value.spec->role == Role::value)
        store_sum({.batches = call_.batch, .heads = call_.heads, .count = parts}, f.value_grads, slots,
                  value.first_slot, value.size(), value);
    if (wants_shift)
      store_sum({.batches = call_.batch, .heads = call_.heads, .count = parts}, f.shift_grads, 1, 0, 1,
                problem_.normalizer_parameters[0]);
    if (wants_sink()) sink(delta_);
    arguments_.gate = f.redo;
    fast_ = f;
  }

  // The values, and the gradients of outputs and values, as the fast kernels take them: several sets as one. False: they
  // take none of it.
  bool plan_values(FastGradients& f, Array (&dv)[kMaxValueSets]) {
    for (std::size_t n = 0; n < problem_.v.size(); ++n) {
      if (n < wanted_.v.size() && wanted_.v[n]) dv[n] = shared_by_heads(wanted_.v[n]);
      else dv[n].dim = call_.v[n].dim;
    }
    fast_call_ = call_;
    f.grad_out = arguments_.grad_out[0];
    f.dv = dv[0];
    return call_.sets == 1 || (!of_more_keys() && join_gradients(fast_call_, arguments_.grad_out, dv, f, workspace_));
  }

  // What the fast kernels read of every row under softmax. False: it is not to be had.
  bool find_fast_rows(const FastPrograms& fast, const FastGradients& f, const PaddedRows& rows) {
    Array out = array_of(request_.out[0]);
    const void* remainder = nullptr;
    if (request_.saved && call_.sets == 1 && out.dtype == call_.q.dtype && is_aligned(out)) {
      arguments_.rows = device_rows(*request_.saved);
      remainder = device_remainder(*request_.saved);
    }
    if (!remainder && (of_more_keys() || !forward_again(fast, out, remainder))) return false;
    if (wants_sink() || wants_tables() || of_more_keys()) delta_ = workspace_.take<float>(row_count());
    Array grad_lse;
    if (request_.grad_lse) grad_lse = array_of(request_.grad_lse);
    prepare_rows(fast_call_, arguments_.rows, out, remainder, f.grad_out, grad_lse, rows, delta_, f.redo, stream_);
    return true;
  }

  // Statistics of a normaliser that has none.
  RowStatistics unread_rows() {
    float* rows = workspace_.take<float>(row_count());
    check(cudaMemsetAsync(rows, 0, static_cast<std::size_t>(row_count()) * sizeof(float), stream_), "gradients");
    return {rows, rows};
  }

  // The output, its remainder and the statistics of rows, where the forward pass did not keep them.
  bool forward_again(const FastPrograms& fast, Array& out, const void*& remainder) {
    const std::int64_t dim = fast_call_.v[0].dim, count = row_count() * dim;
    out =
        contiguous_array(workspace_.take<std::uint16_t>(count), problem_.batch, problem_.heads, problem_.queries, dim);
    out.dtype = call_.q.dtype;
    arguments_.rows = {workspace_.take<float>(row_count()), workspace_.take<float>(row_count())};
    ForwardOutputs outputs;
    outputs.out[0] = out;
    outputs.rows = arguments_.rows;
    outputs.remainder = workspace_.take<std::uint16_t>(count);
    remainder = outputs.remainder;
    return fast.takes(fast_call_, outputs) &&
           fast.forward(fast_call_, outputs, workspace_.take<std::byte>(fast.memory(fast_call_)), stream_);
  }

  // Softmax statistics of the forward pass, or recomputed.
  void find_rows() {
    if (request_.saved) {
      arguments_.rows = device_rows(*request_.saved);
      return;
    }
    arguments_.rows = {workspace_.take<float>(row_count()), workspace_.take<float>(row_count())};
    ForwardOutputs outputs;
    outputs.rows = arguments_.rows;
    (prepared_.takes_pairs() ? programs_.pairs->forward : programs_.forward)(call_, outputs, stream_);
    check(cudaGetLastError(), "forward");
  }

  // δ from the ∂weights that the gradients are computed from, not from the output, which is rounded: what they all have in
  // common then cancels. With weights of 16 bits the kept remainder does instead.
  void find_delta() {
    if (problem_.normalizer->threshold == Threshold::none) return;
    float* delta = delta_ ? delta_ : workspace_.take<float>(row_count());
    Array grad_lse;
    if (request_.grad_lse) grad_lse = array_of(request_.grad_lse);
    if (of_more_keys() || has_pair_remainder()) {
      if (!delta_) delta_of_outputs(grad_lse, delta);
    } else {
      BackwardArguments means = arguments_;
      means.mean = delta;
      means.grad_lse = grad_lse;
      if (prepared_.takes_pairs()) programs_.pairs->means(call_, means, pairs_are_low(), stream_);
      else programs_.backward_queries(call_, means, stream_);
      check(cudaGetLastError(), "row sums");
    }
    arguments_.delta = delta;
    if (wants_sink()) sink(delta);
  }

  // Whether an element-wise score's forward pass kept what rounding took from its output, so that δ follows from both.
  bool has_pair_remainder() const {
    const Array &out = array_of(request_.out[0]), &grad = arguments_.grad_out[0];
    return pairs_are_low() && request_.saved && device_remainder(*request_.saved) &&
           prepared_.pairs_keep_remainder(out) && grad.dtype == out.dtype && is_aligned(grad);
  }

  // From the outputs that were given, with what rounding took from them where it was kept.
  void delta_of_outputs(const Array& grad_lse, float* delta) {
    Array out[kMaxValueSets];
    for (std::size_t n = 0; n < problem_.v.size(); ++n) out[n] = array_of(request_.out[n]);
    const Array& grad = arguments_.grad_out[0];
    const void* remainder = device_remainder(*request_.saved);
    if (!remainder || size_of(out[0].dtype) != 2 || grad.dtype != out[0].dtype || !is_aligned(out[0]) ||
        !is_aligned(grad))
      return row_deltas(call_, out, arguments_.grad_out, grad_lse, delta, stream_);
    const std::int32_t padded = call_.queries;
    const PaddedRows rows{workspace_.take<float>(row_count()), workspace_.take<float>(row_count()), padded};
    int* redo = workspace_.take<int>(1);
    prepare_rows(call_, arguments_.rows, out[0], remainder, grad, grad_lse, rows, delta, redo, stream_);
  }

  void sink(const float* delta) {
    const ParameterValue& value = problem_.normalizer_parameters[0];
    float* parts = workspace_.take<float>(row_count());
    sink_gradients(call_, arguments_.rows, delta, parts, arguments_.gate, stream_);
    sum_parts({.parts = parts,
               .batches = call_.batch,
               .heads = call_.heads,
               .count = call_.queries,
               .per_head = value.per_head,
               .gate = arguments_.gate},
              *gradient_of(value), stream_);
  }

  // All gradients of an element-wise score at once, of every batch and head apart; queries() and keys() then only pass them
  // on.
  void pairs() {
    if (!prepared_.takes_pairs()) return;
    pairs_.run = true;
    const bool rows_q = wanted_.q || wanted_parameter(Role::query_map) || wanted_parameter(Role::query_shift),
               rows_k = wanted_.k || wanted_parameter(Role::key_map), weight = wanted_parameter(Role::pair_weight);
    const std::int64_t heads = problem_.batch * problem_.heads;
    const int groups = pair_groups(heads), slots = problem_.mechanism->definition().slots;
    pairs_.parts = static_cast<std::int64_t>(groups) * groups;
    BackwardArguments a = arguments_;
    const auto take = [&](bool wanted, std::int64_t rows, std::int64_t dim, float*& data) {
      if (!wanted) return Array{};
      const Array array = apart(rows, dim, data);
      const auto bytes = static_cast<std::size_t>(heads * rows * dim) * sizeof(float);
      check(cudaMemsetAsync(data, 0, bytes, stream_), "gradients");
      return array;
    };
    a.dq = take(rows_q, problem_.queries, problem_.inner, pairs_.dq);
    a.dk = take(rows_k, problem_.keys, problem_.inner, pairs_.dk);
    bool any = rows_q || rows_k || weight || wants_values();
    for (std::size_t n = 0; n < wanted_.v.size(); ++n) {
      a.dv[n] = take(bool(wanted_.v[n]), problem_.keys, problem_.v[n].dim, pairs_.dv[n]);
      any = any || wanted_.v[n];
    }
    if (!any) return;
    if (wants_values()) a.value_grads = pairs_.values = workspace_.take<float>(heads * pairs_.parts * slots);
    if (weight) a.pair_weight_grads = pairs_.weights = workspace_.take<float>(heads * pairs_.parts * problem_.inner);
    programs_.pairs->gradients(call_, a, groups, pairs_are_low(), stream_);
    check(cudaGetLastError(), "gradients");
  }

  void queries() {
    const bool through_raw = call_.uses_content;
    const ParameterValue *map = wanted_parameter(Role::query_map), *shift = wanted_parameter(Role::query_shift),
                         *relative_shift = wanted_parameter(Role::relative_query_shift),
                         *weight = wanted_parameter(Role::pair_weight);
    bool vectors = false;
    for (const ParameterValue& value : problem_.parameters)
      vectors = vectors || (value.given && value.spec->role == Role::relative_vector);
    const bool values = wants_values(), normalizer = wants_normalizer();
    const bool rows = wanted_.q || map || shift || relative_shift;
    if (!rows && !weight && !values && !normalizer) return;

    BackwardArguments a = arguments_;
    const std::int64_t blocks = problem_.batch * problem_.heads * ((problem_.queries + kTile - 1) / kTile);
    const int slots = problem_.mechanism->definition().slots;
    const bool direct = wanted_.q && is_apart(wanted_.q) && !vectors && problem_.rotary.dims == 0 &&
                        !problem_.find(Role::query_map) && !problem_.find(Role::query_shift) &&
                        !problem_.mechanism->unit_rows() && through_raw && !pairs_.run;
    float *dq = pairs_.dq, *dq_relative = nullptr;
    PartSums sums{.batches = call_.batch, .heads = call_.heads, .count = (problem_.queries + kTile - 1) / kTile};
    if (pairs_.run) {
      sums.count = pairs_.parts;
      a.value_grads = pairs_.values;
      a.pair_weight_grads = pairs_.weights;
    } else {
      if (direct) a.dq = array_of(wanted_.q);
      else if (rows && through_raw) a.dq = apart(problem_.queries, problem_.inner, dq);
      if (rows && vectors) a.dq_relative = apart(problem_.queries, problem_.query_dim, dq_relative);
      if (values) a.value_grads = workspace_.take<float>(blocks * slots);
      if (weight) a.pair_weight_grads = workspace_.take<float>(blocks * problem_.inner);
      if (normalizer) a.normalizer_grads = workspace_.take<float>(blocks * kMaxSlots);
      programs_.backward_queries(call_, a, stream_);
      check(cudaGetLastError(), "gradient of q");
    }

    for (const ParameterValue& value : problem_.parameters)
      if (value.given && value.spec->role == Role::value)
        store_sum(sums, a.value_grads, slots, value.first_slot, value.size(), value);
    if (weight)
      store_sum(sums, through_raw ? a.pair_weight_grads : nullptr, problem_.inner, 0, problem_.inner, *weight);
    for (const ParameterValue& value : problem_.normalizer_parameters)
      if (value.given && !problem_.is_softmax())
        store_sum(sums, a.normalizer_grads, kMaxSlots, value.first_slot, 1, value);
    if (!direct) query_rows(dq, dq_relative, map, shift, relative_shift);
  }

  void query_rows(float* dq, float* dq_relative, const ParameterValue* map, const ParameterValue* shift,
                  const ParameterValue* relative_shift) {
    const PartSums rows{.batches = call_.batch, .heads = call_.heads, .count = problem_.queries};
    if (shift) store_sum(rows, dq, problem_.inner, 0, problem_.inner, *shift);
    if (relative_shift) store_sum(rows, dq_relative, problem_.query_dim, 0, problem_.query_dim, *relative_shift);
    if (dq) dq = through_map(dq, prepared_.q, prepared_.query_map, map, problem_.queries, problem_.query_dim);
    else if (map) store_zeros(*gradient_of(*map), stream_);
    store_rows(dq ? dq : dq_relative, dq ? dq_relative : nullptr, wanted_.q, problem_.queries, problem_.query_dim,
               true);
  }

  // The gradient of the scored rows → of the mapped rows → of the given rows and the map.
  float* through_map(float* grad, const Side& side, const Map& map, const ParameterValue* wanted, std::int64_t rows,
                     std::int64_t dim) {
    const int count = static_cast<int>(rows);
    if (problem_.mechanism->unit_rows())
      unit_rows_backward(side.mapped.seen_by(call_.heads), call_.batch, call_.heads, count, call_.inner, grad, stream_);
    if (!map.numbers) return grad;
    const Array dy = contiguous_array(grad, problem_.batch, problem_.heads, rows, map.out);
    if (wanted) {
      const std::int64_t size = static_cast<std::int64_t>(map.in) * map.out;
      float* parts = workspace_.take<float>(problem_.batch * problem_.heads * size);
      map_gradient(side.given.seen_by(call_.heads), dy, map, call_.batch, call_.heads, count, parts, stream_);
      store_sum({.batches = call_.batch, .heads = call_.heads}, parts, size, 0, size, *wanted);
    }
    float* given = workspace_.take<float>(problem_.batch * problem_.heads * rows * dim);
    map_rows(dy, map, call_.batch, call_.heads, count, true, given, stream_);
    return given;
  }

  void store_rows(float* grad, const float* more, const View& target, std::int64_t rows, std::int64_t dim,
                  bool queries) {
    if (!target) return;
    if (!grad) return store_zeros(target, stream_);
    if (problem_.rotary.dims > 0) {
      if (more) {
        const Shape shape{problem_.batch, problem_.heads, rows, dim};
        float* sum = workspace_.take<float>(element_count(shape));
        sum_shared(grad, more, call_.batch, call_.heads, {sum, Dtype::f32, shape, contiguous_strides(shape), {}},
                   arguments_.gate, stream_);
        grad = sum;
        more = nullptr;
      }
      RowChange change = prepared_.rotation(queries);
      change.backward = true;
      change.batches = call_.batch;
      change.heads = call_.heads;
      change.rows = static_cast<std::int32_t>(rows);
      change.dim = static_cast<std::int32_t>(dim);
      const Array from = contiguous_array(grad, problem_.batch, problem_.heads, rows, dim);
      float* back = workspace_.take<float>(problem_.batch * problem_.heads * rows * dim);
      change_rows(from, change, back, stream_);
      grad = back;
    }
    sum_shared(grad, more, call_.batch, call_.heads, target, arguments_.gate, stream_);
  }

  // `k` null: only the values'.
  void keys(const View* k) {
    const ParameterValue* map = k ? wanted_parameter(Role::key_map) : nullptr;
    const bool rows = k && (*k || map) && call_.uses_content;
    const bool direct = rows && *k && is_apart(*k) && problem_.rotary.dims == 0 && !problem_.find(Role::key_map) &&
                        !problem_.mechanism->unit_rows() && !pairs_.run;
    BackwardArguments a = arguments_;
    float* dk = pairs_.dk;
    float* dv[kMaxValueSets] = {};
    std::copy(pairs_.dv, pairs_.dv + kMaxValueSets, dv);
    if (!pairs_.run) {
      if (direct) a.dk = array_of(*k);
      else if (rows) a.dk = apart(problem_.keys, problem_.inner, dk);
      for (std::size_t n = 0; n < wanted_.v.size(); ++n) {
        if (!wanted_.v[n]) continue;
        if (is_apart(wanted_.v[n])) a.dv[n] = array_of(wanted_.v[n]);
        else a.dv[n] = apart(problem_.keys, problem_.v[n].dim, dv[n]);
      }
      programs_.backward_keys(call_, a, stream_);
      check(cudaGetLastError(), "gradients of k and v");
    }
    for (std::size_t n = 0; n < wanted_.v.size(); ++n)
      if (dv[n]) sum_shared(dv[n], nullptr, call_.batch, call_.heads, wanted_.v[n], arguments_.gate, stream_);
    if (!k || direct) return;
    if (dk) dk = through_map(dk, prepared_.k, prepared_.key_map, map, problem_.keys, problem_.key_dim);
    else if (map) store_zeros(*gradient_of(*map), stream_);
    store_rows(dk, nullptr, *k, problem_.keys, problem_.key_dim, false);
  }

  void bias() {
    if (!wanted_.bias) return;
    programs_.backward_bias(call_, arguments_, bias_gradient(), stream_);
    check(cudaGetLastError(), "gradient of the bias");
  }

  void table(const ParameterValue& value) {
    const View* target = gradient_of(value);
    if (!target) return;
    const bool output = value.spec->role == Role::relative_output;
    const Table& shape = output ? call_.output_table : call_.tables[value.first_slot];
    // Enough splits of the queries to fill the device; they follow from the sizes alone.
    const std::int64_t tiles = (problem_.queries + kTile - 1) / kTile;
    const std::int64_t blocks = problem_.batch * problem_.heads * ((shape.offsets + kTile - 1) / kTile);
    const bool fast = is_fast_table(value);
    const std::int64_t splits = fast ? 1 : std::clamp<std::int64_t>(512 / blocks, 1, std::min<std::int64_t>(tiles, 64));
    const std::int64_t size = static_cast<std::int64_t>(shape.offsets) * shape.cols;
    TableGradient gradient;
    gradient.slot = output ? -1 : value.first_slot;
    gradient.splits = static_cast<std::int32_t>(splits);
    gradient.out = workspace_.take<float>(problem_.batch * problem_.heads * splits * size);
    // The general kernel then only recomputes what is not finite.
    BackwardArguments general = arguments_;
    if (fast) {
      FastGradients f = fast_;
      f.memory = workspace_.take<std::byte>(programs_.fast->table_memory(fast_call_));
      if (!programs_.fast->table(fast_call_, f, gradient, stream_)) general.gate = nullptr;
      check(cudaGetLastError(), "gradient of a table");
    } else {
      general.gate = nullptr;
    }
    programs_.backward_table(call_, general, gradient, stream_);
    check(cudaGetLastError(), "gradient of a table");
    const std::int32_t heads = value.per_head ? call_.heads : 1;
    float* by_offset = workspace_.take<float>(heads * size);
    sum_parts({.parts = gradient.out,
               .batches = call_.batch,
               .heads = call_.heads,
               .count = splits,
               .stride = size,
               .size = size,
               .per_head = value.per_head},
              by_offset, stream_);
    // The offsets in the order of their rows.
    std::vector<std::int32_t> starts(static_cast<std::size_t>(value.rows) + 1), order(value.relative_rows.size());
    for (const std::int32_t row : value.relative_rows) ++starts[static_cast<std::size_t>(row) + 1];
    for (std::size_t n = 1; n < starts.size(); ++n) starts[n] += starts[n - 1];
    std::vector<std::int32_t> next(starts.begin(), starts.end() - 1);
    for (std::size_t n = 0; n < order.size(); ++n)
      order[static_cast<std::size_t>(next[static_cast<std::size_t>(value.relative_rows[n])]++)] =
          static_cast<std::int32_t>(n);
    sum_offsets(by_offset, heads, shape.offsets, value.rows, shape.cols, workspace_.table(starts),
                workspace_.table(order), *target, stream_);
  }

  // Whether the kernels for the tensor cores have the rows of this call, and can sum the gradient of this table.
  bool is_fast_table(const ParameterValue& value) const {
    return fast_.redo && programs_.fast->table && value.spec->role == Role::relative_value &&
           value.spec->along == Along::position && !call_.tables[value.first_slot].is_vector;
  }

  // A table that a formula reads at indices of its own: one read after the other.
  void free_table(const ParameterValue& value) {
    const View* target = gradient_of(value);
    if (!target) return;
    const std::vector<int> reads = reads_of_table(problem_, value.table);
    if (reads.empty()) return store_zeros(*target, stream_);
    // Enough splits of the queries to fill the device, within a memory limit; they follow from the sizes alone.
    constexpr std::int64_t kNumbers = std::int64_t{1} << 26;
    const std::int64_t pairs = problem_.batch * problem_.heads, tiles = (problem_.queries + kTile - 1) / kTile;
    const std::int64_t most = std::max<std::int64_t>(1, std::min(512 / pairs, kNumbers / (pairs * value.size())));
    FreeTableGradient gradient;
    gradient.table = value.table;
    gradient.splits = static_cast<std::int32_t>(std::min(most, tiles));
    const std::int64_t count = pairs * gradient.splits * value.size();
    gradient.out = workspace_.take<float>(count);
    check(cudaMemsetAsync(gradient.out, 0, static_cast<std::size_t>(count) * sizeof(float), stream_), "gradients");
    for (const int read : reads) {
      gradient.read = read;
      programs_.backward_free_table(call_, arguments_, gradient, stream_);
      check(cudaGetLastError(), "gradient of a table");
    }
    store_sum({.batches = call_.batch, .heads = call_.heads, .count = gradient.splits}, gradient.out, value.size(), 0,
              value.size(), value);
  }

  // The gradients of values of hard attention; the general kernels then only run where a row's largest score is NaN.
  void largest_values() {
    if (problem_.path != Path::automatic || !programs_.fast || call_.output_table.numbers) return keys(nullptr);
    ValueSums sums;
    for (std::size_t n = 0; n < wanted_.v.size(); ++n) {
      if (!wanted_.v[n]) continue;
      const Array& v = call_.v[n];
      if (wanted_.v[n].shape[0] != v.batches || wanted_.v[n].shape[1] * v.group != problem_.heads) return keys(nullptr);
      sums.grad_out[n] = arguments_.grad_out[n];
      sums.dv[n] = array_of(wanted_.v[n]);
    }
    int* redo = workspace_.take<int>(1);
    check(cudaMemsetAsync(redo, 0, sizeof(int), stream_), "gradients");
    sum_values(call_, arguments_.rows, sums, redo, stream_);
    arguments_.gate = redo;
    keys(nullptr);
  }

  // Hard attention: no gradient reaches the scores.
  void zeros() {
    for (const View* view : {&wanted_.q, &wanted_.k, &wanted_.bias})
      if (*view) store_zeros(*view, stream_);
    for (const ParameterValue& value : problem_.parameters) {
      if (!value.given || !gradient_of(value)) continue;
      if (value.spec->role == Role::relative_output) table(value);
      else store_zeros(*gradient_of(value), stream_);
    }
    for (const ParameterValue& value : problem_.normalizer_parameters)
      if (value.given && gradient_of(value)) store_zeros(*gradient_of(value), stream_);
  }

  Call fast_call_;  // with the value sets joined
  // What the kernels of element-wise scores have computed, of every batch and head apart.
  struct Pairs {
    bool run = false;
    float *dq = nullptr, *dk = nullptr, *values = nullptr, *weights = nullptr;
    float* dv[kMaxValueSets] = {};
    std::int64_t parts = 0;
  } pairs_;
  FastGradients fast_;      // redo not null: they have been launched
  float* delta_ = nullptr;  // of every row, where the fast kernels' is needed by others too
};

}  // namespace

void backward(Problem& problem, const BackwardRequest& request) {
  const DeviceScope scope(problem.device.index);
  auto* stream = static_cast<cudaStream_t>(problem.stream);
  if (problem.is_empty() || problem.keys == 0) {
    const Gradients& g = request.gradients;
    for (const View* view : {&g.q, &g.k, &g.bias})
      if (*view) store_zeros(*view, stream);
    for (const View& view : g.v)
      if (view) store_zeros(view, stream);
    for (const NamedGradient& parameter : g.parameters) store_zeros(parameter.value, stream);
    return;
  }
  Workspace workspace(stream);
  Backward(problem, request, workspace).run();
}

}  // namespace rapt::inline v1::cuda
