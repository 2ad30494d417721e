#include "backends/cuda/hopper/tensor_map.h"

#include <cuda_runtime.h>

namespace rapt::inline v1::cuda::hopper {

bool make_map(CUtensorMap* map, const Array& a, int heads, int rows, int box_rows) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found);
    return reinterpret_cast<Encode>(f);
  }();
  if (!encode) return false;
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  // A dimension of one has no step, but the driver wants one.
  const auto stride = [](std::int64_t step, std::int64_t count) {
    return static_cast<cuuint64_t>(count == 1 ? 16 : step * 2);
  };
  if ((rows > 1 && a.row_stride == 0) || (heads > 1 && a.head_stride == 0) || (a.batches > 1 && a.batch_stride == 0))
    return false;
  const cuuint64_t sizes[4] = {size(a.dim), size(rows), size(heads), size(a.batches)};
  const cuuint64_t strides[3] = {stride(a.row_stride, rows), stride(a.head_stride, heads),
                                 stride(a.batch_stride, a.batches)};
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(box_rows), 1, 1}, steps[4] = {1, 1, 1, 1};
  const auto type = a.dtype == Dtype::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return encode(map, type, 4, a.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace rapt::inline v1::cuda::hopper
