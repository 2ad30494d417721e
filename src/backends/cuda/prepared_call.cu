#include "backends/cuda/prepared_call.h"

#include <algorithm>

#include "backends/cuda/runtime/kernels.h"

namespace rapt::inline v1::cuda {

Array array_of(const Operand& o) {
  Array a;
  a.data = o.data;
  a.dtype = o.dtype;
  a.batches = static_cast<std::int32_t>(o.batches);
  a.group = static_cast<std::int32_t>(o.group);
  a.dim = static_cast<std::int32_t>(o.dim);
  a.batch_stride = o.batch_stride;
  a.head_stride = o.head_stride;
  a.row_stride = o.row_stride;
  return a;
}

Array array_of(const View& view) {
  Array a;
  a.data = view.data;
  a.dtype = view.dtype;
  a.batches = static_cast<std::int32_t>(view.shape[0]);
  a.dim = static_cast<std::int32_t>(view.shape[3]);
  a.batch_stride = view.strides[0];
  a.head_stride = view.strides[1];
  a.row_stride = view.strides[2];
  return a;
}

Array contiguous_array(void* data, std::int64_t batches, std::int64_t heads, std::int64_t rows, std::int64_t dim) {
  Array a;
  a.data = data;
  a.batches = static_cast<std::int32_t>(batches);
  a.dim = static_cast<std::int32_t>(dim);
  a.row_stride = dim;
  a.head_stride = rows * dim;
  a.batch_stride = heads * a.head_stride;
  return a;
}

namespace {

Rows rows_of(const Operand& operand) {
  Rows rows{array_of(operand), static_cast<std::int32_t>(operand.batches), static_cast<std::int32_t>(operand.heads)};
  rows.array.group = 1;
  return rows;
}

// What the tensor cores multiply.
bool is_low(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::f16; }

Rows contiguous_rows(float* data, std::int32_t batches, std::int32_t heads, std::int64_t rows, std::int32_t dim) {
  return {contiguous_array(data, batches, heads, rows, dim), batches, heads};
}

}  // namespace

PreparedCall::PreparedCall(const Problem& p, Workspace& workspace) : problem(p), workspace_(workspace) {
  call.batch = static_cast<std::int32_t>(p.batch);
  call.heads = static_cast<std::int32_t>(p.heads);
  call.queries = static_cast<std::int32_t>(p.queries);
  call.keys = static_cast<std::int32_t>(p.keys);
  call.inner = static_cast<std::int32_t>(p.inner);
  // A form of the grid offset reads neither q nor k.
  call.uses_content = p.uses_content && !p.mechanism->has_form();
  call.scale = static_cast<float>(p.scale);
  call.softcap = static_cast<float>(p.softcap);
  call.setting_count = static_cast<std::int32_t>(p.settings.size());
  std::copy(p.settings.begin(), p.settings.end(), call.settings);
  if (p.bias) call.bias = array_of(p.bias);
  if (p.dense_mask) call.mask = array_of(p.dense_mask);
  call.first_key = static_cast<std::int32_t>(p.first_key);
  call.grid_cols = static_cast<std::int32_t>(std::max<std::int64_t>(1, p.grid[1]));
  call.sets = static_cast<std::int32_t>(p.v.size());
  for (std::size_t n = 0; n < p.v.size(); ++n) call.v[n] = array_of(p.v[n]);
  if (is_compiled_at_run_time(p)) call.kernels = &kernels_of(p);
  prepare_masks();
  prepare_parameters();
  prepare_tables();
  prepare_grid();
  prepare_normalizer();
  prepare_rows();
  prepare_pairs();
}

void PreparedCall::prepare_masks() {
  const Mask& mask = problem.mask;
  Masks& m = call.masks;
  const bool packed = !mask.query_starts.empty();
  m.causal = mask.causal != Causal::none;
  m.packed_bottom_right = packed && mask.causal == Causal::bottom_right;
  if (mask.window) {
    m.left = static_cast<std::int32_t>(std::clamp<std::int64_t>(mask.window->left, -1, kFar));
    m.right = static_cast<std::int32_t>(std::clamp<std::int64_t>(mask.window->right, -1, kFar));
  }
  if (offsets_are_masks(problem)) {
    // What a formula's visible() leaves of the offsets, where that is less than all.
    const auto tighter = [](std::int32_t own, std::int64_t other) {
      const auto limit = static_cast<std::int32_t>(std::min<std::int64_t>(other, kFar));
      return own < 0 ? limit : std::min(own, limit);
    };
    if (problem.first_offset > 1 - problem.queries - problem.highest_shift())
      m.left = tighter(m.left, -problem.first_offset);
    if (problem.last_offset == 0) m.causal = true;
    else if (problem.last_offset < problem.keys - 1 - problem.lowest_shift())
      m.right = tighter(m.right, problem.last_offset);
  }
  m.key_length_count = static_cast<std::int32_t>(mask.key_lengths.size());
  if (m.key_length_count == 1) m.key_length = static_cast<std::int32_t>(mask.key_lengths[0]);
  else if (m.key_length_count > 1) m.key_lengths = workspace_.upload(mask.key_lengths);
  m.shift_count = static_cast<std::int32_t>(problem.first_query.size());
  m.shift = static_cast<std::int32_t>(problem.query_shift(0));
  if (m.shift_count > 1) {
    query_positions_ = workspace_.upload(problem.first_query);
    std::vector<std::int64_t> shifts;
    for (std::int64_t b = 0; b < problem.batch; ++b) shifts.push_back(problem.query_shift(b));
    m.shifts = workspace_.upload(shifts);
  }
  if (packed) {
    m.sequences = static_cast<std::int32_t>(mask.query_starts.size() - 1);
    m.query_starts = workspace_.upload(mask.query_starts);
    m.key_starts = workspace_.upload(mask.key_starts);
  }
}

const float* PreparedCall::numbers(const ParameterValue& value) {
  if (!value.given) return nullptr;
  const ConstView& view = value.view;
  const Shape strides = contiguous_strides(view.shape);
  bool contiguous = view.dtype == Dtype::f32;
  for (std::size_t n = 0; n < 4; ++n) contiguous = contiguous && (view.shape[n] == 1 || view.strides[n] == strides[n]);
  if (contiguous) return static_cast<const float*>(view.data);
  float* to = workspace_.take<float>(element_count(view.shape));
  gather(view, to, workspace_.stream());
  return to;
}

void PreparedCall::prepare_parameters() {
  int slots = 0;
  for (const ParameterValue& value : problem.parameters) slots += value.spec->slots();
  float* values = slots > 0 ? workspace_.take<float>(problem.heads * slots) : nullptr;
  call.values = values;
  for (const ParameterValue& value : problem.parameters) {
    if (!value.given || value.spec->role != Role::value) continue;
    spread_values(numbers(value), value.per_head, static_cast<int>(value.size()), call.heads, slots, value.first_slot,
                  values, workspace_.stream());
  }
  if (const ParameterValue* w = find(Role::pair_weight)) {
    call.pair_weight = numbers(*w);
    call.pair_weight_stride = w->per_head ? w->size() : 0;
  }
}

void PreparedCall::prepare_tables() {
  for (const ParameterValue& value : problem.parameters) {
    if (value.given && value.table >= 0)
      call.free_tables[value.table] = {numbers(value), value.per_head ? value.size() : 0,
                                       static_cast<std::int32_t>(value.rows), static_cast<std::int32_t>(value.cols)};
    if (!value.given || !is_table(value.spec->role) || value.relative_rows.empty()) continue;
    Table table;
    table.numbers = numbers(value);
    table.rows = workspace_.table(value.relative_rows);
    table.zero = static_cast<std::int32_t>(value.relative_zero);
    table.head_stride = value.per_head ? value.size() : 0;
    table.is_vector = value.spec->role != Role::relative_value;
    table.cols = table.is_vector ? static_cast<std::int32_t>(value.cols) : 1;
    table.offsets = static_cast<std::int32_t>(value.relative_rows.size());
    table.along = value.spec->along;
    if (is_low(problem.q.dtype) && !table.is_vector && table.along == Along::position) {
      const int heads = value.per_head ? call.heads : 1;
      const std::int64_t count = table.offsets + 2 * kOffsetPadding;
      table.spread_stride = count;
      spread_table(table, heads, workspace_.take<float>(heads * count), workspace_.stream());
      if (!value.per_head) table.spread_stride = 0;
    }
    if (value.spec->role == Role::relative_output) call.output_table = table;
    else call.tables[value.first_slot] = table;
  }
}

void PreparedCall::prepare_grid() {
  if (problem.grid[1] == 0 || !is_low(problem.q.dtype)) return;
  std::int64_t first = 0, end = problem.keys;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    first = std::min(first, problem.query_shift(b));
    end = std::max(end, problem.query_shift(b) + problem.queries);
  }
  first += problem.first_key - kOffsetPadding;
  end += problem.first_key + kOffsetPadding;
  auto* places = workspace_.take<float2>(end - first);
  find_grid_places(call.grid_cols, first, end - first, places, workspace_.stream());
  call.grid_places = places - first;
}

