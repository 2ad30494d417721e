#include "backends/cuda/rows.h"

#include <algorithm>

#include "backends/cuda/general/block.cuh"
#include "backends/cuda/hopper/sm90.h"
#include "backends/cuda/memory.h"

namespace rapt::inline v1::cuda {
namespace {

constexpr int kSmall = 256;

RAPT_DEVICE std::int64_t thread_index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
RAPT_DEVICE std::int64_t thread_total() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

unsigned blocks_for(std::int64_t work) {
  const std::int64_t blocks = (work + kSmall - 1) / kSmall;
  return static_cast<unsigned>(blocks < 1 ? 1 : (blocks > 1 << 20 ? 1 << 20 : blocks));
}

// The place of number n of an array, counted as if it were contiguous.
struct Places {
  std::int64_t shape[4], strides[4];

  explicit Places(const Shape& s, const Shape& t) {
    for (int n = 0; n < 4; ++n) {
      shape[n] = s[static_cast<std::size_t>(n)];
      strides[n] = t[static_cast<std::size_t>(n)];
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

__global__ void gather_kernel(const void* data, Dtype dtype, Places places, std::int64_t count, float* out) {
  for (std::int64_t n = thread_index(); n < count; n += thread_total()) out[n] = load(data, dtype, places(n));
}

__global__ void zeros_kernel(void* data, Dtype dtype, Places places, std::int64_t count) {
  for (std::int64_t n = thread_index(); n < count; n += thread_total()) store(data, dtype, places(n), 0.f);
}

__global__ void spread_values_kernel(const float* from, float value, bool per_head, int size, int heads, int stride,
                                     int first, float* to) {
  for (std::int64_t n = thread_index(); n < static_cast<std::int64_t>(heads) * size; n += thread_total()) {
    const std::int64_t h = n / size, e = n % size;
    to[h * stride + first + e] = from ? from[(per_head ? h * size : 0) + e] : value;
  }
}

__global__ void spread_table_kernel(Table table, int heads, float* to) {
  for (std::int64_t n = thread_index(); n < heads * table.spread_stride; n += thread_total()) {
    const std::int64_t h = n / table.spread_stride, offset = n % table.spread_stride - kOffsetPadding;
    const std::int64_t place = offset < 0 ? 0 : (offset < table.offsets ? offset : table.offsets - 1);
    to[n] = table.numbers[h * table.head_stride + table.rows[place]];
  }
}

__global__ void grid_places_kernel(int cols, std::int64_t first, std::int64_t count, float2* to) {
  for (std::int64_t n = thread_index(); n < count; n += thread_total()) {
    const std::int64_t position = first + n < 0 ? 0 : first + n;
    to[n] = make_float2(static_cast<float>(position / cols), static_cast<float>(position % cols));
  }
}

// One warp for each row.
struct WarpRow {
  int b, h, row, lane;
  bool inside;

  RAPT_DEVICE WarpRow(int batches, int heads, int rows) {
    const std::int64_t n = thread_index() / 32;
    lane = static_cast<int>(threadIdx.x) % 32;
    inside = n < static_cast<std::int64_t>(batches) * heads * rows;
    row = static_cast<int>(n % rows);
    h = static_cast<int>(n / rows % heads);
    b = static_cast<int>(n / rows / heads);
  }
  RAPT_DEVICE std::int64_t index(int heads, int rows) const {
    return (static_cast<std::int64_t>(b) * heads + h) * rows + row;
  }
};

RAPT_DEVICE double sum_warp(double x) {
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(~0u, x, mask);
  return x;
}

// Number d of a row, rotated.
RAPT_DEVICE float rotated(const Array& from, std::int64_t base, const RowChange& c, std::int64_t position, int d) {
  const float x = load(from, base + d);
  if (d >= c.rotary_dims) return x;
  const int half = c.rotary_dims / 2;
  const bool first = c.interleaved ? d % 2 == 0 : d < half;
  const int n = c.interleaved ? d / 2 : d % half, other = c.interleaved ? d ^ 1 : (first ? d + half : d - half);
  const double angle = static_cast<double>(position) * pow(c.rotary_base, -2.0 * n / c.rotary_dims);
  double sine, cosine;
  sincos(angle, &sine, &cosine);
  if (c.backward) sine = -sine;
  const float y = load(from, base + other), cs = static_cast<float>(cosine), sn = static_cast<float>(sine);
  return first ? x * cs - y * sn : y * sn + x * cs;
}

__global__ void change_rows_kernel(const __grid_constant__ Array from, const __grid_constant__ RowChange c, float* to) {
  const WarpRow w(c.batches, c.heads, c.rows);
  if (!w.inside) return;
  const std::int64_t base = from.offset(w.b, w.h) + w.row * from.row_stride;
  const std::int64_t position = (c.positions ? c.positions[w.b] : c.first_position) + w.row;
  double length = 1;
  if (c.unit) {
    double square = 0;
    for (int d = w.lane; d < c.dim; d += 32) {
      const double x = rotated(from, base, c, position, d);
      square += x * x;
    }
    length = sqrt(sum_warp(square));
  }
  float* out = to + w.index(c.heads, c.rows) * c.dim;
  for (int d = w.lane; d < c.dim; d += 32) {
    float x = rotated(from, base, c, position, d);
    if (c.unit && length != 0) x = static_cast<float>(x / length);
    out[d] = c.shift ? x + c.shift[w.h * c.shift_stride + d] : x;
  }
}

// y = x/‖x‖: dx = (dy − y (y·dy))/‖x‖, and 0 for a row of length zero.
__global__ void unit_rows_backward_kernel(const __grid_constant__ Array x, int batches, int heads, int rows, int dim,
                                          float* grad) {
  const WarpRow w(batches, heads, rows);
  if (!w.inside) return;
  const std::int64_t base = x.offset(w.b, w.h) + w.row * x.row_stride;
  float* g = grad + w.index(heads, rows) * dim;
  double square = 0, along = 0;
  bool any = false;
  for (int d = w.lane; d < dim; d += 32) {
    const double e = load(x, base + d);
    square += e * e;
    along += e * g[d];
    any = any || g[d] != 0;
  }
  square = sum_warp(square);
  along = sum_warp(along);
  any = __any_sync(~0u, any);
  for (int d = w.lane; d < dim; d += 32)
    g[d] = !any || square == 0 ? 0.f : static_cast<float>((g[d] - load(x, base + d) / square * along) / sqrt(square));
}

__global__ __launch_bounds__(kThreads, 1) void map_rows_kernel(const __grid_constant__ Array from, Map map, int heads,
                                                               int rows, bool backward, float* to) {
  extern __shared__ float4 memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int b = static_cast<int>(blockIdx.x) / heads, h = static_cast<int>(blockIdx.x) % heads;
  const int first = static_cast<int>(blockIdx.y) * kTile, column = static_cast<int>(blockIdx.z) * kTile;
  const int depth = backward ? map.out : map.in, width = backward ? map.in : map.out;
  const float* numbers = map.numbers + h * map.head_stride;
  float acc[4][4] = {};
  multiply(s, acc, depth, RowLoader(from, b, h, first, rows), [&](int n, int d) {
    if (column + n >= width) return 0.f;
    return backward ? numbers[(column + n) * map.out + d] : numbers[d * map.out + column + n];
  });
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) {
      const int row = first + thread_row() + r, n = column + thread_column() + c;
      if (row < rows && n < width) to[(static_cast<std::int64_t>(blockIdx.x) * rows + row) * width + n] = acc[r][c];
    }
}

__global__ __launch_bounds__(kThreads, 1) void map_gradient_kernel(const __grid_constant__ Array x,
                                                                   const __grid_constant__ Array dy, Map map, int heads,
                                                                   int rows, float* grad) {
  extern __shared__ float4 memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int b = static_cast<int>(blockIdx.x) / heads, h = static_cast<int>(blockIdx.x) % heads;
  const int in = static_cast<int>(blockIdx.y) * kTile, out = static_cast<int>(blockIdx.z) * kTile;
  float acc[4][4] = {};
  const std::int64_t x_base = x.offset(b, h), dy_base = dy.offset(b, h);
  // A row without a gradient takes nothing of x, not even a NaN.
  for_pairs(
      s, acc, rows,
      [&](int n, int row) { return in + n < map.in ? load(x, x_base + row * x.row_stride + in + n) : 0.f; },
      [&](int n, int row) { return out + n < map.out ? load(dy, dy_base + row * dy.row_stride + out + n) : 0.f; },
      [](float sum, float a, float g, int) { return g == 0 ? sum : fmaf(a, g, sum); });
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 4; ++c) {
      const int row = in + thread_row() + r, n = out + thread_column() + c;
      if (row < map.in && n < map.out)
        grad[(static_cast<std::int64_t>(blockIdx.x) * map.in + row) * map.out + n] = acc[r][c];
    }
}

struct Sets {
  Array out[kMaxValueSets], grad_out[kMaxValueSets], grad_lse;
};

constexpr int kDeltaThreads = 128;

// As multiply() adds up one dP, number after number: the same roundings, so that dP − δ is exactly 0 where out is a row of
// values. A warp has 32 rows, which it passes through shared memory 32 numbers at a time.
__global__ void row_deltas_kernel(int batches, int heads, int queries, int sets, const __grid_constant__ Sets arrays,
                                  float* delta) {
  __shared__ float tiles[kDeltaThreads / 32][2][32][33];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto& tile = tiles[threadIdx.x / 32];
  const std::int64_t count = static_cast<std::int64_t>(batches) * heads * queries, row = thread_index(),
                     first = row - lane;
  const auto line = static_cast<int>(row / queries);
  const auto place = [&](const Array& array) {
    return row < count ? array.offset(line / heads, line % heads) + row % queries * array.row_stride : 0;
  };
  float sum = 0;
  for (int n = 0; n < sets; ++n) {
    const Array &out = arrays.out[n], &grad = arrays.grad_out[n];
    const std::int64_t own_out = place(out), own_grad = place(grad);
    for (int d = 0; d < out.dim; d += 32) {
      __syncwarp();
      for (int r = 0; r < 32; ++r) {
        const std::int64_t of_out = __shfl_sync(~0u, own_out, r), of_grad = __shfl_sync(~0u, own_grad, r);
        if (first + r >= count || d + lane >= out.dim) continue;
        tile[0][r][lane] = load(out, of_out + d + lane);
        tile[1][r][lane] = load(grad, of_grad + d + lane);
      }
      __syncwarp();
      const int numbers = ::min(32, out.dim - d);
      for (int e = 0; e < numbers; ++e) sum = fmaf(tile[1][lane][e], tile[0][lane][e], sum);
    }
  }
  if (row >= count) return;
  const Array& lse = arrays.grad_lse;
  delta[row] = lse.data ? sum - load(lse, place(lse)) : sum;
}

// Eight numbers of 16 bits at a time, and kLanes lanes a row.
template <class T, int kLanes>
__global__ void prepare_rows_kernel(const __grid_constant__ Call call, RowStatistics rows, Array out,
                                    const std::uint16_t* remainder, Array grad, Array grad_lse, PaddedRows to,
                                    float* plain_delta, int* redo) {
  // Rows of all batches and heads are fewer than 2^31.
  const unsigned index = blockIdx.x * (kSmall / kLanes) + threadIdx.x / kLanes, padded = to.padded;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const unsigned line = index / padded;
  const int i = static_cast<int>(index - line * padded), b = static_cast<int>(line) / call.heads,
            h = static_cast<int>(line) - b * call.heads;
  const bool inside = b < call.batch && i < call.queries;
  const std::int64_t row = call.row(b, h, i);
  float sum = 0;
  if (inside) {
    const auto* x = static_cast<const std::uint16_t*>(out.data) + out.offset(b, h) + i * out.row_stride;
    const auto* y = static_cast<const std::uint16_t*>(grad.data) + grad.offset(b, h) + i * grad.row_stride;
    const auto* z = remainder + row * out.dim;
    for (int d = 8 * lane; d < out.dim; d += 8 * kLanes) {
      const uint4 a = *reinterpret_cast<const uint4*>(x + d), g = *reinterpret_cast<const uint4*>(y + d),
                  r = *reinterpret_cast<const uint4*>(z + d);
      const std::uint32_t as[4] = {a.x, a.y, a.z, a.w}, gs[4] = {g.x, g.y, g.z, g.w}, rs[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float2 kept = unpack(as[n], T{}), lost = unpack(rs[n], T{}), by = unpack(gs[n], T{});
        sum = fmaf(kept.x + lost.x, by.x, sum);
        sum = fmaf(kept.y + lost.y, by.y, sum);
      }
    }
  }
#pragma unroll
  for (int bit = 1; bit < kLanes; bit *= 2) sum += __shfl_xor_sync(~0u, sum, bit);
  if (lane != 0 || b >= call.batch) return;
  float log2_sum = INFINITY;
  if (inside) {
    if (rows.sum[row] != 0) log2_sum = rows.max[row] * 1.44269504f + log2f(rows.sum[row]);
    if (grad_lse.data) sum -= load(grad_lse, grad_lse.offset(b, h) + i * grad_lse.row_stride);
    if (plain_delta) plain_delta[row] = sum;
    // Hidden numbers that are not finite: what rounding took from the output was not computed again with it.
    if (!is_finite(sum)) *redo = 1;
  }
  to.log2_sum[index] = log2_sum;
  to.delta[index] = sum;
}

__global__ void sink_gradients_kernel(int heads, int queries, std::int64_t count, const float* parameters,
                                      RowStatistics rows, const float* delta, float* grad, const int* gate) {
  if (gate && *gate == 0) return;
  for (std::int64_t n = thread_index(); n < count; n += thread_total()) {
    const float sink = parameters[n / queries % heads * kMaxSlots];
    grad[n] = rows.sum[n] == 0 ? 0.f : -expf(sink - rows.max[n]) / rows.sum[n] * delta[n];
  }
}

__global__ void sum_shared_kernel(const float* parts, const float* more, int batches, int heads, void* data,
                                  Dtype dtype, Places places, std::int64_t count, const int* gate) {
  if (gate && *gate == 0) return;
  const std::int64_t size = places.shape[2] * places.shape[3];
  const std::int64_t own_batches = places.shape[0], own_heads = places.shape[1], group = heads / own_heads;
  for (std::int64_t n = thread_index(); n < count; n += thread_total()) {
    const std::int64_t b0 = n / size / own_heads, h0 = n / size % own_heads, e = n % size;
    double sum = 0;
    for (std::int64_t b = own_batches == 1 ? 0 : b0; b < (own_batches == 1 ? batches : b0 + 1); ++b)
      for (std::int64_t h = h0 * group; h < (h0 + 1) * group; ++h) {
        const std::int64_t from = (b * heads + h) * size + e;
        sum += parts[from];
        if (more) sum += more[from];
      }
    store(data, dtype, places(n), static_cast<float>(sum));
  }
}

// A block for each number of the target.
__global__ void sum_parts_kernel(const __grid_constant__ PartSums sums, void* data, Dtype dtype, Places places) {
  __shared__ double partial[kSmall];
  if (sums.gate && *sums.gate == 0) return;
  const std::int64_t target = blockIdx.x, head = target / sums.size, n = target % sums.size;
  const std::int64_t heads = sums.per_head ? 1 : sums.heads, total = sums.batches * heads * sums.count;
  double sum = 0;
  for (std::int64_t k = threadIdx.x; k < total; k += kSmall) {
    const std::int64_t part = k % sums.count, h = sums.per_head ? head : k / sums.count % heads,
                       b = k / sums.count / heads;
    sum += sums.parts[((b * sums.heads + h) * sums.count + part) * sums.stride + sums.first + n];
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kSmall / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) store(data, dtype, places(target), static_cast<float>(partial[0]));
}

// The same where there is little to sum for each.
__global__ void sum_few_parts_kernel(const __grid_constant__ PartSums sums, void* data, Dtype dtype, Places places,
                                     std::int64_t count) {
  if (sums.gate && *sums.gate == 0) return;
  const std::int64_t heads = sums.per_head ? 1 : sums.heads;
  for (std::int64_t target = thread_index(); target < count; target += thread_total()) {
    const std::int64_t head = target / sums.size, n = target % sums.size;
    double sum = 0;
    for (std::int64_t b = 0; b < sums.batches; ++b)
      for (std::int64_t h = head; h < head + heads; ++h)
        for (std::int64_t part = 0; part < sums.count; ++part)
          sum += sums.parts[((b * sums.heads + h) * sums.count + part) * sums.stride + sums.first + n];
    store(data, dtype, places(target), static_cast<float>(sum));
  }
}

__global__ void sum_offsets_kernel(const float* by_offset, std::int64_t offsets, std::int64_t rows, int cols,
                                   const std::int32_t* starts, const std::int32_t* order, void* data, Dtype dtype,
                                   Places places, std::int64_t count) {
  for (std::int64_t n = thread_index(); n < count; n += thread_total()) {
    const std::int64_t d = n % cols, row = n / cols % rows, head = n / cols / rows;
    double sum = 0;
    for (std::int32_t k = starts[row]; k < starts[row + 1]; ++k)
      sum += by_offset[(head * offsets + order[k]) * cols + d];
    store(data, dtype, places(n), static_cast<float>(sum));
  }
}

// The same for a table of numbers, whose rows may have many offsets: a block for each, over its threads in order.
__global__ void sum_row_offsets_kernel(const float* by_offset, std::int64_t offsets, std::int64_t rows,
                                       const std::int32_t* starts, const std::int32_t* order, void* data, Dtype dtype,
                                       Places places) {
  __shared__ double partial[kSmall];
  const std::int64_t n = blockIdx.x, row = n % rows, head = n / rows;
  double sum = 0;
  for (std::int32_t k = starts[row] + static_cast<std::int32_t>(threadIdx.x); k < starts[row + 1]; k += kSmall)
    sum += by_offset[head * offsets + order[k]];
  partial[threadIdx.x] = sum;
  for (unsigned half = kSmall / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  if (threadIdx.x == 0) store(data, dtype, places(n), static_cast<float>(partial[0]));
}

unsigned warps_for(std::int64_t rows) { return static_cast<unsigned>((rows * 32 + kSmall - 1) / kSmall); }

void allow_shared(const void* kernel) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared))),
        "kernel");
}

