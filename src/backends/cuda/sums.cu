#include "backends/cuda/sums.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/array.h"
#include "backends/cuda/memory.h"

namespace rapt::inline v1::cuda {
namespace {

constexpr int kBlock = 256, kWarp = 32;

RAPT_DEVICE std::int64_t thread_place() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
RAPT_DEVICE std::int64_t thread_count() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

unsigned blocks_of(std::int64_t count, int each) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((count + each - 1) / each, 1, 1 << 20));
}

// Number n of an array, counted as if it were contiguous.
struct Strided {
  std::int64_t shape[4], strides[4];

  Strided(const Shape& s, const Shape& t) {
    for (std::size_t n = 0; n < 4; ++n) {
      shape[n] = s[n];
      strides[n] = t[n];
    }
  }
  RAPT_DEVICE std::int64_t operator()(std::int64_t n) const {
    std::int64_t place = 0;
    for (int axis = 3; axis >= 0; --axis) {
      place += n % shape[axis] * strides[axis];
      n /= shape[axis];
    }
    return place;
  }
};

// An index that repeats what an array has once.
struct Repeated {
  std::int64_t shape[4], strides[4];

  RAPT_DEVICE std::int64_t operator()(const std::int64_t* at) const {
    std::int64_t place = 0;
    for (int axis = 0; axis < 4; ++axis) place += (shape[axis] == 1 ? 0 : at[axis]) * strides[axis];
    return place;
  }
};

RAPT_DEVICE double load_wide(const void* data, Dtype dtype, std::int64_t n) {
  return dtype == Dtype::f64 ? static_cast<const double*>(data)[n] : static_cast<double>(load(data, dtype, n));
}

// Elements of 2, 4 or 8 bytes, copied as bits.
template <class T>
__global__ void copy_kernel(const T* from, Strided source, T* to, Strided target, std::int64_t count) {
  for (std::int64_t n = thread_place(); n < count; n += thread_count()) to[target(n)] = from[source(n)];
}

__global__ void convert_kernel(const void* from, Dtype from_type, Strided source, void* to, Dtype to_type,
                               Strided target, std::int64_t count) {
  for (std::int64_t n = thread_place(); n < count; n += thread_count()) {
    const double x = load_wide(from, from_type, source(n));
    if (to_type == Dtype::f64) static_cast<double*>(to)[target(n)] = x;
    else store(to, to_type, target(n), static_cast<float>(x));
  }
}

__global__ void add_kernel(const void* from, Dtype from_type, void* to, Dtype type, std::int64_t count) {
  for (std::int64_t n = thread_place(); n < count; n += thread_count())
    if (type == Dtype::f64) static_cast<double*>(to)[n] += load_wide(from, from_type, n);
    else static_cast<float*>(to)[n] += load(from, from_type, n);
}

__global__ void split_kernel(const float* from, std::int64_t count, Dtype type, void* kept, void* lost) {
  for (std::int64_t n = thread_place(); n < count; n += thread_count()) {
    store(kept, type, n, from[n]);
    store(lost, type, n, from[n] - load(kept, type, n));
  }
}

__global__ void start_kernel(float* max, float* sum, float first, std::int64_t count) {
  for (std::int64_t n = thread_place(); n < count; n += thread_count()) {
    max[n] = first;
    sum[n] = 0;
  }
}

constexpr int kSets = 8;
struct Sets {
  OutSums out[kSets];
  int count = 0;
};

Sets sets_of(std::span<const OutSums> out) {
  Sets sets;
  sets.count = static_cast<int>(std::min<std::size_t>(out.size(), kSets));
  std::copy_n(out.begin(), sets.count, sets.out);
  return sets;
}