void PreparedCall::prepare_normalizer() {
  const NormalizerDefinition& normalizer = *problem.normalizer;
  call.threshold = normalizer.threshold;
  call.normalizer = static_cast<std::int32_t>(&normalizer - normalizer_definitions().data());
  call.reach = static_cast<float>(normalizer.reach);
  call.is_sigmoid = &normalizer == &definition_of(Normalizer::sigmoid);
  if (problem.normalizer_parameters.empty()) return;
  float* values = workspace_.take<float>(problem.heads * kMaxSlots);
  for (std::size_t n = 0; n < problem.normalizer_parameters.size(); ++n) {
    const ParameterValue& value = problem.normalizer_parameters[n];
    const int slot = static_cast<int>(n);
    if (value.given)
      spread_values(numbers(value), value.per_head, 1, call.heads, kMaxSlots, slot, values, workspace_.stream());
    else if (normalizer.info.absent)
      fill_values(static_cast<float>(normalizer.info.absent(slot, problem.outer.keys)), call.heads, kMaxSlots, slot,
                  values, workspace_.stream());
  }
  call.normalizer_values = values;
  call.has_sink = problem.is_softmax() && problem.normalizer_parameters[0].given;
}

RowChange PreparedCall::rotation(bool queries) const {
  RowChange change;
  change.rotary_dims = static_cast<std::int32_t>(problem.rotary.dims);
  change.rotary_base = problem.rotary.base;
  change.interleaved = problem.rotary.interleaved;
  change.first_position = problem.first_key + (queries ? problem.query_shift(0) : 0);
  change.positions = queries ? query_positions_ : nullptr;
  return change;
}