unsigned tiles(int n) { return static_cast<unsigned>((n + kTile - 1) / kTile); }

}  // namespace

void gather(const ConstView& view, float* out, cudaStream_t stream) {
  const std::int64_t count = element_count(view.shape);
  gather_kernel<<<blocks_for(count), kSmall, 0, stream>>>(view.data, view.dtype, Places(view.shape, view.strides),
                                                          count, out);
  check(cudaGetLastError(), "parameters");
}

void spread_table(Table& table, int heads, float* to, cudaStream_t stream) {
  table.spread = to + kOffsetPadding + table.zero;
  spread_table_kernel<<<blocks_for(heads * table.spread_stride), kSmall, 0, stream>>>(table, heads, to);
  check(cudaGetLastError(), "tables");
}

void find_grid_places(int cols, std::int64_t first, std::int64_t count, float2* to, cudaStream_t stream) {
  grid_places_kernel<<<blocks_for(count), kSmall, 0, stream>>>(cols, first, count, to);
  check(cudaGetLastError(), "grid");
}

void store_zeros(const View& view, cudaStream_t stream) {
  const std::int64_t count = element_count(view.shape);
  if (count == 0) return;
  zeros_kernel<<<blocks_for(count), kSmall, 0, stream>>>(view.data, view.dtype, Places(view.shape, view.strides),
                                                         count);
  check(cudaGetLastError(), "zeros");
}

