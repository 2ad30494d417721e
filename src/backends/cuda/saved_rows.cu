#include "backends/cuda/saved_rows.h"

#include "backends/cuda/memory.h"

namespace rapt::inline v1::cuda {

RowStatistics device_rows(const Saved::Rows& rows) {
  auto* data = static_cast<float*>(rows.device_memory.get());
  return {data, data + rows.count};
}

RowStatistics device_rows(Saved::Rows& rows) {
  const std::size_t bytes = 2 * sizeof(float) * static_cast<std::size_t>(rows.count);
  if (!rows.device_memory || rows.device_bytes < bytes) {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes > 0 ? bytes : 1), "softmax statistics");
    const int device = rows.device.index;
    rows.device_memory = std::shared_ptr<void>(data, [device](void* p) {
      int before = 0;
      cudaGetDevice(&before);
      cudaSetDevice(device);
      cudaFree(p);
      cudaSetDevice(before);
    });
    rows.device_bytes = bytes;
  }
  return device_rows(static_cast<const Saved::Rows&>(rows));
}

}  // namespace rapt::inline v1::cuda
