#include "backends/cpu/simd/argmax_block.h"
#include "backends/cpu/simd/entry.h"
#include "backends/cpu/simd/flush_tiny.h"
#include "backends/cpu/simd/softmax_block.h"
#include "backends/cpu/simd/threshold_block.h"

// Blocks of queries against all keys they see, a tile at a time: scores, weights and output.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

// Both factors as f64, so that the sum is rounded once.
template <class T>
T wide_dot(const T* a, const T* b, std::int64_t count) {
  const Tag<double> wide;
  Vec<double> sum = hn::Zero(wide);
  if constexpr (std::is_same_v<T, float>) {
    const hn::Rebind<float, Tag<double>> half;
    for (std::int64_t d = 0; d < count; d += kLanes<double>)
      sum = hn::MulAdd(hn::PromoteTo(wide, hn::LoadU(half, a + d)), hn::PromoteTo(wide, hn::LoadU(half, b + d)), sum);
  } else {
    for (std::int64_t d = 0; d < count; d += kLanes<double>)
      sum = hn::MulAdd(hn::LoadU(wide, a + d), hn::LoadU(wide, b + d), sum);
  }
  return static_cast<T>(hn::GetLane(hn::SumOfLanes(wide, sum)));
}

// As product() adds up one number: the same roundings, so that dP − δ is exactly 0 where out is a row of values.
template <class T>
T ordered_dot(const T* a, const T* b, std::int64_t count) {
  const Tag<T> tag;
  Vec<T> sum = hn::Zero(tag);
  for (std::int64_t d = 0; d < count; ++d) sum = hn::MulAdd(hn::Set(tag, a[d]), hn::Set(tag, b[d]), sum);
  return hn::GetLane(sum);
}

template <class T>
void row_products(const MatrixRef& out, const MatrixRef& grad, std::int64_t first, std::int64_t rows, std::int64_t dim,
                  const T* row_sum, T* buffer, T* sums) {
  const std::int64_t pad = padded<T>(dim);
  for (std::int64_t r = 0; r < rows; ++r) {
    load_rows(out, first + r, 1, dim, buffer, pad);
    load_rows(grad, first + r, 1, dim, buffer + pad, pad);
    sums[r] += row_sum[r] == T(1) ? ordered_dot(buffer, buffer + pad, dim) : wide_dot(buffer, buffer + pad, pad);
  }
}

// The blocks of one task. They go through the keys together, a panel at a time: a panel's keys and values stay in the L2
// cache until all blocks have used them.
template <class T, class Block>
class ForwardBlocks {
 public:
  ForwardBlocks(Arena& arena, const ForwardTask<T>& task) {
    std::int64_t width = task.head->dim;
    for (int s = 0; s < task.head->sets; ++s) width += task.head->value_dim[s];
    width = width < 1 ? 1 : width;  // rows may have no numbers
    const std::int64_t fit = (std::int64_t{256} << 10) / (width * static_cast<std::int64_t>(sizeof(T)));
    panel_ = fit < kTileKeys ? kTileKeys : fit / kTileKeys * kTileKeys;
    last_key_ = task.key_end < task.head->keys ? task.key_end : task.head->keys;
    first_key_ = task.key_begin;
    for (std::int64_t done = 0; done < task.count; done += kMostColumns<T>) {
      ForwardTask<T> part = task;
      part.first_query += done;
      part.count = task.count - done < kMostColumns<T> ? task.count - done : kMostColumns<T>;
      blocks_[count_++].emplace(arena, part);
    }
  }

  void run() {
    for (int n = 0; n < count_; ++n) blocks_[n]->begin();
    for (std::int64_t end = first_key_ + panel_; end - panel_ < last_key_; end += panel_)
      for (int n = 0; n < count_; ++n) blocks_[n]->advance(end < last_key_ ? end : last_key_);
    for (int n = 0; n < count_; ++n) blocks_[n]->finish();
  }

 private:
  int count_ = 0;
  std::int64_t panel_ = 0, first_key_ = 0, last_key_ = 0;
  std::optional<Block> blocks_[kForwardBlocks];
};

// Calls f with the blocks of the task's normaliser.
template <class T, class F>
void with_blocks(Arena& arena, const ForwardTask<T>& task, F&& f) {
  switch (task.head->normalizer->threshold) {
    case Threshold::exponential: {
      ForwardBlocks<T, SoftmaxBlock<T>> blocks(arena, task);
      return f(blocks);
    }
    case Threshold::first_largest: {
      ForwardBlocks<T, ArgmaxBlock<T>> blocks(arena, task);
      return f(blocks);
    }
    case Threshold::solved:
    case Threshold::none: {
      ForwardBlocks<T, ThresholdBlock<T>> blocks(arena, task);
      return f(blocks);
    }
  }
}

template <class T>
std::size_t forward_workspace_of(const ForwardTask<T>& task) {
  Arena arena(nullptr);
  with_blocks(arena, task, [](auto&) {});
  return arena.used();
}

template <class T>
void forward_of(const ForwardTask<T>& task) {
  const FlushTiny flush;
  Arena arena(task.workspace);
  if (task.head->bf16) task.head->bf16->begin();
  with_blocks(arena, task, [](auto& blocks) { blocks.run(); });
  if (task.head->bf16) task.head->bf16->end();
}

// As SoftmaxBlock merges its own parts.
template <class T>
void merge_rows_of(const MergeRows<T>& merge) {
  const FlushTiny flush;
  const Tag<T> tag;
  alignas(64) T top[kLanes<T>], own[kLanes<T>], others[kLanes<T>];
  for (std::int64_t r = 0; r < merge.rows; ++r) {
    hn::StoreU(hn::Set(tag, merge.total_max[r]), tag, top);
    merge_factors<T>(hn::Set(tag, merge.part_max[r]), top, own, others);
    merge.total_max[r] = top[0];
    const Vec<T> part = hn::Mul(hn::Set(tag, merge.part_sum[r]), hn::Set(tag, others[0]));
    merge.total_sum[r] = hn::GetLane(hn::MulAdd(hn::Set(tag, merge.total_sum[r]), hn::Set(tag, own[0]), part));
    for (int s = 0; s < merge.sets; ++s)
      ValueSums<T>::merge_row(merge.total[s] + r * merge.dim[s], merge.part[s] + r * merge.dim[s], merge.dim[s], own[0],
                              others[0]);
  }
}

}  // namespace

template <class T>
void fill_forward(Kernels<T>& kernels) {
  kernels.pad = kLanes<T>;
  kernels.forward_rows = kMostColumns<T>;
  kernels.product = &product<T>;
  kernels.load_rows = &load_rows<T>;
  kernels.store_row = &store_row<T>;
  kernels.row_products = &row_products<T>;
  kernels.forward_workspace = &forward_workspace_of<T>;
  kernels.forward = &forward_of<T>;
  kernels.merge_rows = &merge_rows_of<T>;
}

template void fill_forward(Kernels<float>&);
template void fill_forward(Kernels<double>&);

}  // namespace rapt::inline v1::RAPT_TARGET
