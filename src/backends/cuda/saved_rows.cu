#include "backends/cuda/saved_rows.h"

#include <cstddef>

#include "backends/cuda/memory.h"

namespace rapt::inline v1::cuda {
namespace {

// Two floats a row, and the rest starts at a multiple of 16 bytes.
std::size_t statistics_bytes(const Saved::Rows& rows) {
  return (2 * sizeof(float) * static_cast<std::size_t>(rows.count) + 15) / 16 * 16;
}

}  // namespace

RowStatistics device_rows(const Saved::Rows& rows) {
  auto* data = static_cast<float*>(rows.device_memory.get());
  return {data, data + rows.count};
}

void* device_remainder(const Saved::Rows& rows) {
  return rows.remainder_dim == 0 ? nullptr : static_cast<std::byte*>(rows.device_memory.get()) + statistics_bytes(rows);
}

void forget_remainder(Saved::Rows& rows, cudaStream_t stream) {
  rows.remainder_dim = 0;
  const std::size_t first = statistics_bytes(rows);
  if (rows.device_bytes <= first) return;
  auto* data = static_cast<std::byte*>(rows.device_memory.get());
  check(cudaMemsetAsync(data + first, 0xff, rows.device_bytes - first, stream), "softmax statistics");
}

RowStatistics device_rows(Saved::Rows& rows, std::int64_t remainder_dim) {
  rows.remainder_dim = remainder_dim;
  const std::size_t bytes = statistics_bytes(rows) + 2 * static_cast<std::size_t>(rows.count * remainder_dim);
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