// A warp for each row. Both rows' numbers are read by all lanes before one of them writes.
__global__ void merge_kernel(float* max, float* sum, const float* part_max, const float* part_sum, std::int64_t rows,
                             Sets sets) {
  const std::int64_t row = thread_place() / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (row >= rows) return;
  const double m = max[row], s = sum[row], pm = part_max[row], ps = part_sum[row];
  __syncwarp();
  if (ps == 0) return;
  const double top = s == 0 ? pm : (m > pm ? m : pm);
  const double own = s == 0 ? 0 : exp(m - top), others = ps * exp(pm - top);
  if (lane == 0) {
    max[row] = static_cast<float>(top);
    sum[row] = static_cast<float>(s * own + others);
  }
  // A factor of 0 adds nothing: a vanished weight hides an infinity.
  const auto a = static_cast<float>(own), c = static_cast<float>(others);
  for (int n = 0; n < sets.count; ++n) {
    const OutSums& set = sets.out[n];
    float* const total = static_cast<float*>(set.total) + row * set.dim;
    for (std::int64_t d = lane; d < set.dim; d += kWarp) {
      float x = a == 0 ? 0.f : total[d] * a;
      if (c != 0) {
        float part = load(set.part, set.part_dtype, row * set.dim + d);
        if (set.remainder) part += load(set.remainder, set.part_dtype, row * set.dim + d);
        x += c * part;
      }
      total[d] = x;
    }
  }
}

__global__ void add_log_kernel(float* sum, const float* log_sum, std::int64_t rows) {
  for (std::int64_t n = thread_place(); n < rows; n += thread_count()) sum[n] += expf(log_sum[n]);
}

__global__ void finish_kernel(float* max, float* sum, std::int64_t rows, std::int64_t heads, std::int64_t each,
                              const void* sink, Dtype sink_type, std::int64_t sink_stride, Sets sets) {
  const std::int64_t row = thread_place() / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (row >= rows) return;
  const double m = max[row];
  double s = sum[row], shrink = 1, top = m;
  __syncwarp();
  // A row that sees nothing has no weight to share with its sink.
  if (sink && s != 0) {
    const double logit = load_wide(sink, sink_type, row / each % heads * sink_stride);
    top = m > logit ? m : logit;
    shrink = exp(m - top);
    s = static_cast<float>(s * shrink + exp(logit - top));
    if (lane == 0) {
      max[row] = static_cast<float>(top);
      sum[row] = static_cast<float>(s);
    }
  }
  const auto factor = static_cast<float>(s == 0 ? 0 : shrink / s);
  for (int n = 0; n < sets.count; ++n) {
    float* const total = static_cast<float*>(sets.out[n].total) + row * sets.out[n].dim;
    for (std::int64_t d = lane; d < sets.out[n].dim; d += kWarp) total[d] *= factor;
  }
}

__global__ void lse_kernel(const float* max, const float* sum, void* lse, Dtype dtype, Strided places,
                           std::int64_t rows) {
  for (std::int64_t n = thread_place(); n < rows; n += thread_count()) {
    const double value = sum[n] == 0 ? -INFINITY : max[n] + log(static_cast<double>(sum[n]));
    if (dtype == Dtype::f64) static_cast<double*>(lse)[places(n)] = value;
    else store(lse, dtype, places(n), static_cast<float>(value));
  }
}

struct SinkRows {
  const void *out[kSets], *grad[kSets];
  Dtype out_type[kSets], grad_type[kSets];
  std::int64_t dim[kSets];
  int count = 0;
  const void* lse = nullptr;
  Dtype lse_type = Dtype::f32;
  std::int64_t heads = 1, each = 1;
  const void* sink = nullptr;
  Dtype sink_type = Dtype::f32;
  std::int64_t sink_stride = 0;
};

// Its weight is exp(sink − max)/sum, and no value stands behind it.
__global__ void sink_rows_kernel(const float* max, const float* sum, SinkRows from, double* parts, std::int64_t rows) {
  for (std::int64_t n = thread_place(); n < rows; n += thread_count()) {
    double along = 0;
    if (sum[n] == 0) {
      parts[n] = 0;
      continue;
    }
    for (int s = 0; s < from.count; ++s)
      for (std::int64_t d = n * from.dim[s]; d < (n + 1) * from.dim[s]; ++d)
        along -= load_wide(from.out[s], from.out_type[s], d) * load_wide(from.grad[s], from.grad_type[s], d);
    if (from.lse) along += load_wide(from.lse, from.lse_type, n);
    const double logit = load_wide(from.sink, from.sink_type, n / from.each % from.heads * from.sink_stride);
    parts[n] = exp(logit - max[n]) / sum[n] * along;
  }
}