void spread_values(const float* from, bool per_head, int size, int heads, int stride, int first, float* to,
                   cudaStream_t stream) {
  spread_values_kernel<<<blocks_for(heads * size), kSmall, 0, stream>>>(from, 0, per_head, size, heads, stride, first,
                                                                        to);
  check(cudaGetLastError(), "parameters");
}

void fill_values(float value, int heads, int stride, int first, float* to, cudaStream_t stream) {
  spread_values_kernel<<<blocks_for(heads), kSmall, 0, stream>>>(nullptr, value, false, 1, heads, stride, first, to);
  check(cudaGetLastError(), "parameters");
}

void change_rows(const Array& from, const RowChange& change, float* to, cudaStream_t stream) {
  const std::int64_t rows = static_cast<std::int64_t>(change.batches) * change.heads * change.rows;
  if (rows == 0) return;
  change_rows_kernel<<<warps_for(rows), kSmall, 0, stream>>>(from, change, to);
  check(cudaGetLastError(), "rows");
}

void unit_rows_backward(const Array& x, int batches, int heads, int rows, int dim, float* grad, cudaStream_t stream) {
  unit_rows_backward_kernel<<<warps_for(static_cast<std::int64_t>(batches) * heads * rows), kSmall, 0, stream>>>(
      x, batches, heads, rows, dim, grad);
  check(cudaGetLastError(), "rows");
}

