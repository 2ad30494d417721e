#include "backends/cpu/head_waves.h"

#include <algorithm>
#include <cmath>

#include "attend/score_tile.h"
#include "backends/cpu/parallel.h"
#include "backends/host/host_parameters.h"
#include "backends/host/storage.h"
#include "mechanisms/objects.h"

namespace rapt::inline v1 {
namespace {

constexpr std::int64_t kMapBlock = 128;                      // rows mapped by one task
constexpr std::int64_t kWaveBytes = std::int64_t{32} << 20;  // mapped rows of one wave

std::int64_t round_to(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Rows are rearranged for bf16 products, which does not pay where each is multiplied a few times. A part of a sequence is
// computed as its whole would be, however small it is.
bool too_small_for_bf16(const Problem& p, const Bf16Kernels& kernels, bool backward) {
  if (p.is_part) return false;
  // Gradients of parameters are numbers of f32, summed from what bf16 products round: over short sequences it would show.
  constexpr std::int64_t kFewestOfSums = 256;
  const std::int64_t fewest = p.parameters.empty() ? kernels.fewest_backward : kFewestOfSums;
  return (p.queries <= kShort && p.keys <= kShort) || (backward && std::min(p.queries, p.keys) < fewest);
}

}  // namespace

template <class T>
std::vector<T> padded_copy(const T* w, std::int64_t rows, std::int64_t cols, std::int64_t pad, bool transposed) {
  std::vector<T> copy(static_cast<std::size_t>((transposed ? cols : rows) * pad));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      copy[static_cast<std::size_t>(transposed ? c * pad + r : r * pad + c)] = w[r * cols + c];
  return copy;
}

template <class T>
HeadWaves<T>::HeadWaves(const Problem& problem, const Kernels<T>& kernels, bool backward, bool narrow,
                        std::int64_t more_bytes)
    : problem_(problem),
      kernels_(kernels),
      programs_(programs_for(*problem.mechanism, problem.isa)),
      visibility_(problem),
      backward_(backward) {
  for (const Operand& v : problem.v) value_dims_.push_back(v.dim);
  relative_dim_ = 1;
  for (const ParameterValue& p : problem.parameters)
    if (p.spec->role == Role::relative_vector && p.given) {
      has_vectors_ = true;
      relative_dim_ = p.cols;
    }
  // Its error is one of weights relative to their row; other normalisers would show it whole.
  fast_ = problem.path == Path::automatic && problem.is_softmax() && problem.mechanism->definition().fast_limit > 0 &&
          programs_ != nullptr;
  const bool unit = problem.mechanism->unit_rows();
  if (problem.uses_content) {
    maps_q_ = fast_ || unit || problem.find(Role::query_map) || problem.find(Role::query_shift);
    maps_k_ = fast_ || unit || problem.find(Role::key_map);
  }
  maps_relative_ = has_vectors_ && problem.find(Role::relative_query_shift);
  if (narrow && takes_bf16(backward)) bf16_ = active_bf16(problem.isa);
  // A tile of values that one block alone reads is transposed by its task.
  transposes_values_ = bf16_ && !backward && problem.queries > kernels.forward_rows;
  // Keys and values of a smaller type are read again by every block of queries: with several blocks they are converted once.
  if (!backward && !bf16_ && problem.queries > 2 * kernels.forward_rows) {
    maps_k_ = maps_k_ || (problem.uses_content && problem.k.dtype != dtype_of<T>());
    for (const Operand& v : problem.v) converts_values_ = converts_values_ || v.dtype != dtype_of<T>();
  }
  inner_pad_ = round_to(problem.inner, kernels.pad);
  relative_pad_ = round_to(relative_dim_, kernels.pad);
  std::int64_t rows = (maps_q_ ? problem.queries * inner_pad_ : 0) + (maps_k_ ? problem.keys * inner_pad_ : 0) +
                      (maps_relative_ ? problem.queries * relative_pad_ : 0);
  for (std::size_t n = 0; n < problem.v.size() && converts_values_; ++n) rows += problem.keys * value_pad(n);
  for (std::size_t n = 0; n < problem.v.size() && transposes_values_; ++n) rows += transposed_size(n);
  const std::int64_t bytes = rows * static_cast<std::int64_t>(sizeof(T)) * (backward ? 2 : 1) + more_bytes;
  const std::int64_t all = problem.batch * problem.heads;
  // By the shapes alone: which heads are in a wave decides in which order gradients of shared things are added.
  wave_size_ = bytes == 0 ? all : std::clamp<std::int64_t>(kWaveBytes / bytes, 1, all);
  mapped_ = Buffer(static_cast<std::size_t>(rows * wave_size_) * sizeof(T));
  find_identities();
  if (!maps_q_ && !maps_k_ && !maps_relative_ && !converts_values_ && !transposes_values_) return;
  // A block of rows, and a map.
  const std::int64_t dim = std::max(problem.query_dim, problem.key_dim);
  const std::int64_t scratch = kMapBlock * round_to(dim, kernels.pad) + dim * inner_pad_;
  for (int t = 0; t < problem.threads; ++t) scratch_.emplace_back(static_cast<std::size_t>(scratch) * sizeof(T));
}

template <class T>
void HeadWaves<T>::find_identities() {
  identities_.resize(problem_.parameters.size());
  for (std::size_t p = 0; p < identities_.size(); ++p) {
    const std::vector<std::int32_t>& rows = problem_.parameters[p].relative_rows;
    bool identity = true;
    for (std::size_t n = 1; n < rows.size(); ++n) identity = identity && rows[n] == rows[n - 1] + 1;
    identities_[p] = identity ? 1 : 0;
  }
}

template <class T>
bool HeadWaves<T>::is_plain_product() const {
  const Problem& p = problem_;
  if (!programs_ || !p.uses_content || bf16_ || p.softcap > 0 || p.bias || p.dense_mask) return false;
  const TileProgram<T>& program = programs_->template get<T>();
  if (program.raw || program.score || program.hide) return false;
  if (p.mechanism->unit_rows()) return false;
  return std::ranges::none_of(p.parameters, [](const ParameterValue& value) { return value.given; });
}

template <class T>
std::int64_t HeadWaves<T>::value_pad(std::size_t set) const {
  return round_to(problem_.v[set].dim, kernels_.pad);
}

// Of the transposed values of one head, in units of T.
template <class T>
std::int64_t HeadWaves<T>::transposed_size(std::size_t set) const {
  const std::int64_t numbers = round_to(problem_.keys, kTileKeys) * round_to(problem_.v[set].dim, 16);
  return numbers * 2 / static_cast<std::int64_t>(sizeof(T));
}

// bf16 products are for bf16 rows that no map changes before they are multiplied, and for more than a few queries.
template <class T>
bool HeadWaves<T>::takes_bf16(bool backward) const {
  const Problem& p = problem_;
  const Bf16Kernels* kernels = active_bf16(p.isa);
  if (!kernels || too_small_for_bf16(p, *kernels, backward)) return false;
  if (!std::is_same_v<T, float> || !programs_ || programs_->template get<T>().raw || !p.uses_content) return false;
  if (maps_q_ || maps_k_ || p.queries <= 2 || p.one_position) return false;
  bool all = p.q.dtype == Dtype::bf16 && p.k.dtype == Dtype::bf16;
  for (const Operand& v : p.v) all = all && v.dtype == Dtype::bf16;
  return all;
}

template <class T>
HeadTask<T> HeadWaves<T>::prototype() const {
  const Problem& p = problem_;
  HeadTask<T> task;
  task.queries = p.queries;
  task.keys = p.keys;
  task.dim = static_cast<int>(p.uses_content ? p.inner : 1);
  task.relative_dim = static_cast<int>(relative_dim_);
  task.sets = static_cast<int>(p.v.size());
  task.value_dim = value_dims_.data();
  task.bf16 = bf16_;
  task.program = &(programs_ ? *programs_ : p.mechanism->definition().scalar).template get<T>();
  task.object = p.object;
  task.content = p.uses_content;
  task.fast = fast_;
  task.scale = static_cast<T>(p.scale);
  task.slots = p.mechanism->definition().slots;
  task.grid = p.mechanism->grid();
  task.grid_rows = p.grid[0];
  task.grid_cols = p.grid[1];
  task.softcap = static_cast<T>(p.softcap);
  if (p.bias) task.bias = p.bias.at(0, 0);
  task.first_key = p.first_key;
  task.normalizer = &normalizer_program<T>(p.isa, *p.normalizer);
  task.visibility = &visibility_;
  for (std::size_t n = 0; n < p.parameters.size(); ++n) {
    const ParameterValue& value = p.parameters[n];
    if (!value.given || value.relative_rows.empty()) continue;
    if (value.spec->role == Role::relative_output) {
      task.output_table = {value.template head<T>(0), value.relative_rows.data(), value.relative_zero, value.rows,
                           nullptr};
      continue;
    }
    RelativeTable<T>& table = task.relative[value.first_slot];
    table.role = value.spec->role;
    table.along = value.spec->along;
    table.table = value.template head<T>(0);
    table.index = value.relative_rows.data();
    table.zero = value.relative_zero;
    table.rows = value.rows;
    table.identity = identities_[n] != 0;
  }
  return task;
}

// What depends on the arrays, or on which head it is.
template <class T>
void HeadWaves<T>::bind(Head<T>& head) const {
  const Problem& p = problem_;
  HeadTask<T>& task = head.task;
  task.b = head.b;
  task.h = head.h;
  task.query_shift = p.query_shift(head.b);
  task.score_tile = score_tile_of<T>(p, head.b, head.h);
  const Dtype own = dtype_of<T>();
  task.q = maps_q_ ? MatrixRef{head.mapped_q, own, inner_pad_} : p.q.at(head.b, head.h);
  task.k = maps_k_ ? MatrixRef{head.mapped_k, own, inner_pad_} : p.k.at(head.b, head.h);
  task.q_relative = maps_relative_ ? MatrixRef{head.mapped_relative, own, relative_pad_} : p.q.at(head.b, head.h);
  for (std::size_t n = 0; n < p.v.size(); ++n)
    head.v[n] = converts_values_ ? MatrixRef{head.converted_v[n], own, value_pad(n)} : p.v[n].at(head.b, head.h);
  if (p.bias) task.bias = p.bias.at(head.b, head.h);
  if (p.dense_mask) {
    task.mask = static_cast<const std::uint8_t*>(p.dense_mask.data) + p.dense_mask.offset(head.b, head.h);
    task.mask_row = p.dense_mask.row_stride;
  }
  for (std::size_t n = 0; n < p.parameters.size(); ++n) {
    const ParameterValue& value = p.parameters[n];
    if (!value.given) continue;
    if (value.spec->role == Role::value)
      for (int s = 0; s < value.spec->slots(); ++s)
        task.values[value.first_slot + s] = value.template head<T>(head.h)[s];
    if (value.spec->role == Role::pair_weight) task.pair_weights = value.template head<T>(head.h);
    if (value.relative_rows.empty()) continue;
    if (value.spec->role == Role::relative_output) {
      task.output_table.table = value.template head<T>(head.h);
      task.output_table.index = value.relative_rows.data();
      task.output_table.zero = value.relative_zero;
      continue;
    }
    RelativeTable<T>& table = task.relative[value.first_slot];
    table.table = value.template head<T>(head.h);
    table.index = value.relative_rows.data();
    table.zero = value.relative_zero;
    table.identity = identities_[n] != 0;
  }
  const bool softmax = p.is_softmax();
  for (std::size_t n = 0; n < p.normalizer_parameters.size(); ++n) {
    const ParameterValue& value = p.normalizer_parameters[n];
    if (softmax) task.sink = value.given ? value.template head<T>(head.h) : nullptr;
    else task.normalizer_values[n] = static_cast<T>(normalizer_value(p, n, head.h));
  }
}

template <class T>
void HeadWaves<T>::map_rows(const Head<T>& head, std::int64_t first, std::int64_t rows, bool keys, T* scratch) const {
  const Problem& p = problem_;
  const MatrixRef source = keys ? p.k.at(head.b, head.h) : p.q.at(head.b, head.h);
  const std::int64_t dim = keys ? p.key_dim : p.query_dim;
  if (!keys && maps_relative_) {
    const T* shift = p.find(Role::relative_query_shift)->template head<T>(head.h);
    T* to = head.mapped_relative + first * relative_pad_;
    kernels_.load_rows(source, first, rows, dim, to, relative_pad_);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t d = 0; d < dim; ++d) to[r * relative_pad_ + d] += shift[d];
  }
  for (std::size_t n = 0; n < head.converted_v.size() && keys; ++n)
    kernels_.load_rows(p.v[n].at(head.b, head.h), first, rows, p.v[n].dim, head.converted_v[n] + first * value_pad(n),
                       value_pad(n));
  for (std::size_t n = 0; n < head.transposed_v.size() && keys; ++n) {
    const MatrixRef v = p.v[n].at(head.b, head.h);
    const std::int64_t width = round_to(p.v[n].dim, 16);
    for (std::int64_t j = first; j < first + rows; j += kTileKeys)
      bf16_->arrange_columns(static_cast<const std::uint16_t*>(v.data) + j * v.stride, v.stride,
                             std::min<std::int64_t>(kTileKeys, first + rows - j), p.v[n].dim, width,
                             const_cast<std::uint16_t*>(head.transposed_v[n]) + j * width);
  }
  if (!(keys ? maps_k_ : maps_q_)) return;
  T* to = (keys ? head.mapped_k : head.mapped_q) + first * inner_pad_;
  if (const ParameterValue* map = p.find(keys ? Role::key_map : Role::query_map)) {
    const std::int64_t pad = round_to(dim, kernels_.pad);
    T* const w = scratch + kMapBlock * pad;
    kernels_.load_rows({const_cast<T*>(map->template head<T>(head.h)), dtype_of<T>(), map->cols}, 0, map->rows,
                       map->cols, w, inner_pad_);
    kernels_.load_rows(source, first, rows, dim, scratch, pad);
    kernels_.product({.m = rows,
                      .n = inner_pad_,
                      .k = dim,
                      .a = scratch,
                      .a_row = pad,
                      .a_col = 1,
                      .b = w,
                      .b_row = inner_pad_,
                      .c = to,
                      .c_row = inner_pad_,
                      .accumulate = false});
  } else {
    kernels_.load_rows(source, first, rows, dim, to, inner_pad_);
  }
  if (p.mechanism->unit_rows())
    for (std::int64_t r = 0; r < rows; ++r) {
      T* row = to + r * inner_pad_;
      double square = 0;
      for (std::int64_t d = 0; d < p.inner; ++d) square += static_cast<double>(row[d]) * static_cast<double>(row[d]);
      // In double: of the shortest rows of f32 the inverse of the length is no number of f32.
      const double inverse = square == 0 ? 0 : 1 / std::sqrt(square);
      for (std::int64_t d = 0; d < p.inner; ++d) row[d] = static_cast<T>(static_cast<double>(row[d]) * inverse);
    }
  if (const ParameterValue* shift = keys ? nullptr : p.find(Role::query_shift))
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t d = 0; d < p.inner; ++d) to[r * inner_pad_ + d] += shift->template head<T>(head.h)[d];
}

