#include "backends/cuda/general/scores.cuh"
#include "backends/cuda/hopper/decode_parts.h"
#include "backends/cuda/hopper/mma.h"

namespace rapt::inline v1::cuda::hopper {
namespace {

constexpr int kWarps = kThreads / 32;

// Over the block, in a fixed order; every thread gets it.
template <class F>
RAPT_DEVICE float reduce_block(float (&scratch)[kWarps], float x, F f) {
  for (int mask = 1; mask < 32; mask *= 2) x = f(x, __shfl_xor_sync(~0u, x, mask));
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  x = scratch[0];
  for (int w = 1; w < kWarps; ++w) x = f(x, scratch[w]);
  return x;
}

template <class T>
RAPT_DEVICE void store_rounded(std::uint16_t* to, std::uint16_t* rest, float4 x) {
  const uint2 rounded = make_uint2(pack(x.x, x.y, T{}), pack(x.z, x.w, T{}));
  *reinterpret_cast<uint2*>(to) = rounded;
  if (!rest) return;
  const float2 a = unpack(rounded.x, T{}), b = unpack(rounded.y, T{});
  *reinterpret_cast<uint2*>(rest) = make_uint2(pack(x.x - a.x, x.y - a.y, T{}), pack(x.z - b.x, x.w - b.y, T{}));
}

// One row, and 4·lanes columns of it: `lanes` threads beside each other for each of 256/lanes parts at a time.
__global__ __launch_bounds__(kThreads) void merge_kernel(const __grid_constant__ Call call,
                                                         const __grid_constant__ ForwardOutputs outputs,
                                                         const __grid_constant__ DecodeParts parts, const int lanes) {
  __shared__ float weights[kDecodeBlocks], scratch[kWarps];
  __shared__ float4 columns[kThreads];
  const int thread = static_cast<int>(threadIdx.x), n = static_cast<int>(blockIdx.x);
  const int query = n % call.queries, head = n / call.queries % call.heads, batch = n / call.queries / call.heads;
  const int group = call.k.group, item = batch * (call.heads / group) + head / group;
  const int row = head % group * call.queries + query, dim = call.v[0].dim;
  await_kernel_before();

  float largest = kHidden;
  for (int s = thread; s < parts.count; s += kThreads)
    largest = larger(largest, parts.statistics[parts.place(item, s, row)].x);
  largest = reduce_block(scratch, largest, larger);
  float sum = 0;
  for (int s = thread; s < parts.count; s += kThreads) {
    const float2 own = parts.statistics[parts.place(item, s, row)];
    weights[s] = own.x == kHidden ? 0.f : expf(own.x - largest);
    sum += weights[s] == 0 ? 0.f : weights[s] * own.y;
  }
  sum = reduce_block(scratch, sum, add);  // whose barriers make the weights visible

  // The sink as one more score, without a value.
  float factor = 1;
  if (call.has_sink && largest != kHidden) {
    const float sink = call.normalizer_numbers(head)[0], top = larger(largest, sink);
    factor = expf(largest - top);
    sum = sum * factor + expf(sink - top);
    largest = top;
  }
  if (thread == 0 && blockIdx.y == 0) {
    if (outputs.rows.max) {
      outputs.rows.max[call.row(batch, head, query)] = largest;
      outputs.rows.sum[call.row(batch, head, query)] = sum;
    }
    if (outputs.lse.data)
      store(outputs.lse, outputs.lse.offset(batch, head) + query * outputs.lse.row_stride,
            largest == kHidden ? kHidden : largest + logf(sum));
  }

  const int column = (static_cast<int>(blockIdx.y) * lanes + thread % lanes) * 4, groups = kThreads / lanes;
  float4 o = make_float4(0, 0, 0, 0);
  if (column < dim)
#pragma unroll 4
    for (int s = thread / lanes; s < parts.count; s += groups) {
      const float w = weights[s];
      if (w == 0) continue;
      const float4 x = *reinterpret_cast<const float4*>(parts.sums + parts.place(item, s, row) * dim + column);
      o = make_float4(fmaf(w, x.x, o.x), fmaf(w, x.y, o.y), fmaf(w, x.z, o.z), fmaf(w, x.w, o.w));
    }
  columns[thread] = o;
  __syncthreads();
  if (thread >= lanes || column >= dim) return;
  for (int g = 1; g < groups; ++g) {
    const float4 x = columns[g * lanes + thread];
    o = make_float4(o.x + x.x, o.y + x.y, o.z + x.z, o.w + x.w);
  }
  const float scale = sum == 0 ? 0.f : factor / sum;
  o = make_float4(o.x * scale, o.y * scale, o.z * scale, o.w * scale);
  const Array& out = outputs.out[0];
  auto* to = static_cast<std::uint16_t*>(out.data) + out.offset(batch, head) + query * out.row_stride + column;
  auto* rest = static_cast<std::uint16_t*>(outputs.remainder);
  if (rest) rest += call.row(batch, head, query) * dim + column;
  if (out.dtype == Dtype::bf16) store_rounded<Bf16>(to, rest, o);
  else store_rounded<F16>(to, rest, o);
}

}  // namespace

void merge_parts(const Call& call, const ForwardOutputs& outputs, const DecodeParts& parts, cudaStream_t stream) {
  // Few parts: a block has whole rows. Many: 32 columns, so that one row is merged by several blocks.
  const int lanes = parts.count <= 8 ? 64 : 8, pieces = call.v[0].dim / 4;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(call.batch * call.heads * call.queries),
                        static_cast<unsigned>((pieces + lanes - 1) / lanes));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, merge_kernel, call, outputs, parts, lanes);
}

}  // namespace rapt::inline v1::cuda::hopper
