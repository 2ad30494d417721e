#include "rapt/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "backends/cuda/device.h"
#include "distributed/kept_memory.h"

namespace rapt::inline v1 {
namespace {

// Tags of the calls below; those of attend() are smaller.
constexpr int kGatherTag = 30001;
constexpr int kBroadcastTag = 30002;
constexpr int kMeasureTag = 30003;
constexpr int kExchangeTag = 30004;

}  // namespace

Communicator::~Communicator() = default;

// Processes may share processors: a waiting one yields.
void Communicator::wait(int message) {
  for (int tries = 0; !test(message); ++tries) {
    if (tries < 1000) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::vector<std::byte> Communicator::all_gather(const void* data, std::size_t bytes) {
  const int own = rank(), all = size();
  std::vector<std::byte> result(bytes * static_cast<std::size_t>(all));
  if (bytes == 0) return result;
  std::memcpy(result.data() + bytes * static_cast<std::size_t>(own), data, bytes);
  std::vector<int> messages;
  for (int other = 0; other < all; ++other) {
    if (other == own) continue;
    messages.push_back(
        start_receive(result.data() + bytes * static_cast<std::size_t>(other), bytes, other, kGatherTag));
    messages.push_back(start_send(data, bytes, other, kGatherTag));
  }
  for (const int message : messages) wait(message);
  return result;
}

void Communicator::exchange(std::span<const Message> messages, const Device& device, void* stream) {
  const bool copies = device.kind == Device::Kind::cuda;
  // After a failure messages on their way keep their memory.
  const auto kept = std::make_shared<std::vector<std::vector<std::byte>>>(messages.size());
  std::vector<std::vector<std::byte>>& own = *kept;
  std::vector<int> started;
  if (copies) cuda::synchronize(device.index, stream);
  try {
    for (std::size_t n = 0; n < messages.size(); ++n) {
      const Message& message = messages[n];
      void* data = message.data;
      if (copies) {
        own[n].resize(message.bytes);
        data = own[n].data();
        if (!message.receives) cuda::copy_to_host(device.index, data, message.data, message.bytes, stream);
      }
      started.push_back(message.receives ? start_receive(data, message.bytes, message.process, kExchangeTag)
                                         : start_send(data, message.bytes, message.process, kExchangeTag));
    }
    // All in turn: one may wait for another that waits for one of these.
    for (int tries = 0; !started.empty(); ++tries) {
      std::erase_if(started, [&](int message) { return test(message); });
      if (tries < 1000) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  } catch (...) {
    distributed::keep_for_messages(kept);
    throw;
  }
  for (std::size_t n = 0; n < messages.size() && copies; ++n)
    if (messages[n].receives)
      cuda::copy_to_device(device.index, messages[n].data, own[n].data(), messages[n].bytes, stream);
}

// Along a binary tree: each process sends to at most two others.
void Communicator::broadcast(void* data, std::size_t bytes, int root) {
  const int all = size();
  if (bytes == 0 || all == 1) return;
  const int place = (rank() - root + all) % all;
  const auto process = [&](int at) { return (at + root) % all; };
  if (place > 0) wait(start_receive(data, bytes, process((place - 1) / 2), kBroadcastTag));
  std::vector<int> messages;
  for (const int next : {2 * place + 1, 2 * place + 2})
    if (next < all) messages.push_back(start_send(data, bytes, process(next), kBroadcastTag));
  for (const int message : messages) wait(message);
}

// There and back between the first process and the last, the best of three.
double Communicator::bandwidth() {
  // All use what process 0 knows, or some would wait for a measurement that others do not make.
  broadcast(&bandwidth_, sizeof bandwidth_, 0);
  if (bandwidth_ >= 0) return bandwidth_;
  bandwidth_ = 0;
  const int last = size() - 1;
  if (last == 0) return 0;
  std::vector<std::byte> bytes(std::size_t{1} << 21);
  for (int n = 0; n < 3; ++n) {
    const auto start = std::chrono::steady_clock::now();
    if (rank() == 0) {
      wait(start_send(bytes.data(), bytes.size(), last, kMeasureTag));
      wait(start_receive(bytes.data(), bytes.size(), last, kMeasureTag));
    } else if (rank() == last) {
      wait(start_receive(bytes.data(), bytes.size(), 0, kMeasureTag));
      wait(start_send(bytes.data(), bytes.size(), 0, kMeasureTag));
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    bandwidth_ = std::max(bandwidth_, 2 * static_cast<double>(bytes.size()) / std::max(seconds.count(), 1e-9));
  }
  broadcast(&bandwidth_, sizeof bandwidth_, 0);
  return bandwidth_;
}

}  // namespace rapt::inline v1
