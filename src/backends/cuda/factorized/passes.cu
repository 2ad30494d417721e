#include "backends/cuda/factorized/passes.h"

#include <algorithm>

#include "backends/cuda/factorized/fibers.cuh"
#include "backends/cuda/prepared_call.h"

namespace rapt::inline v1::cuda::factorized {
namespace {

// What both kernels read: out[ob, oh] of the sources (b, h) with b in [ob·each, +each) and h in [oh·group, +group).
struct Pass {
  Array in, out;
  const float* row = nullptr;  // [heads of in][k][pitch]
  const float* col = nullptr;
  std::int32_t rows = 1, cols = 1, row_pitch = 8, col_pitch = 8;
  std::int32_t heads = 1;               // of out
  std::int32_t group = 1, batches = 1;  // sources of one out
  bool in_vectors = false, out_vectors = false;
  int* redo = nullptr;
};

// The places first, first + step, … of a source; of several batches that share a target the sum.
template <class T, bool kBatches, class F>
RAPT_DEVICE void along_source(const Pass& p, int b, int h, int first, int step, int d, const F& f) {
  const Source<T> source(p.in, p.in_vectors, b, h);
  if constexpr (kBatches) {
    f([&](int k) {
      float4 sum = make_float4(0, 0, 0, 0);
      Source<T> next = source;
      for (int n = 0; n < p.batches; ++n, next.data += p.in.batch_stride) add_to(sum, next.at(first + k * step, d));
      return sum;
    });
  } else {
    source.along(first, step, d, f);
  }
}

// A block for some numbers of the vectors of one target: along columns from memory into the tile, then along rows from the
// tile into memory.
template <class T, bool kHeads, bool kBatches>
__global__ __launch_bounds__(kMostThreads, kBatches ? 1 : 2) void grid_kernel(const __grid_constant__ Pass p, Cut cut) {
  extern __shared__ float4 memory[];
  float* col = reinterpret_cast<float*>(memory);
  float* row = col + p.cols * p.col_pitch;
  const Tile half{row + p.rows * p.row_pitch, cut.pitch, cut.stride};
  const Tile sum{half.data + p.rows * cut.stride, cut.pitch, cut.stride};  // only where heads are summed

  const int part = static_cast<int>(blockIdx.x) % cut.count, target = static_cast<int>(blockIdx.x) / cut.count;
  const int own_h = target % p.heads, own_b = target / p.heads;
  const int quads = cut.quads(), first_d = part * cut.width;
  const std::int64_t out = p.out.offset(own_b, own_h);
  bool finite = true;
  for (int g = 0; g < p.group; ++g) {
    const int h = own_h * p.group + g;
    __syncthreads();  // the head before has been read
    copy_matrix(col, p.col + static_cast<std::int64_t>(h) * p.cols * p.col_pitch, p.cols * p.col_pitch);
    copy_matrix(row, p.row + static_cast<std::int64_t>(h) * p.rows * p.row_pitch, p.rows * p.row_pitch);
    __syncthreads();
    for (int n = static_cast<int>(threadIdx.x); n < fiber_tiles(p.cols) * p.rows * quads;
         n += static_cast<int>(blockDim.x)) {
      const int quad = n % quads, r = n / quads % p.rows, first = n / quads / p.rows * kFiber;
      with_count(p.cols, first, [&](auto count) {
        float4 acc[count()] = {};
        along_source<T, kBatches>(p, own_b * p.batches, h, r * p.cols, 1, first_d + 4 * quad,
                                  [&](const auto& x) { add_products(acc, col + first, p.col_pitch, p.cols, x); });
#pragma unroll
        for (int m = 0; m < count(); ++m)
          if (first + m < p.cols) half.at(r, first + m, quad) = acc[m];
      });
    }
    __syncthreads();
    for (int n = static_cast<int>(threadIdx.x); n < fiber_tiles(p.rows) * p.cols * quads;
         n += static_cast<int>(blockDim.x)) {
      const int quad = n % quads, c = n / quads % p.cols, first = n / quads / p.cols * kFiber;
      with_count(p.rows, first, [&](auto count) {
        float4 acc[count()] = {};
        if (kHeads && g > 0)
#pragma unroll
          for (int m = 0; m < count(); ++m)
            if (first + m < p.rows) acc[m] = sum.at(first + m, c, quad);
        add_products(acc, row + first, p.row_pitch, p.rows, [&](int k) { return half.at(k, c, quad); });
        if (kHeads && g + 1 < p.group) {
#pragma unroll
          for (int m = 0; m < count(); ++m)
            if (first + m < p.rows) sum.at(first + m, c, quad) = acc[m];
          return;
        }
        T* to = static_cast<T*>(p.out.data) + out + (static_cast<std::int64_t>(first) * p.cols + c) * p.out.row_stride +
                first_d + 4 * quad;
        finite &= store_fiber(to, p.cols * p.out.row_stride, p.out_vectors, p.out.dim - first_d - 4 * quad,
                              p.rows - first, acc);
      });
    }
  }
  if (!finite) *p.redo = 1;
}

// Along one axis, from memory to memory: a thread for each fiber of each target. `size` places of the axis are `step`
// apart, and `others` places of the other one `other_step`.
struct Along {
  const float* matrices = nullptr;
  std::int32_t size = 1, pitch = 8, step = 1, others = 1, other_step = 1;
};
template <class T, class To, bool kBatches>
__global__ __launch_bounds__(kMostThreads, 1) void axis_kernel(const __grid_constant__ Pass p, const Along along,
                                                               std::int64_t count) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= count) return;
  const int quads = (p.out.dim + 3) / 4, tiles = fiber_tiles(along.size);
  const int quad = static_cast<int>(n % quads), other = static_cast<int>(n / quads % along.others),
            first = static_cast<int>(n / quads / along.others % tiles) * kFiber;
  const std::int64_t target = n / quads / along.others / tiles;
  const int own_h = static_cast<int>(target % p.heads), own_b = static_cast<int>(target / p.heads);
  bool finite = true;
  with_count(along.size, first, [&](auto kept) {
    float4 acc[kept()] = {};
    for (int g = 0; g < p.group; ++g) {
      const int h = own_h * p.group + g;
      const float* matrix = along.matrices + static_cast<std::int64_t>(h) * along.size * along.pitch + first;
      along_source<T, kBatches>(p, own_b * p.batches, h, other * along.other_step, along.step, 4 * quad,
                                [&](const auto& x) { add_products(acc, matrix, along.pitch, along.size, x); });
    }
    const std::int64_t place =
        static_cast<std::int64_t>(first) * along.step + static_cast<std::int64_t>(other) * along.other_step;
    To* to = static_cast<To*>(p.out.data) + p.out.offset(own_b, own_h) + place * p.out.row_stride + 4 * quad;
    finite &=
        store_fiber(to, along.step * p.out.row_stride, p.out_vectors, p.out.dim - 4 * quad, along.size - first, acc);
  });
  if (!finite) *p.redo = 1;
}