// Every pair takes the fast form or the plain one, as the centers of its own two rows say.
template <class T>
void HeadWaves<T>::prepare_fast(std::span<Head<T>> heads) const {
  parallel_for(static_cast<std::int64_t>(heads.size()), problem_.threads, [&](std::int64_t n, int) {
    Head<T>& head = heads[static_cast<std::size_t>(n)];
    HeadTask<T>& task = head.task;
    const auto find = [&](const T* rows, std::int64_t count, std::vector<T>& centers) {
      centers.resize(static_cast<std::size_t>(count));
      task.program->fast_centers({.rows = rows,
                                  .weights = task.pair_weights,
                                  .centers = centers.data(),
                                  .count = count,
                                  .stride = inner_pad_,
                                  .dim = static_cast<int>(problem_.inner)});
    };
    find(head.mapped_q, problem_.queries, head.q_centers);
    find(head.mapped_k, problem_.keys, head.k_centers);
    const auto none = [](T x) { return std::isnan(x); };
    const auto small = [](T x) { return std::isfinite(x); };
    const bool plain = std::ranges::any_of(head.q_centers, none) || std::ranges::any_of(head.k_centers, none) ||
                       (std::ranges::any_of(head.q_centers, small) && std::ranges::any_of(head.k_centers, small));
    task.plain_q = task.plain_k = {};
    if (plain) keep_plain(head);
    task.program->fast_prepare(head.mapped_q, problem_.queries * inner_pad_);
    task.program->fast_prepare(head.mapped_k, problem_.keys * inner_pad_);
  });
}