Rows PreparedCall::changed(const Rows& from, RowChange change, std::int32_t batches, std::int32_t heads) {
  change.batches = batches;
  change.heads = heads;
  change.dim = from.array.dim;
  float* to = workspace_.take<float>(static_cast<std::int64_t>(batches) * heads * change.rows * change.dim);
  change_rows(from.seen_by(heads), change, to, workspace_.stream());
  return contiguous_rows(to, batches, heads, change.rows, change.dim);
}

Side PreparedCall::prepare_side(const Operand& operand, bool queries, Map& map) {
  Side side;
  const auto rows = static_cast<std::int32_t>(operand.rows);
  side.given = rows_of(operand);
  if (problem.rotary.dims > 0) {
    RowChange change = rotation(queries);
    change.rows = rows;
    // Batches that share a row of q may stand at positions of their own.
    side.given = changed(side.given, change, change.positions ? call.batch : side.given.batches, side.given.heads);
  }
  side.mapped = side.given;
  if (const ParameterValue* w = find(queries ? Role::query_map : Role::key_map)) {
    map = {numbers(*w), w->per_head ? w->size() : 0, static_cast<std::int32_t>(w->rows),
           static_cast<std::int32_t>(w->cols)};
    const std::int32_t batches = side.given.batches, heads = w->per_head ? call.heads : side.given.heads;
    float* to = workspace_.take<float>(static_cast<std::int64_t>(batches) * heads * rows * map.out);
    map_rows(side.given.seen_by(heads), map, batches, heads, rows, false, to, workspace_.stream());
    side.mapped = contiguous_rows(to, batches, heads, rows, map.out);
  }
  side.scored = side.mapped;
  const ParameterValue* shift = queries ? find(Role::query_shift) : nullptr;
  if (problem.mechanism->unit_rows() || shift) {
    RowChange change;
    change.rows = rows;
    change.unit = problem.mechanism->unit_rows();
    if (shift) {
      change.shift = numbers(*shift);
      change.shift_stride = shift->per_head ? shift->size() : 0;
    }
    side.scored =
        changed(side.mapped, change, side.mapped.batches, shift && shift->per_head ? call.heads : side.mapped.heads);
  }
  return side;
}