template <class F>
void with_type(Dtype dtype, const F& f) {
  if (dtype == Dtype::bf16) f(__nv_bfloat16{});
  else if (dtype == Dtype::f16) f(__half{});
  else f(float{});
}

void launch_axis(const Pass& p, const Along& along, int targets, cudaStream_t stream) {
  const std::int64_t count =
      static_cast<std::int64_t>(targets) * fiber_tiles(along.size) * along.others * ((p.out.dim + 3) / 4);
  const auto blocks = static_cast<unsigned>((count + kMostThreads - 1) / kMostThreads);
  const auto start = [&](auto from, auto to) {
    using T = decltype(from);
    using To = decltype(to);
    if (p.batches > 1) axis_kernel<T, To, true><<<blocks, kMostThreads, 0, stream>>>(p, along, count);
    else axis_kernel<T, To, false><<<blocks, kMostThreads, 0, stream>>>(p, along, count);
  };
  // What is between two passes is f32.
  if (p.out.dtype == Dtype::f32) with_type(p.in.dtype, [&](auto from) { start(from, float{}); });
  else with_type(p.out.dtype, [&](auto to) { start(float{}, to); });
  check(cudaGetLastError(), "a pass over a grid");
}

Along along_axis(const Axes& axes, bool rows, bool to_keys) {
  const Axis& axis = rows ? axes.row : axes.col;
  Along along;
  along.matrices = to_keys ? axis.by_query : axis.by_key;
  along.size = axis.size;
  along.pitch = axis.pitch;
  along.others = rows ? axes.col.size : axes.row.size;
  along.step = rows ? axes.col.size : 1;
  along.other_step = rows ? 1 : axes.col.size;
  return along;
}