template <class T>
void HeadWaves<T>::keep_plain(Head<T>& head) const {
  const auto keep = [&](T* mapped, const std::vector<T>& centers, std::vector<T>& plain) {
    const auto rows = static_cast<std::int64_t>(centers.size());
    plain.assign(mapped, mapped + rows * inner_pad_);
    // Exponentials of rows beyond the limit might be infinite, which times 0 is NaN.
    for (std::int64_t r = 0; r < rows; ++r)
      if (std::isnan(centers[static_cast<std::size_t>(r)])) std::fill_n(mapped + r * inner_pad_, inner_pad_, T(0));
    return MatrixRef{plain.data(), dtype_of<T>(), inner_pad_};
  };
  head.task.plain_q = keep(head.mapped_q, head.q_centers, head.plain_q);
  head.task.plain_k = keep(head.mapped_k, head.k_centers, head.plain_k);
  head.task.q_centers = head.q_centers.data();
  head.task.k_centers = head.k_centers.data();
}

// One more head of the wave, with its memory from `mapped` on. Returns what follows it.
template <class T>
T* HeadWaves<T>::add_head(std::vector<Head<T>>& heads, T* mapped) const {
  Head<T>& head = heads.emplace_back();
  const auto take = [&](bool wanted, std::int64_t size) {
    T* piece = wanted ? mapped : nullptr;
    mapped += wanted ? size : 0;
    return piece;
  };
  head.mapped_q = take(maps_q_, problem_.queries * inner_pad_);
  head.mapped_k = take(maps_k_, problem_.keys * inner_pad_);
  head.mapped_relative = take(maps_relative_, problem_.queries * relative_pad_);
  for (std::size_t s = 0; s < problem_.v.size() && converts_values_; ++s)
    head.converted_v.push_back(take(true, problem_.keys * value_pad(s)));
  for (std::size_t s = 0; s < problem_.v.size() && transposes_values_; ++s)
    head.transposed_v.push_back(reinterpret_cast<std::uint16_t*>(take(true, transposed_size(s))));
  head.v.resize(problem_.v.size());
  head.task = prototype();
  head.task.v = head.v.data();
  head.task.transposed_v = head.transposed_v.data();
  return mapped;
}