__global__ void sum_sink_kernel(const double* parts, HeadRows rows, double* to, bool per_head) {
  const std::int64_t h = thread_place();
  if (h >= (per_head ? rows.heads : 1)) return;
  double sum = to[h];
  for (std::int64_t b = 0; b < rows.batches; ++b)
    for (std::int64_t own = per_head ? h : 0; own < (per_head ? h + 1 : rows.heads); ++own)
      for (std::int64_t i = 0; i < rows.rows; ++i) sum += parts[(b * rows.heads + own) * rows.rows + i];
  to[h] = sum;
}

__global__ void hide_kernel(const std::int64_t* begin, const std::int64_t* end, std::int64_t first_key,
                            const std::uint8_t* given, Repeated from, std::uint8_t* visible, Strided to,
                            std::int64_t count) {
  for (std::int64_t n = thread_place(); n < count; n += thread_count()) {
    const std::int64_t j = n % to.shape[3], i = n / to.shape[3] % to.shape[2],
                       h = n / (to.shape[3] * to.shape[2]) % to.shape[1],
                       b = n / (to.shape[3] * to.shape[2] * to.shape[1]);
    const std::int64_t row = b * to.shape[2] + i, at[4] = {b, h, i, j};
    const bool seen = first_key + j >= begin[row] && first_key + j < end[row];
    visible[to(n)] = seen && (!given || given[from(at)] != 0) ? 1 : 0;
  }
}

}  // namespace

void copy_numbers(const ConstView& from, const View& to, cudaStream_t stream) {
  const std::int64_t count = element_count(from.shape);
  if (count == 0) return;
  const Strided source(from.shape, from.strides), target(to.shape, to.strides);
  const unsigned blocks = blocks_of(count, kBlock);
  const auto copy = [&](auto of) {
    using T = decltype(of);
    copy_kernel<<<blocks, kBlock, 0, stream>>>(static_cast<const T*>(from.data), source, static_cast<T*>(to.data),
                                               target, count);
  };
  if (from.dtype != to.dtype)
    convert_kernel<<<blocks, kBlock, 0, stream>>>(from.data, from.dtype, source, to.data, to.dtype, target, count);
  else if (size_of(from.dtype) == 8) copy(std::uint64_t{});
  else if (size_of(from.dtype) == 4) copy(std::uint32_t{});
  else copy(std::uint16_t{});
  check(cudaGetLastError(), "copy of rows");
}

void add_numbers(const void* from, Dtype from_type, void* to, Dtype type, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  add_kernel<<<blocks_of(count, kBlock), kBlock, 0, stream>>>(from, from_type, to, type, count);
  check(cudaGetLastError(), "sums");
}

void split_numbers(const float* from, std::int64_t count, Dtype type, void* kept, void* lost, cudaStream_t stream) {
  if (count == 0) return;
  split_kernel<<<blocks_of(count, kBlock), kBlock, 0, stream>>>(from, count, type, kept, lost);
  check(cudaGetLastError(), "outputs");
}

void start_rows(const RowSums& rows, bool additive, cudaStream_t stream) {
  if (rows.rows == 0) return;
  start_kernel<<<blocks_of(rows.rows, kBlock), kBlock, 0, stream>>>(
      static_cast<float*>(rows.max), static_cast<float*>(rows.sum),
      additive ? 0.f : -std::numeric_limits<float>::infinity(), rows.rows);
  check(cudaGetLastError(), "row sums");
}

void merge_rows(const RowSums& total, const RowSums& part, std::span<const OutSums> out, cudaStream_t stream) {
  if (total.rows == 0) return;
  const std::int64_t blocks = (total.rows * kWarp + kBlock - 1) / kBlock;
  merge_kernel<<<static_cast<unsigned>(blocks), kBlock, 0, stream>>>(
      static_cast<float*>(total.max), static_cast<float*>(total.sum), static_cast<const float*>(part.max),
      static_cast<const float*>(part.sum), total.rows, sets_of(out));
  check(cudaGetLastError(), "merging of rows");
}

