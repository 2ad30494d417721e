#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include "rapt/communicator.h"

// Processes that are threads of this one: every message is a copy.
namespace support {

class ThreadNetwork {
 public:
  explicit ThreadNetwork(int size) : size_(size) {}

  int size() const { return size_; }
  void send(int from, int to, int tag, const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* begin = static_cast<const std::byte*>(data);
    queues_[{from, to, tag}].emplace_back(begin, begin + bytes);
    ++messages_;
    bytes_ += bytes;
  }
  bool receive(int from, int to, int tag, void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& queue = queues_[{from, to, tag}];
    if (queue.empty() && failed_) throw std::runtime_error("another process failed");
    if (queue.empty()) return false;
    if (queue.front().size() != bytes) throw std::runtime_error("a message of another size");
    if (bytes > 0) std::memcpy(data, queue.front().data(), bytes);
    queue.pop_front();
    return true;
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
  }
  // Messages that were not received.
  std::size_t left() {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& [key, queue] : queues_) count += queue.size();
    return count;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  int size_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> queues_;
  std::size_t messages_ = 0, bytes_ = 0;
  bool failed_ = false;
};

class ThreadCommunicator final : public rapt::Communicator {
 public:
  ThreadCommunicator(ThreadNetwork& network, int rank) : network_(network), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return network_.size(); }

  int start_send(const void* data, std::size_t bytes, int to, int tag) override {
    network_.send(rank_, to, tag, data, bytes);
    pending_.push_back({true, nullptr, 0, 0, 0});
    return static_cast<int>(pending_.size()) - 1;
  }
  int start_receive(void* data, std::size_t bytes, int from, int tag) override {
    pending_.push_back({false, data, bytes, from, tag});
    return static_cast<int>(pending_.size()) - 1;
  }
  bool test(int message) override {
    Pending& p = pending_.at(static_cast<std::size_t>(message));
    if (!p.done) p.done = network_.receive(p.from, rank_, p.tag, p.data, p.bytes);
    return p.done;
  }

 private:
  struct Pending {
    bool done;
    void* data;
    std::size_t bytes;
    int from, tag;
  };

  ThreadNetwork& network_;
  int rank_;
  std::vector<Pending> pending_;
};

// Runs body(communicator) in `size` processes; the messages of what they threw, empty where they did not.
inline std::vector<std::string> run_processes(int size, const std::function<void(rapt::Communicator&)>& body) {
  ThreadNetwork network(size);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(network, rank);
      try {
        body(communicator);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
        network.fail();
      }
    });
  for (std::thread& thread : threads) thread.join();
  bool clean = true;
  for (const std::string& error : errors) clean = clean && error.empty();
  if (clean && network.left() > 0) errors[0] = std::to_string(network.left()) + " messages were never received";
  return errors;
}

}  // namespace support