template <class T>
void HeadWaves<T>::reserve(std::int64_t count, std::vector<Head<T>>& heads) const {
  if (heads.size() >= static_cast<std::size_t>(count)) return;
  heads.clear();
  heads.reserve(static_cast<std::size_t>(count));
  T* next = mapped_.template as<T>();
  for (std::int64_t n = 0; n < count; ++n) next = add_head(heads, next);
}

template <class T>
void HeadWaves<T>::prepare(std::int64_t first, std::int64_t count, std::vector<Head<T>>& heads) {
  find_identities();
  reserve(count, heads);

  for (std::int64_t n = 0; n < count; ++n) {
    Head<T>& head = heads[static_cast<std::size_t>(n)];
    head.b = (first + n) / problem_.heads;
    head.h = (first + n) % problem_.heads;
    bind(head);
  }
  if (scratch_.empty()) return;
  const std::int64_t q_blocks = (problem_.queries + kMapBlock - 1) / kMapBlock;
  const std::int64_t k_blocks =
      maps_k_ || converts_values_ || transposes_values_ ? (problem_.keys + kMapBlock - 1) / kMapBlock : 0;
  parallel_for(count * (q_blocks + k_blocks), problem_.threads, [&](std::int64_t n, int worker) {
    const Head<T>& head = heads[static_cast<std::size_t>(n / (q_blocks + k_blocks))];
    std::int64_t block = n % (q_blocks + k_blocks);
    const bool keys = block >= q_blocks;
    if (keys) block -= q_blocks;
    const std::int64_t start = block * kMapBlock;
    const std::int64_t rows = std::min(kMapBlock, (keys ? problem_.keys : problem_.queries) - start);
    map_rows(head, start, rows, keys, scratch_[static_cast<std::size_t>(worker)].template as<T>());
  });
  if (fast_) prepare_fast(std::span(heads).first(static_cast<std::size_t>(count)));
}

template class HeadWaves<float>;
template class HeadWaves<double>;
template std::vector<float> padded_copy(const float*, std::int64_t, std::int64_t, std::int64_t, bool);
template std::vector<double> padded_copy(const double*, std::int64_t, std::int64_t, std::int64_t, bool);

}  // namespace rapt::inline v1
