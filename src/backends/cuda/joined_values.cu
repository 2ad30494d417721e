#include "backends/cuda/joined_values.h"

#include <algorithm>

namespace rapt::inline v1::cuda {
namespace {

constexpr int kSmall = 256;

struct Parts {
  Array arrays[kMaxValueSets];
  int sets = 0;
};

// A thread for each number of a row of `joined`, in turn; `place` among those of a batch and head.
template <bool kSplits>
__global__ void move_kernel(const __grid_constant__ Parts parts, Array joined, int heads, int rows,
                            std::int64_t count) {
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; n < count;
       n += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const std::int64_t line = n / joined.dim, matrix = line / rows, row = line - matrix * rows;
    const std::int64_t b = matrix / heads, h = matrix - b * heads;
    int d = static_cast<int>(n - line * joined.dim), set = 0;
    while (set < parts.sets && d >= parts.arrays[set].dim) d -= parts.arrays[set++].dim;
    if (set == parts.sets) {
      if (!kSplits) store(joined, n, 0);
      continue;
    }
    const Array& part = parts.arrays[set];
    if (!part.data) continue;
    const std::int64_t place = b * part.batch_stride + h * part.head_stride + row * part.row_stride + d;
    if (kSplits) store(part, place, load(joined, n));
    else store(joined, n, load(part, place));
  }
}

template <bool kSplits>
void move(const Array& joined, const Array* arrays, int sets, int batches, int heads, int rows, cudaStream_t stream) {
  Parts parts;
  std::copy(arrays, arrays + sets, parts.arrays);
  parts.sets = sets;
  const std::int64_t count = static_cast<std::int64_t>(batches) * heads * rows * joined.dim;
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((count + kSmall - 1) / kSmall, 1 << 20));
  move_kernel<kSplits><<<blocks, kSmall, 0, stream>>>(parts, joined, heads, rows, count);
  check(cudaGetLastError(), "value sets");
}

}  // namespace

bool can_join(const Call& call) {
  int dim = 0;
  for (int n = 0; n < call.sets; ++n) {
    const Array& v = call.v[n];
    if (v.dtype != call.q.dtype || v.batches != call.v[0].batches || v.group != call.v[0].group) return false;
    dim += v.dim;
  }
  return call.sets > 1 && dim <= 256 && size_of(call.q.dtype) == 2 && !call.output_table.numbers;
}

Array join(const Array* parts, int sets, int batches, int heads, int rows, Dtype dtype, bool copies,
           Workspace& workspace) {
  Array joined;
  int dim = 0;
  for (int n = 0; n < sets; ++n) dim += parts[n].dim;
  joined.batches = batches;
  joined.group = parts[0].group;
  joined.dim = (dim + 7) / 8 * 8;
  joined.dtype = dtype;
  joined.row_stride = joined.dim;
  joined.head_stride = static_cast<std::int64_t>(rows) * joined.dim;
  joined.batch_stride = joined.head_stride * heads;
  joined.data = workspace.take<std::uint16_t>(batches * joined.batch_stride * (size_of(dtype) == 2 ? 1 : 2));
  if (copies) move<false>(joined, parts, sets, batches, heads, rows, workspace.stream());
  return joined;
}

void split(const Array& from, const Array* parts, int sets, int batches, int heads, int rows, cudaStream_t stream) {
  move<true>(from, parts, sets, batches, heads, rows, stream);
}

Call join_values(const Call& call, Workspace& workspace) {
  Call joined = call;
  joined.sets = 1;
  joined.v[0] = join(call.v, call.sets, call.v[0].batches, call.heads / call.v[0].group, call.keys, call.q.dtype, true,
                     workspace);
  return joined;
}

bool join_gradients(Call& call, const Array* grad_out, const Array* dv, FastGradients& f, Workspace& workspace) {
  if (!can_join(call)) return false;
  const int sets = call.sets;
  Array parts[kMaxValueSets];
  bool any = false;
  for (int n = 0; n < sets; ++n) {
    if (!grad_out[n].data || grad_out[n].dtype != call.q.dtype) return false;
    if (dv[n].data && (dv[n].group != call.v[n].group || dv[n].batches != call.batch || dv[n].dtype != call.q.dtype))
      return false;
    parts[n] = dv[n];
    parts[n].group = call.v[n].group;
    any = any || dv[n].data;
  }
  call = join_values(call, workspace);
  f.grad_out = join(grad_out, sets, call.batch, call.heads, call.queries, call.q.dtype, true, workspace);
  f.dv = {};
  if (any) f.dv = join(parts, sets, call.batch, call.heads / parts[0].group, call.keys, call.q.dtype, false, workspace);
  return true;
}

}  // namespace rapt::inline v1::cuda