void map_rows(const Array& from, const Map& map, int batches, int heads, int rows, bool backward, float* to,
              cudaStream_t stream) {
  allow_shared(reinterpret_cast<const void*>(&map_rows_kernel));
  const dim3 grid(static_cast<unsigned>(batches * heads), tiles(rows), tiles(backward ? map.in : map.out));
  map_rows_kernel<<<grid, kThreads, sizeof(Shared), stream>>>(from, map, heads, rows, backward, to);
  check(cudaGetLastError(), "map");
}

void map_gradient(const Array& x, const Array& dy, const Map& map, int batches, int heads, int rows, float* grad,
                  cudaStream_t stream) {
  allow_shared(reinterpret_cast<const void*>(&map_gradient_kernel));
  const dim3 grid(static_cast<unsigned>(batches * heads), tiles(map.in), tiles(map.out));
  map_gradient_kernel<<<grid, kThreads, sizeof(Shared), stream>>>(x, dy, map, heads, rows, grad);
  check(cudaGetLastError(), "gradient of a map");
}

void row_deltas(const Call& call, const Array* out, const Array* grad_out, const Array& grad_lse, float* delta,
                cudaStream_t stream) {
  Sets sets;
  for (int n = 0; n < call.sets; ++n) {
    sets.out[n] = out[n];
    sets.grad_out[n] = grad_out[n];
  }
  sets.grad_lse = grad_lse;
  const std::int64_t rows = static_cast<std::int64_t>(call.batch) * call.heads * call.queries;
  const auto blocks = static_cast<unsigned>((rows + kDeltaThreads - 1) / kDeltaThreads);
  row_deltas_kernel<<<blocks, kDeltaThreads, 0, stream>>>(call.batch, call.heads, call.queries, call.sets, sets, delta);
  check(cudaGetLastError(), "row sums");
}