void PreparedCall::prepare_rows() {
  q = prepare_side(problem.q, true, query_map);
  k = prepare_side(problem.k, false, key_map);
  call.q = q.scored.seen_by(call.heads);
  call.k = k.scored.seen_by(call.heads);
  Rows relative = q.given;
  if (const ParameterValue* shift = find(Role::relative_query_shift)) {
    RowChange change;
    change.rows = call.queries;
    change.shift = numbers(*shift);
    change.shift_stride = shift->per_head ? shift->size() : 0;
    relative = changed(q.given, change, q.given.batches, shift->per_head ? call.heads : q.given.heads);
  }
  call.q_relative = relative.seen_by(call.heads);
}

// Of an element-wise score: the rows as tiles, in the fast form where the mechanism has one. Only softmax takes that: its
// error is one of weights relative to their row.
void PreparedCall::prepare_pairs() {
  const auto is_whole = [&](const Operand& o) { return o.dtype == problem.q.dtype && is_aligned(array_of(o)); };
  bool whole = is_low(problem.q.dtype) && is_whole(problem.q) && is_whole(problem.k);
  for (const Operand& v : problem.v) whole = whole && is_whole(v);
  if (whole) call.storage = problem.q.dtype;
  const PairPrograms* pairs = programs_of(problem)->pairs;
  if (!pairs || problem.path != Path::automatic || !call.uses_content || call.keys == 0) return;
  if (pairs->has_fast && !(problem.is_softmax() && call.pair_weight)) return;
  call.q_tiles = pair_tiles(q.scored, call.queries);
  call.k_tiles = pair_tiles(k.scored, call.keys);
  if (!pairs->has_fast) return;
  const int heads = call.pair_weight_stride == 0 ? 1 : call.heads, dims = call.q_tiles.dims;
  auto* weights = workspace_.take<float>(static_cast<std::int64_t>(heads) * dims);
  auto* offsets = workspace_.take<float>(static_cast<std::int64_t>(heads) * ((dims + kPairSpan - 1) / kPairSpan));
  pairs->weights(call.pair_weight, heads, call.inner, dims, weights, offsets, workspace_.stream());
  call.fast_weights = weights;
  call.fast_offsets = offsets;
}

bool PreparedCall::takes_pairs() const {
  bool tables = call.output_table.numbers != nullptr;
  for (const Table& table : call.tables) tables = tables || table.numbers;
  return call.q_tiles.numbers && call.threshold == Threshold::exponential && !tables && call.inner <= kMaxPairDims;
}

bool PreparedCall::pairs_keep_remainder(const Array& out) const {
  return takes_pairs() && is_low(call.storage) && call.sets == 1 && out.dtype == call.storage && is_aligned(out);
}

PairTiles PreparedCall::pair_tiles(const Rows& rows, std::int64_t count) {
  PairTiles to;
  to.batches = rows.batches;
  to.heads = rows.heads;
  to.group = call.heads / rows.heads;
  to.tiles = static_cast<std::int32_t>((count + kTile - 1) / kTile);
  const PairPrograms& pairs = *programs_of(problem)->pairs;
  to.dims = pairs.has_fast ? (call.inner + 1) / 2 * 2 : call.inner;
  const std::int64_t tiles = static_cast<std::int64_t>(to.batches) * to.heads * to.tiles;
  to.numbers = workspace_.take<float>(tiles * to.dims * kTile);
  if (pairs.has_fast) {
    to.outside = workspace_.take<std::uint32_t>(2 * tiles);
    to.large = workspace_.take<std::uint32_t>(2 * tiles);
  }
  pairs.tiles(rows.seen_by(rows.heads), static_cast<int>(count), call.inner, to, workspace_.stream());
  check(cudaGetLastError(), "rows");
  return to;
}

}  // namespace rapt::inline v1::cuda