void set_out(Pass& p, const Array& out) {
  p.out = out;
  p.out_vectors = has_vectors(out);
}

}  // namespace

float* multiply_axis(const Axes& axes, const Array& in, int batches, int heads, bool along_rows, bool to_keys,
                     Workspace& workspace) {
  const std::int64_t places = static_cast<std::int64_t>(axes.row.size) * axes.col.size;
  float* to = workspace.take<float>(static_cast<std::int64_t>(batches) * heads * places * in.dim);
  Pass p;
  p.in = in;
  p.in_vectors = has_vectors(in);
  set_out(p, contiguous_array(to, batches, heads, places, in.dim));
  p.heads = heads;
  p.redo = axes.redo;
  launch_axis(p, along_axis(axes, along_rows, to_keys), batches * heads, workspace.stream());
  return to;
}

void multiply_grid(const Axes& axes, const GridProduct& product, Workspace& workspace) {
  if (product.out.dim == 0) return;
  Pass p;
  p.in = product.in;
  p.in_vectors = has_vectors(p.in);
  set_out(p, product.out);
  p.row = product.to_keys ? axes.row.by_query : axes.row.by_key;
  p.col = product.to_keys ? axes.col.by_query : axes.col.by_key;
  p.rows = axes.row.size;
  p.cols = axes.col.size;
  p.row_pitch = axes.row.pitch;
  p.col_pitch = axes.col.pitch;
  p.heads = product.out_heads;
  p.group = product.in_heads / product.out_heads;
  p.batches = product.in_batches / product.out_batches;
  p.redo = axes.redo;
  const int targets = product.out_batches * product.out_heads;
  const Cut cut = cut_for(axes.row, axes.col, p.out.dim, p.group > 1 ? 2 : 1);  // another tile for a sum of heads
  if (cut.width == 0) {
    // First the columns of every source, its batches summed; then the rows, their heads summed.
    Pass columns = p;
    const std::int64_t places = static_cast<std::int64_t>(p.rows) * p.cols;
    float* half =
        workspace.take<float>(static_cast<std::int64_t>(product.out_batches) * product.in_heads * places * p.out.dim);
    const Array between = contiguous_array(half, product.out_batches, product.in_heads, places, p.out.dim);
    set_out(columns, between);
    columns.heads = product.in_heads;
    columns.group = 1;
    launch_axis(columns, along_axis(axes, false, product.to_keys), product.out_batches * product.in_heads,
                workspace.stream());
    p.in = between;
    p.in_vectors = has_vectors(between);
    p.batches = 1;
    launch_axis(p, along_axis(axes, true, product.to_keys), targets, workspace.stream());
    return;
  }
  const int quads = cut.width / 4;
  const int fibers = quads * std::max(fiber_tiles(p.cols) * p.rows, fiber_tiles(p.rows) * p.cols);
  const int threads = std::clamp((fibers + 31) / 32 * 32, 64, kMostThreads);
  with_type(p.in.dtype, [&](auto type) {
    using T = decltype(type);
    const auto kernel = p.batches > 1 ? &grid_kernel<T, true, true>
                        : p.group > 1 ? &grid_kernel<T, true, false>
                                      : &grid_kernel<T, false, false>;
    allow_bytes(kernel, cut.bytes);
    kernel<<<static_cast<unsigned>(targets) * static_cast<unsigned>(cut.count), static_cast<unsigned>(threads),
             static_cast<std::size_t>(cut.bytes), workspace.stream()>>>(p, cut);
  });
  check(cudaGetLastError(), "the passes over a grid");
}

}  // namespace rapt::inline v1::cuda::factorized
