#include "backends/cuda/memory.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <mutex>

#include "backends/cuda/device.h"
#include "rapt/error.h"

namespace rapt::inline v1::cuda {

// Freed by the last call that uses it.
struct DeviceTable {
  DeviceTable(int on, std::span<const std::int32_t> from) : device(on), numbers(from.begin(), from.end()) {
    check(cudaMalloc(&data, std::max<std::size_t>(1, numbers.size()) * sizeof(std::int32_t)), "table");
    try {
      check(cudaMemcpy(data, numbers.data(), from.size_bytes(), cudaMemcpyHostToDevice), "table");
      // A copy from pageable memory may return before it has arrived, and the streams of callers do not wait for it.
      check(cudaStreamSynchronize(nullptr), "table");
    } catch (...) {
      cudaFree(data);
      throw;
    }
  }
  ~DeviceTable() {
    int before = 0;
    cudaGetDevice(&before);
    cudaSetDevice(device);
    cudaFree(data);  // waits for the kernels that read it
    cudaSetDevice(before);
  }
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;

  int device = 0;
  std::vector<std::int32_t> numbers;
  std::int32_t* data = nullptr;
};

namespace {

// One for each device; it keeps its memory between calls.
cudaMemPool_t pool_of(int device) {
  static std::mutex mutex;
  static std::map<int, cudaMemPool_t>& pools = *new std::map<int, cudaMemPool_t>;
  const std::lock_guard lock(mutex);
  auto [place, fresh] = pools.try_emplace(device);
  if (fresh) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    check(cudaMemPoolCreate(&place->second, &properties), "memory pool");
    std::uint64_t keep = UINT64_MAX;
    check(cudaMemPoolSetAttribute(place->second, cudaMemPoolAttrReleaseThreshold, &keep), "memory pool");
  }
  return place->second;
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "current device");
  return device;
}

constexpr int kNumbersAtOnce = 256;
struct Numbers {
  std::int64_t list[kNumbersAtOnce];
};

__global__ void store_numbers(std::int64_t* to, int count, const __grid_constant__ Numbers numbers) {
  if (static_cast<int>(threadIdx.x) < count) to[threadIdx.x] = numbers.list[threadIdx.x];
}

constexpr std::size_t kMostTables = 64;

std::mutex& tables_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
// The most recently used first.
std::list<std::shared_ptr<const DeviceTable>>& kept_tables() {
  static auto& list = *new std::list<std::shared_ptr<const DeviceTable>>;
  return list;
}

void drop_tables(std::size_t keep) {
  auto& list = kept_tables();
  while (list.size() > keep) list.pop_back();
}

// A cached table, or a new upload.
std::shared_ptr<const DeviceTable> find_table(std::span<const std::int32_t> numbers) {
  const int device = current_device();
  const std::lock_guard lock(tables_mutex());
  auto& list = kept_tables();
  const auto found = std::find_if(list.begin(), list.end(), [&](const std::shared_ptr<const DeviceTable>& t) {
    return t->device == device && t->numbers.size() == numbers.size() &&
           std::equal(numbers.begin(), numbers.end(), t->numbers.begin());
  });
  if (found != list.end()) {
    list.splice(list.begin(), list, found);
    return list.front();
  }
  auto table = std::make_shared<DeviceTable>(device, numbers);
  drop_tables(kMostTables - 1);
  list.push_front(table);
  return table;
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears it for the next call
  throw Error(std::string("cuda: ") + what + ": " + cudaGetErrorString(status));
}

DeviceScope::DeviceScope(int index) {
  check(cudaGetDevice(&before_), "current device");
  if (index != before_) check(cudaSetDevice(index), "device");
}
DeviceScope::~DeviceScope() { cudaSetDevice(before_); }

Workspace::~Workspace() {
  for (void* piece : pieces_) cudaFreeAsync(piece, stream_);
}

void* Workspace::take_bytes(std::size_t bytes) {
  void* piece = nullptr;
  check(cudaMallocFromPoolAsync(&piece, bytes, pool_of(current_device()), stream_), "workspace");
  pieces_.push_back(piece);
  return piece;
}

const std::int64_t* Workspace::upload(std::span<const std::int64_t> numbers) {
  std::int64_t* to = take<std::int64_t>(static_cast<std::int64_t>(numbers.size()));
  for (std::size_t first = 0; first < numbers.size(); first += kNumbersAtOnce) {
    Numbers part{};
    const std::size_t count = std::min<std::size_t>(kNumbersAtOnce, numbers.size() - first);
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(first), count, part.list);
    store_numbers<<<1, kNumbersAtOnce, 0, stream_>>>(to + first, static_cast<int>(count), part);
  }
  check(cudaGetLastError(), "upload");
  return to;
}

const std::int32_t* Workspace::table(std::span<const std::int32_t> numbers) {
  tables_.push_back(find_table(numbers));
  return tables_.back()->data;
}

void release_device_memory() {
  {
    const std::lock_guard lock(tables_mutex());
    drop_tables(0);
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return;
  for (int n = 0; n < devices; ++n) cudaMemPoolTrimTo(pool_of(n), 0);
}

}  // namespace rapt::inline v1::cuda
