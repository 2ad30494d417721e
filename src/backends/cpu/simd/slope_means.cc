#include "backends/cpu/simd/entry.h"
#include "backends/cpu/simd/flush_tiny.h"
#include "backends/cpu/simd/key_tiles.h"
#include "backends/cpu/simd/output_table.h"

// What every ∂weight of a row is lowered by where weights are solved to sum to 1: δ = Σ u·∂weight / Σ u, u the slopes.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

template <class T>
ForwardTask<T> tiles_task(const SlopeMeansTask<T>& task) {
  ForwardTask<T> tiles;
  tiles.head = task.head;
  tiles.first_query = task.first_query;
  tiles.count = task.count;
  return tiles;
}

template <class T>
class SlopeMeans {
 public:
  SlopeMeans(Arena& arena, const SlopeMeansTask<T>& task)
      : task_(task),
        head_(*task.head),
        columns_(columns_for<T>(task.count)),
        tiles_(arena, tiles_task(task), columns_),
        table_(arena, head_, columns_) {
    slopes_ = arena.take<T>(kTileKeys * columns_);
    grads_ = arena.take<T>(kTileKeys * columns_);
    for (T** row : {&max_, &threshold_}) *row = arena.take<T>(columns_);
    for (double** row : {&weighted_, &sum_}) *row = arena.take<double>(columns_);
    grad_columns_ = arena.take<T*>(head_.sets);
    std::int64_t widest = 1;
    for (int s = 0; s < head_.sets; ++s) {
      T* columns = arena.take<T>(head_.value_dim[s] * columns_);
      if (grad_columns_) grad_columns_[s] = columns;
      widest = head_.value_dim[s] > widest ? head_.value_dim[s] : widest;
    }
    grad_rows_ = arena.take<T>(columns_ * padded<T>(widest));
    value_tile_ = arena.take<T>(kTileKeys * padded<T>(widest));
  }

  void run() {
    const int count = static_cast<int>(task_.count);
    for (int c = 0; c < columns_; ++c) {
      // Columns past the last query score below this maximum, so they weigh nothing.
      max_[c] = c < count ? task_.row_max[task_.first_query + c] : kLargest<T>;
      threshold_[c] = c < count ? task_.row_sum[task_.first_query + c] : T(0);
      weighted_[c] = sum_[c] = 0;
    }
    for (int s = 0; s < head_.sets; ++s) {
      const std::int64_t dim = head_.value_dim[s], pad = padded<T>(dim);
      load_rows(task_.grad_out[s], task_.first_query, count, dim, grad_rows_, pad);
      for (std::int64_t n = count * pad; n < columns_ * pad; ++n) grad_rows_[n] = 0;
      transpose(grad_rows_, pad, columns_, dim, grad_columns_[s], columns_);
    }
    if (table_.given()) table_.set_gradients(grad_columns_[0]);
    tiles_.begin(task_.first_query, count);
    tiles_.advance(head_.keys, [&](std::int64_t first, int keys) { add(first, keys); });
    for (int c = 0; c < count; ++c) {
      const double delta = sum_[c] == 0 ? 0 : weighted_[c] / sum_[c];
      const T first = static_cast<T>(delta);
      const double rest = delta - static_cast<double>(first);
      task_.delta[task_.first_query + c] = first;
      task_.delta_rest[task_.first_query + c] = rest == rest ? static_cast<T>(rest) : T(0);
    }
  }

 private:
  void add(std::int64_t first, int keys) {
    const Tag<T> tag;
    T* tile = tiles_.tile();
    head_.normalizer->weights({.tile = tile,
                               .slopes = slopes_,
                               .keys = keys,
                               .columns = columns_,
                               .stride = columns_,
                               .row_max = max_,
                               .threshold = threshold_,
                               .values = head_.normalizer_values});
    bool any = false;
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(keys) * columns_ && !any; n += kLanes<T>)
      any = !hn::AllTrue(tag, hn::Eq(hn::LoadU(tag, slopes_ + n), hn::Zero(tag)));
    if (!any) return;
    for (int s = 0; s < head_.sets; ++s) {
      const std::int64_t dim = head_.value_dim[s];
      std::ptrdiff_t stride = 0;
      const T* rows = rows_at(head_.v[s], first, keys, dim, value_tile_, padded<T>(dim), stride);
      product<T>({.m = keys,
                  .n = columns_,
                  .k = dim,
                  .a = rows,
                  .a_row = stride,
                  .a_col = 1,
                  .b = grad_columns_[s],
                  .b_row = columns_,
                  .c = grads_,
                  .c_row = columns_,
                  .accumulate = s > 0});
    }
    table_.add_weight_gradients(task_.first_query, static_cast<int>(task_.count), first, keys, grads_);
    for (int c = 0; c < columns_; c += kLanes<T>) add_columns(keys, c);
  }

  // In double: what rounding leaves of Σ u·(∂weight − δ) is multiplied by all that the keys of a row have in common.
  void add_columns(int keys, int c) {
    constexpr int kWide = kLanes<double>;
    const Tag<double> tag;
    for (int part = 0; part < kLanes<T>; part += kWide) {
      double* const weighted_at = weighted_ + c + part;
      double* const sum_at = sum_ + c + part;
      Vec<double> weighted = hn::LoadU(tag, weighted_at), sum = hn::LoadU(tag, sum_at);
      for (int j = 0; j < keys; ++j) {
        const Vec<double> u = wide(slopes_ + j * columns_ + c + part);
        const Vec<double> product = hn::Mul(u, wide(grads_ + j * columns_ + c + part));
        weighted = hn::Add(weighted, hn::IfThenZeroElse(hn::Eq(u, hn::Zero(tag)), product));
        sum = hn::Add(sum, u);
      }
      hn::StoreU(weighted, tag, weighted_at);
      hn::StoreU(sum, tag, sum_at);
    }
  }
  static Vec<double> wide(const T* from) {
    const Tag<double> tag;
    if constexpr (std::is_same_v<T, double>) return hn::LoadU(tag, from);
    else return hn::PromoteTo(tag, hn::LoadU(hn::Rebind<float, Tag<double>>(), from));
  }

  const SlopeMeansTask<T>& task_;
  const HeadTask<T>& head_;
  const int columns_;
  KeyTiles<T> tiles_;
  OutputTableGrads<T> table_;
  T* slopes_ = nullptr;
  T* grads_ = nullptr;
  T* max_ = nullptr;
  T* threshold_ = nullptr;
  double* weighted_ = nullptr;
  double* sum_ = nullptr;
  T** grad_columns_ = nullptr;  // [sets]: [value_dim][columns]
  T* grad_rows_ = nullptr;
  T* value_tile_ = nullptr;
};

template <class T>
std::size_t slope_means_workspace_of(const SlopeMeansTask<T>& task) {
  Arena arena(nullptr);
  const SlopeMeans<T> means(arena, task);
  return arena.used();
}

template <class T>
void slope_means_of(const SlopeMeansTask<T>& task) {
  const FlushTiny flush;
  Arena arena(task.workspace);
  if (task.head->bf16) task.head->bf16->begin();
  SlopeMeans<T>(arena, task).run();
  if (task.head->bf16) task.head->bf16->end();
}

}  // namespace

template <class T>
void fill_slope_means(Kernels<T>& kernels) {
  kernels.slope_means_workspace = &slope_means_workspace_of<T>;
  kernels.slope_means = &slope_means_of<T>;
}

template void fill_slope_means(Kernels<float>&);
template void fill_slope_means(Kernels<double>&);

}  // namespace rapt::inline v1::RAPT_TARGET
