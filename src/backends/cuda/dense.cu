#include "backends/cuda/dense.h"

#include <algorithm>

namespace rapt::inline v1::cuda {
namespace {

constexpr int kSmall = 256;

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(std::min<std::int64_t>((count + kSmall - 1) / kSmall, std::int64_t{1} << 20));
}

RAPT_DEVICE std::int64_t thread_index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
RAPT_DEVICE std::int64_t thread_total() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

// One word a thread. `along` pairs of a row are `step` bytes apart; neighbouring threads read neighbouring keys.
template <TileRows kRows>
__global__ void pack_mask_kernel(const std::uint8_t* mask, std::int64_t batch_stride, std::int64_t head_stride,
                                 std::int64_t row_stride, int heads, int rows, int along, int row_words,
                                 std::int64_t count, std::uint32_t* words) {
  constexpr bool kByKey = kRows == TileRows::queries_and_keys;
  for (std::int64_t n = thread_index(); n < count; n += thread_total()) {
    const std::int64_t matrix = n / (static_cast<std::int64_t>(rows) * row_words);
    const std::int64_t place = n - matrix * rows * row_words;
    const auto row = static_cast<int>(kByKey ? place % rows : place / row_words);
    const auto word = static_cast<int>(kByKey ? place / rows : place % row_words);
    const std::uint8_t* from = mask + matrix / heads * batch_stride + matrix % heads * head_stride;
    const int bits = ::min(32, along - 32 * word);
    std::uint32_t x = 0;
    for (int bit = 0; bit < bits; ++bit) {
      const std::int64_t other = 32 * word + bit;
      const std::uint8_t seen = from[kByKey ? other * row_stride + row : row * row_stride + other];
      x |= (seen ? 1u : 0u) << bit;
    }
    words[(matrix * rows + row) * row_words + word] = x;
  }
}

// `rows` rows of `along` pairs each. One row of queries for all stays one, and a word then stands for any 32 of them.
template <TileRows kRows>
MaskBits pack_mask(const Call& call, Workspace& workspace) {
  constexpr bool kByKey = kRows == TileRows::queries_and_keys;
  const Array& mask = call.mask;
  const int heads = call.heads / mask.group, queries = mask.row_stride == 0 ? 1 : call.queries;
  // By key, a row of queries for all is spread out: it is short.
  const int rows = kByKey ? call.keys : queries, along = kByKey ? call.queries : call.keys;
  MaskBits bits;
  const int row_words = (along + 31) / 32;
  bits.batches = mask.batches;
  bits.group = mask.group;
  bits.head_stride = static_cast<std::int64_t>(rows) * row_words;
  bits.batch_stride = bits.head_stride * heads;
  bits.row_words = !kByKey && queries == 1 ? 0 : row_words;
  const std::int64_t count = bits.batch_stride * mask.batches;
  auto* words = workspace.take<std::uint32_t>(count + kMaskPadding);
  pack_mask_kernel<kRows><<<blocks_for(count), kSmall, 0, workspace.stream()>>>(
      static_cast<const std::uint8_t*>(mask.data), mask.batch_stride, mask.head_stride, mask.row_stride, heads, rows,
      along, row_words, count, words);
  check(cudaGetLastError(), "mask");
  bits.words = words;
  return bits;
}

__global__ void copy_bias_kernel(Array from, Array to, int heads, int rows, int keys, std::int64_t count) {
  for (std::int64_t n = thread_index(); n < count; n += thread_total()) {
    const std::int64_t line = n / keys, key = n - line * keys, matrix = line / rows, row = line - matrix * rows;
    const std::int64_t b = matrix / heads, h = matrix % heads;
    store(to, b * to.batch_stride + h * to.head_stride + row * to.row_stride + key,
          load(from, b * from.batch_stride + h * from.head_stride + row * from.row_stride + key));
  }
}

Array pair_bias(const Call& call, Workspace& workspace) {
  const Array& bias = call.bias;
  const bool short_numbers = bias.dtype == call.q.dtype;
  const std::uintptr_t pair = short_numbers ? 4 : 8;
  const bool even = (bias.row_stride | bias.head_stride | bias.batch_stride | call.keys) % 2 == 0;
  if ((short_numbers || bias.dtype == Dtype::f32) && even && reinterpret_cast<std::uintptr_t>(bias.data) % pair == 0)
    return bias;
  Array copy = bias;
  copy.dtype = short_numbers ? bias.dtype : Dtype::f32;
  const std::int64_t rows = bias.row_stride == 0 ? 1 : call.queries, heads = call.heads / bias.group;
  const std::int64_t pitch = (call.keys + 1) / 2 * 2;
  copy.row_stride = rows == 1 ? 0 : pitch;
  copy.head_stride = rows * pitch;
  copy.batch_stride = heads * copy.head_stride;
  copy.data = workspace.take<float>(bias.batches * copy.batch_stride);
  const std::int64_t count = bias.batches * heads * rows * call.keys;
  copy_bias_kernel<<<blocks_for(count), kSmall, 0, workspace.stream()>>>(bias, copy, static_cast<int>(heads),
                                                                         static_cast<int>(rows), call.keys, count);
  check(cudaGetLastError(), "bias");
  return copy;
}

__global__ void fill_sigmoid_rows_kernel(int heads, std::int32_t padded, const float* parameters, std::int64_t count,
                                         float* log2_sum, float* delta) {
  for (std::int64_t n = thread_index(); n < count; n += thread_total()) {
    log2_sum[n] = parameters[n / padded % heads * kMaxSlots] * 1.44269504f;
    delta[n] = 0;
  }
}

}  // namespace

void prepare_dense(Call& call, TileRows rows, Workspace& workspace) {
  if (call.bias.data && !call.paired_bias.data) call.paired_bias = pair_bias(call, workspace);
  if (!call.mask.data) return;
  if (!call.keys_of_query.words) call.keys_of_query = pack_mask<TileRows::queries>(call, workspace);
  if (rows == TileRows::queries_and_keys) call.queries_of_key = pack_mask<TileRows::queries_and_keys>(call, workspace);
}

void fill_sigmoid_rows(const Call& call, std::int32_t padded, float* log2_sum, float* delta, cudaStream_t stream) {
  const std::int64_t count = static_cast<std::int64_t>(call.batch) * call.heads * padded;
  fill_sigmoid_rows_kernel<<<blocks_for(count), kSmall, 0, stream>>>(call.heads, padded, call.normalizer_values, count,
                                                                     log2_sum, delta);
  check(cudaGetLastError(), "rows");
}

}  // namespace rapt::inline v1::cuda
