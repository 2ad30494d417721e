#pragma once

#include "backends/cuda/call.h"
#include "backends/cuda/memory.h"

// The dense mask and bias of a call as the kernels for the tensor cores read them.
namespace rapt::inline v1::cuda {

// Which sides the kernels of a pass have as rows of their tiles.
enum class TileRows { queries, queries_and_keys };

// Packs the mask into bits, and copies the bias where its pairs of neighbouring keys cannot be read at once: in f32, unless
// it has the type of q. Sets call.paired_bias, keys_of_query and, with keys as rows, queries_of_key.
void prepare_dense(Call& call, TileRows rows, Workspace& workspace);

// log2_sum[row] = b·log2(e) for every row of a head whose weights are 1 / (1 + exp(−(score + b))), and delta[row] = 0:
// [batches, heads, padded] each.
void fill_sigmoid_rows(const Call& call, std::int32_t padded, float* log2_sum, float* delta, cudaStream_t stream);

}  // namespace rapt::inline v1::cuda