void prepare_rows(const Call& call, const RowStatistics& rows, const Array& out, const void* remainder,
                  const Array& grad_out, const Array& grad_lse, const PaddedRows& to, float* plain_delta, int* redo,
                  cudaStream_t stream) {
  const auto launch = [&]<int kLanes>() {
    const std::int64_t count = static_cast<std::int64_t>(call.batch) * call.heads * to.padded, each = kSmall / kLanes;
    const auto kernel = out.dtype == Dtype::bf16 ? prepare_rows_kernel<Bf16, kLanes> : prepare_rows_kernel<F16, kLanes>;
    kernel<<<static_cast<unsigned>((count + each - 1) / each), kSmall, 0, stream>>>(
        call, rows, out, static_cast<const std::uint16_t*>(remainder), grad_out, grad_lse, to, plain_delta, redo);
  };
  if (out.dim <= 64) launch.template operator()<8>();
  else launch.template operator()<16>();
  check(cudaGetLastError(), "row sums");
}

void sink_gradients(const Call& call, const RowStatistics& rows, const float* delta, float* grad, const int* gate,
                    cudaStream_t stream) {
  const std::int64_t count = static_cast<std::int64_t>(call.batch) * call.heads * call.queries;
  sink_gradients_kernel<<<blocks_for(count), kSmall, 0, stream>>>(call.heads, call.queries, count,
                                                                  call.normalizer_values, rows, delta, grad, gate);
  check(cudaGetLastError(), "gradient of the sink");
}