void add_rows(const RowSums& total, const float* log_sum, std::span<const OutSums> out, cudaStream_t stream) {
  if (total.rows == 0) return;
  add_log_kernel<<<blocks_of(total.rows, kBlock), kBlock, 0, stream>>>(static_cast<float*>(total.sum), log_sum,
                                                                       total.rows);
  check(cudaGetLastError(), "row sums");
  for (const OutSums& set : out)
    add_numbers(set.part, set.part_dtype, set.total, Dtype::f32, total.rows * set.dim, stream);
}

void finish_rows(const RowSums& total, std::span<const OutSums> out, const HeadRows& rows, const ConstView& sink,
                 cudaStream_t stream) {
  if (total.rows == 0) return;
  const std::int64_t blocks = (total.rows * kWarp + kBlock - 1) / kBlock;
  finish_kernel<<<static_cast<unsigned>(blocks), kBlock, 0, stream>>>(
      static_cast<float*>(total.max), static_cast<float*>(total.sum), total.rows, rows.heads, rows.rows, sink.data,
      sink.dtype, sink.shape[3] > 1 ? sink.strides[3] : 0, sets_of(out));
  check(cudaGetLastError(), "row sums");
}

void store_row_lse(const RowSums& total, const View& lse, cudaStream_t stream) {
  if (total.rows == 0) return;
  lse_kernel<<<blocks_of(total.rows, kBlock), kBlock, 0, stream>>>(
      static_cast<const float*>(total.max), static_cast<const float*>(total.sum), lse.data, lse.dtype,
      Strided(lse.shape, lse.strides), total.rows);
  check(cudaGetLastError(), "lse");
}

void add_sink_rows(const RowSums& total, std::span<const ConstView> out, std::span<const ConstView> grad_out,
                   const ConstView& grad_lse, const HeadRows& rows, const ConstView& sink, double* parts, double* to,
                   bool per_head, cudaStream_t stream) {
  if (total.rows == 0) return;
  SinkRows from;
  from.count = static_cast<int>(std::min<std::size_t>(out.size(), kSets));
  for (int n = 0; n < from.count; ++n) {
    const auto set = static_cast<std::size_t>(n);
    from.out[n] = out[set].data;
    from.out_type[n] = out[set].dtype;
    from.grad[n] = grad_out[set].data;
    from.grad_type[n] = grad_out[set].dtype;
    from.dim[n] = out[set].shape[3];
  }
  from.lse = grad_lse.data;
  from.lse_type = grad_lse.dtype;
  from.heads = rows.heads;
  from.each = rows.rows;
  from.sink = sink.data;
  from.sink_type = sink.dtype;
  from.sink_stride = sink.shape[3] > 1 ? sink.strides[3] : 0;
  sink_rows_kernel<<<blocks_of(total.rows, kBlock), kBlock, 0, stream>>>(
      static_cast<const float*>(total.max), static_cast<const float*>(total.sum), from, parts, total.rows);
  sum_sink_kernel<<<blocks_of(per_head ? rows.heads : 1, kBlock), kBlock, 0, stream>>>(parts, rows, to, per_head);
  check(cudaGetLastError(), "gradient of the sink");
}

void hide_keys(const std::int64_t* begin, const std::int64_t* end, std::int64_t first_key, const BoolView& given,
               const BoolView& visible, cudaStream_t stream) {
  const std::int64_t count = element_count(visible.shape);
  if (count == 0) return;
  Repeated from{};
  for (int n = 0; n < 4; ++n) {
    from.shape[n] = given.shape[static_cast<std::size_t>(n)];
    from.strides[n] = given.strides[static_cast<std::size_t>(n)];
  }
  hide_kernel<<<blocks_of(count, kBlock), kBlock, 0, stream>>>(begin, end, first_key, given.data, from,
                                                               const_cast<std::uint8_t*>(visible.data),
                                                               Strided(visible.shape, visible.strides), count);
  check(cudaGetLastError(), "mask");
}

}  // namespace rapt::inline v1::cuda
