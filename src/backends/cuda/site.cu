#include <algorithm>

#include "backends/cuda/device.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/programs.h"
#include "backends/cuda/rows.h"
#include "backends/cuda/saved_rows.h"
#include "backends/cuda/sums.h"
#include "distributed/device_site.h"

namespace rapt::inline v1::distributed {
namespace {

using cuda::check;

class DeviceSite final : public Site {
 public:
  DeviceSite(const Device& device, void* stream)
      : device_(device), scope_(device.index), stream_(static_cast<cudaStream_t>(stream)), workspace_(stream_) {
    try {
      // First in line for a processor that becomes free, as others wait for what is sent.
      int least = 0, greatest = 0;
      check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream");
      check(cudaStreamCreateWithPriority(&transfers_, cudaStreamNonBlocking, greatest), "stream");
      check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "event");
    } catch (...) {
      release();
      throw;
    }
  }
  // Memory goes back in the order of the stream: what is still on its way comes first.
  ~DeviceSite() override {
    if (cudaEventRecord(event_, transfers_) == cudaSuccess) cudaStreamWaitEvent(stream_, event_, 0);
    release();
  }
  DeviceSite(const DeviceSite&) = delete;
  DeviceSite& operator=(const DeviceSite&) = delete;

  Device device() const override { return device_; }
  void* take(std::size_t bytes) override { return workspace_.take<std::byte>(static_cast<std::int64_t>(bytes)); }
  RowSums take_rows(std::int64_t rows, std::int64_t dim) override {
    return rows_at(take(statistics_bytes(rows) + 2 * static_cast<std::size_t>(rows * dim)), rows);
  }
  void* remainder_of(const RowSums& rows) override {
    return static_cast<std::byte*>(rows.max) + statistics_bytes(rows.rows);
  }
  void clear(void* data, std::size_t bytes) override { check(cudaMemsetAsync(data, 0, bytes, stream_), "sums"); }
  void clear(const View& view) override { cuda::store_zeros(view, stream_); }
  void store(const ConstView& from, const View& to) override { cuda::copy_numbers(from, to, stream_); }
  void add(const void* from, Dtype from_type, void* to, Dtype type, std::int64_t count) override {
    cuda::add_numbers(from, from_type, to, type, count, stream_);
  }
  void split(const void* from, std::int64_t count, Dtype type, void* kept, void* lost) override {
    cuda::split_numbers(static_cast<const float*>(from), count, type, kept, lost, stream_);
  }
  void start(const RowSums& rows, bool additive) override { cuda::start_rows(rows, additive, stream_); }
  void merge(const RowSums& total, const RowSums& part, std::span<const OutSums> out) override {
    cuda::merge_rows(total, part, out, stream_);
  }
  void add_rows(const RowSums& total, const void* log_sum, std::span<const OutSums> out) override {
    cuda::add_rows(total, static_cast<const float*>(log_sum), out, stream_);
  }
  void finish(const RowSums& total, std::span<const OutSums> out, const HeadRows& rows,
              const ConstView& sink) override {
    cuda::finish_rows(total, out, rows, sink, stream_);
  }
  void store_lse(const RowSums& total, const View& lse) override { cuda::store_row_lse(total, lse, stream_); }
  void add_sink(const RowSums& total, std::span<const ConstView> out, std::span<const ConstView> grad_out,
                const ConstView& grad_lse, const HeadRows& rows, const ConstView& sink, double* to,
                bool per_head) override {
    cuda::Workspace scratch(stream_);
    cuda::add_sink_rows(total, out, grad_out, grad_lse, rows, sink, scratch.take<double>(total.rows), to, per_head,
                        stream_);
  }
  void hide(const KeyRanges& ranges, const BoolView& given, const BoolView& visible) override {
    cuda::Workspace scratch(stream_);
    cuda::hide_keys(scratch.upload(ranges.begin), scratch.upload(ranges.end), ranges.first_key, given, visible,
                    stream_);
  }
  void use_rows(Saved::Rows& saved, const RowSums& rows, std::int64_t dim) override {
    saved.resize(rows.rows, false, device_);
    saved.device_memory = std::shared_ptr<void>(rows.max, [](void*) {});
    saved.device_bytes = statistics_bytes(rows.rows) + 2 * static_cast<std::size_t>(rows.rows * dim);
    saved.remainder_dim = dim;
  }
  RowSums rows_of(Saved::Rows& saved) override { return rows_at(saved.device_memory.get(), saved.count); }
  RowSums keep_rows(Saved::Rows& saved, std::int64_t rows, std::span<const std::int64_t> dims) override {
    saved.resize(rows, false, device_);
    saved.remainder_dim = 0;
    const std::size_t bytes = wide_place(rows, dims, dims.size());
    if (!saved.device_memory || saved.device_bytes < bytes) {
      const int index = device_.index;
      saved.device_memory = {cuda::allocate(index, bytes), [index](void* data) { cuda::release(index, data); }};
      saved.device_bytes = bytes;
    }
    return rows_of(saved);
  }
  void* wide_out(Saved::Rows& saved, std::span<const std::int64_t> dims, std::size_t set) override {
    return static_cast<std::byte*>(saved.device_memory.get()) + wide_place(saved.count, dims, set);
  }

  bool has_tensor_cores(const Problem& problem) const override {
    const cuda::Programs* programs = cuda::programs_of(problem);
    return programs && programs->fast && problem.q.dim <= 256 && problem.v[0].dim <= 256;
  }
  void* transfer_stream() override { return transfers_; }
  void before_transfer() override { order(stream_, transfers_); }
  void after_transfer() override { order(transfers_, stream_); }

 private:
  // As saved_rows.cu has it.
  static std::size_t statistics_bytes(std::int64_t rows) {
    return (2 * sizeof(float) * static_cast<std::size_t>(rows) + 15) / 16 * 16;
  }
  // Where the wide outputs of a value set start, after the statistics.
  static std::size_t wide_place(std::int64_t rows, std::span<const std::int64_t> dims, std::size_t set) {
    std::size_t bytes = statistics_bytes(rows);
    for (std::size_t s = 0; s < set; ++s) bytes += sizeof(float) * static_cast<std::size_t>(rows * dims[s]);
    return bytes;
  }
  static RowSums rows_at(void* data, std::int64_t rows) { return {data, static_cast<float*>(data) + rows, rows}; }
  void order(cudaStream_t first, cudaStream_t then) {
    check(cudaEventRecord(event_, first), "event");
    check(cudaStreamWaitEvent(then, event_, 0), "event");
  }
  void release() {
    if (event_) cudaEventDestroy(event_);
    if (transfers_) cudaStreamDestroy(transfers_);
  }

  Device device_;
  cuda::DeviceScope scope_;
  cudaStream_t stream_, transfers_ = nullptr;
  cudaEvent_t event_ = nullptr;
  cuda::Workspace workspace_;
};

}  // namespace

std::unique_ptr<Site> device_site(const Device& device, void* stream) {
  return std::make_unique<DeviceSite>(device, stream);
}

}  // namespace rapt::inline v1::distributed