void sum_shared(const float* parts, const float* more, int batches, int heads, const View& target, const int* gate,
                cudaStream_t stream) {
  const std::int64_t count = element_count(target.shape);
  if (count == 0) return;
  const unsigned blocks = gate ? std::min(blocks_for(count), 1024u) : blocks_for(count);
  sum_shared_kernel<<<blocks, kSmall, 0, stream>>>(parts, more, batches, heads, target.data, target.dtype,
                                                   Places(target.shape, target.strides), count, gate);
  check(cudaGetLastError(), "sums");
}

void sum_parts(const PartSums& sums, const View& target, cudaStream_t stream) {
  const std::int64_t count = (sums.per_head ? sums.heads : 1) * sums.size;
  const Places places(target.shape, target.strides);
  const std::int64_t parts = sums.batches * (sums.per_head ? 1 : sums.heads) * sums.count;
  if (parts <= 64 || count > 1 << 20)
    sum_few_parts_kernel<<<blocks_for(count), kSmall, 0, stream>>>(sums, target.data, target.dtype, places, count);
  else sum_parts_kernel<<<static_cast<unsigned>(count), kSmall, 0, stream>>>(sums, target.data, target.dtype, places);
  check(cudaGetLastError(), "sums");
}

void sum_parts(const PartSums& sums, float* target, cudaStream_t stream) {
  const std::int64_t count = (sums.per_head ? sums.heads : 1) * sums.size;
  const Shape shape{1, 1, 1, count};
  sum_parts(sums, View{target, Dtype::f32, shape, contiguous_strides(shape), {}}, stream);
}

void sum_offsets(const float* by_offset, int heads, std::int64_t offsets, std::int64_t rows, int cols,
                 const std::int32_t* starts, const std::int32_t* order, const View& target, cudaStream_t stream) {
  const std::int64_t count = heads * rows * cols;
  const Places places(target.shape, target.strides);
  if (cols == 1 && offsets > 16 * rows)  // many offsets of a row
    sum_row_offsets_kernel<<<static_cast<unsigned>(count), kSmall, 0, stream>>>(by_offset, offsets, rows, starts, order,
                                                                                target.data, target.dtype, places);
  else
    sum_offsets_kernel<<<blocks_for(count), kSmall, 0, stream>>>(by_offset, offsets, rows, cols, starts, order,
                                                                 target.data, target.dtype, places, count);
  check(cudaGetLastError(), "gradient of a table");
}

}  // namespace rapt::inline v1::cuda
