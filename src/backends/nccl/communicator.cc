#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/nccl/library.h"
#include "rapt/device.h"
#include "rapt/error.h"
#include "rapt/nccl.h"

namespace rapt::inline v1 {
namespace {

using nccl::library;

static_assert(sizeof(rapt_nccl_id) == sizeof(ncclUniqueId));

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw Error(std::string("nccl: ") + what + ": " + cudaGetErrorString(status));
}

// Makes a device current, and goes back.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index) {
    check_cuda(cudaGetDevice(&before_), "current device");
    check_cuda(cudaSetDevice(index), "device");
  }
  ~CurrentDevice() { cudaSetDevice(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

void check_device(const Device& device) {
  const int count = device_count(Device::Kind::cuda);
  if (device.kind != Device::Kind::cuda || device.index < 0 || device.index >= count)
    throw Error("nccl_communicator: device: expected one of " + std::to_string(count) + " on cuda, got " +
                to_string(device));
}

// One ncclComm_t, and what is sent through it.
class Network {
 public:
  Network(const rapt_nccl_id& id, int rank, int size, const Device& device) : device_(device) {
    const CurrentDevice scope(device.index);
    ncclUniqueId own;
    std::memcpy(&own, &id, sizeof own);
    nccl::check(library().init_rank(&communicator_, size, own, rank), "ncclCommInitRank");
  }
  // What is on its way is finished, unless something failed: then others may never send or receive their part of it.
  ~Network() {
    const CurrentDevice scope(device_.index);
    if (std::uncaught_exceptions() > exceptions_) abort();
    if (communicator_ != nullptr) library().destroy(communicator_);
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Device& device() const { return device_; }

  void exchange(std::span<const Message> messages, void* stream) {
    const CurrentDevice scope(device_.index);
    check_state();
    auto* const order = static_cast<cudaStream_t>(stream);
    ncclResult_t first = library().group_start();
    const char* what = "ncclGroupStart";
    for (const Message& message : messages) {
      if (!goes_on(first)) break;
      what = message.receives ? "ncclRecv" : "ncclSend";
      first = message.receives
                  ? library().receive(message.data, message.bytes, ncclUint8, message.process, communicator_, order)
                  : library().send(message.data, message.bytes, ncclUint8, message.process, communicator_, order);
    }
    // A group that is not ended would take in all later calls of this thread.
    const ncclResult_t last = library().group_end();
    if (goes_on(first) && !goes_on(last)) {
      first = last;
      what = "ncclGroupEnd";
    }
    fail_unless(first, what);
  }

  // Throws what has happened to messages on their way.
  void check_state() {
    if (communicator_ == nullptr) throw Error("nccl: expected a communicator that has not failed, got one that has");
    ncclResult_t state = ncclSuccess;
    nccl::check(library().async_error(communicator_, &state), "ncclCommGetAsyncError");
    fail_unless(state, "a message on its way");
  }

 private:
  static bool goes_on(ncclResult_t status) { return status == ncclSuccess || status == ncclInProgress; }

  // After a failure its kernels wait for ever, and whoever frees memory would wait for them.
  void fail_unless(ncclResult_t status, const char* what) {
    if (goes_on(status)) return;
    abort();
    nccl::check(status, what);
  }
  void abort() {
    if (communicator_ != nullptr) library().abort(communicator_);
    communicator_ = nullptr;
  }

  Device device_;
  ncclComm_t communicator_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();
};

void check_arrays_device(const Device& expected, const Device& got) {
  if (got != expected)
    throw Error("nccl: expected arrays on " + to_string(expected) + ", the device of this process, got some on " +
                to_string(got));
}

// Messages of ordinary memory pass through the device too: all that were started, together, when one of them is waited for.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const rapt_nccl_id& id, int rank, int size, const Device& device)
      : rank_(rank), size_(size), network_(id, rank, size, device) {
    const CurrentDevice scope(device.index);
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  }
  ~NcclCommunicator() override {
    const CurrentDevice scope(network_.device().index);
    cudaStreamDestroy(stream_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool has_tags() const override { return false; }

  int start_send(const void* data, std::size_t bytes, int to, int) override {
    return start({const_cast<void*>(data), bytes, to, false});
  }
  int start_receive(void* data, std::size_t bytes, int from, int) override { return start({data, bytes, from, true}); }
  bool test(int message) override {
    if (message >= done_) flush();
    return true;
  }

  void exchange(std::span<const Message> messages, const Device& device, void* stream) override {
    if (device.kind == Device::Kind::cpu) return Communicator::exchange(messages, device, stream);
    check_arrays_device(network_.device(), device);
    network_.exchange(messages, stream);
  }

 private:
  int start(const Message& message) {
    pending_.push_back(message);
    return done_ + static_cast<int>(pending_.size()) - 1;
  }

  void flush() {
    const CurrentDevice scope(network_.device().index);
    std::vector<Message> there;
    std::size_t bytes = 0;
    for (const Message& message : pending_) bytes += padded(message.bytes);
    const DeviceMemory memory(network_.device(), bytes);
    auto* at = static_cast<char*>(memory.data());
    for (const Message& message : pending_) {
      if (message.bytes > 0) there.push_back({at, message.bytes, message.process, message.receives});
      if (!message.receives)
        check_cuda(cudaMemcpyAsync(at, message.data, message.bytes, cudaMemcpyHostToDevice, stream_), "copy");
      at += padded(message.bytes);
    }
    if (!there.empty()) network_.exchange(there, stream_);
    wait_for_stream();
    at = static_cast<char*>(memory.data());
    for (const Message& message : pending_) {
      if (message.receives)
        check_cuda(cudaMemcpyAsync(message.data, at, message.bytes, cudaMemcpyDeviceToHost, stream_), "copy");
      at += padded(message.bytes);
    }
    check_cuda(cudaStreamSynchronize(stream_), "messages");
    done_ += static_cast<int>(pending_.size());
    pending_.clear();
  }
  static std::size_t padded(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

  // A process that is gone is noticed.
  void wait_for_stream() {
    for (;;) {
      const cudaError_t status = cudaStreamQuery(stream_);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) check_cuda(status, "messages");
      network_.check_state();
      std::this_thread::yield();
    }
  }

  int rank_, size_;
  Network network_;
  cudaStream_t stream_ = nullptr;
  std::vector<Message> pending_;
  int done_ = 0;
};

// Beside another communicator, which has the messages of ordinary memory.
class NcclBeside final : public Communicator {
 public:
  NcclBeside(Communicator& processes, const rapt_nccl_id& id, const Device& device)
      : processes_(processes), network_(id, processes.rank(), processes.size(), device) {}

  int rank() const override { return processes_.rank(); }
  int size() const override { return processes_.size(); }
  bool has_tags() const override { return processes_.has_tags(); }
  int start_send(const void* data, std::size_t bytes, int to, int tag) override {
    return processes_.start_send(data, bytes, to, tag);
  }
  int start_receive(void* data, std::size_t bytes, int from, int tag) override {
    return processes_.start_receive(data, bytes, from, tag);
  }
  bool test(int message) override { return processes_.test(message); }

  void exchange(std::span<const Message> messages, const Device& device, void* stream) override {
    if (device.kind == Device::Kind::cpu) return processes_.exchange(messages, device, stream);
    check_arrays_device(network_.device(), device);
    network_.exchange(messages, stream);
  }

 private:
  Communicator& processes_;
  Network network_;
};

// What processes say of themselves before NCCL is started, which refuses two on one device, and hangs if one is missing.
struct Card {
  rapt_nccl_id id{};
  std::array<char, 192> machine{};
  std::array<char, 64> boot{};
  std::array<char, 32> device{};
  std::array<char, 512> refusal{};
};

// Of this start of the machine; containers on it have names of their own, and other machines may have the same. Empty: unknown.
std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

bool on_one_device(const Card& a, const Card& b) {
  const bool known = a.boot[0] && b.boot[0];
  return a.device == b.device && (known ? a.boot == b.boot : a.machine == b.machine);
}

Card card_of(const Device& device, int rank) {
  Card card;
  try {
    check_device(device);
    library();
    if (rank == 0) card.id = make_nccl_id();
    gethostname(card.machine.data(), card.machine.size() - 1);
    boot_id().copy(card.boot.data(), card.boot.size() - 1);
    check_cuda(cudaDeviceGetPCIBusId(card.device.data(), static_cast<int>(card.device.size()), device.index), "device");
  } catch (const Error& error) {
    std::string(error.what()).copy(card.refusal.data(), card.refusal.size() - 1);
  }
  return card;
}

thread_local std::string last_error;

// No exception leaves a function of C.
template <class T, class F>
T contain(T otherwise, const F& f) noexcept {
  try {
    return f();
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "nccl: unknown error";
  }
  return otherwise;
}

}  // namespace

rapt_nccl_id make_nccl_id() {
  ncclUniqueId own;
  nccl::check(library().get_unique_id(&own), "ncclGetUniqueId");
  rapt_nccl_id id;
  std::memcpy(&id, &own, sizeof id);
  return id;
}

std::unique_ptr<Communicator> nccl_communicator(const rapt_nccl_id& id, int rank, int size, const Device& device) {
  if (size < 1 || rank < 0 || rank >= size)
    throw Error("nccl_communicator: rank: expected 0 to " + std::to_string(size - 1) + ", got " + std::to_string(rank));
  check_device(device);
  return std::make_unique<NcclCommunicator>(id, rank, size, device);
}

std::unique_ptr<Communicator> nccl_communicator(Communicator& processes, const Device& device) {
  const Card own = card_of(device, processes.rank());
  const std::vector<std::byte> bytes = processes.all_gather(&own, sizeof own);
  std::vector<Card> cards(static_cast<std::size_t>(processes.size()));
  std::memcpy(cards.data(), bytes.data(), bytes.size());
  if (own.refusal[0]) throw Error(own.refusal.data());
  for (std::size_t n = 0; n < cards.size(); ++n)
    if (cards[n].refusal[0]) throw Error("process " + std::to_string(n) + ": " + cards[n].refusal.data());
  for (std::size_t n = 0; n < cards.size(); ++n)
    for (std::size_t m = 0; m < n; ++m)
      if (on_one_device(cards[m], cards[n]))
        throw Error("nccl_communicator: device: expected one for each process, got the same in processes " +
                    std::to_string(m) + " and " + std::to_string(n) + " on " + cards[n].machine.data());
  return std::make_unique<NcclBeside>(processes, cards[0].id, device);
}

}  // namespace rapt::inline v1

extern "C" {

int rapt_nccl_make_id(rapt_nccl_id* id) {
  return rapt::contain(-1, [&] {
    *id = rapt::make_nccl_id();
    return 0;
  });
}

rapt_communicator* rapt_nccl_communicator(const rapt_nccl_id* id, int32_t rank, int32_t size, int32_t device) {
  return rapt::contain<rapt_communicator*>(nullptr, [&] {
    auto own = rapt::nccl_communicator(*id, rank, size, {rapt::Device::Kind::cuda, device});
    auto made = std::make_unique<rapt_communicator>();
    made->struct_size = sizeof(rapt_communicator);
    made->rank = own->rank();
    made->size = own->size();
    made->without_tags = 1;
    made->start_send = [](void* context, const void* data, std::size_t bytes, std::int32_t to, std::int32_t tag) {
      return rapt::contain(-1,
                           [&] { return static_cast<rapt::Communicator*>(context)->start_send(data, bytes, to, tag); });
    };
    made->start_receive = [](void* context, void* data, std::size_t bytes, std::int32_t from, std::int32_t tag) {
      return rapt::contain(
          -1, [&] { return static_cast<rapt::Communicator*>(context)->start_receive(data, bytes, from, tag); });
    };
    made->test = [](void* context, std::int32_t message) {
      return rapt::contain(-1, [&] { return static_cast<rapt::Communicator*>(context)->test(message) ? 1 : 0; });
    };
    made->exchange = [](void* context, const rapt_message* messages, std::size_t count, std::int32_t kind,
                        std::int32_t index, void* stream) {
      return rapt::contain(-1, [&] {
        std::vector<rapt::Message> list;
        for (std::size_t n = 0; n < count; ++n)
          list.push_back({messages[n].data, messages[n].bytes, messages[n].process, messages[n].receives != 0});
        static_cast<rapt::Communicator*>(context)->exchange(list, {static_cast<rapt::Device::Kind>(kind), index},
                                                            stream);
        return 0;
      });
    };
    made->context = own.release();
    return made.release();
  });
}

void rapt_nccl_communicator_free(rapt_communicator* communicator) {
  if (communicator == nullptr) return;
  delete static_cast<rapt::Communicator*>(communicator->context);
  delete communicator;
}

const char* rapt_nccl_last_error(void) { return rapt::last_error.c_str(); }

}  // extern "C"
