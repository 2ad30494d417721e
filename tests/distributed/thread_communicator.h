#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include "rapt/communicator.h"

// Processes that are threads of this one: messages are copied.
namespace support {

class ThreadNetwork {
 public:
  using Clock = std::chrono::steady_clock;

  // With delays, a message arrives up to 3 ms after it was sent, and long ones leave the sender only then.
  explicit ThreadNetwork(int size, unsigned delays = 0) : size_(size), delays_(delays), random_(delays) {}

  int size() const { return size_; }
  // True: the message has been taken, and its memory is the sender's again.
  std::shared_ptr<const bool> send(int from, int to, int tag, const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Message message;
    message.from = static_cast<const std::byte*>(data);
    message.bytes = bytes;
    if (delays_ == 0 || bytes <= kCopied) {
      message.own.assign(message.from, message.from + bytes);
      *message.taken = true;
    }
    if (delays_ != 0) message.arrives = Clock::now() + std::chrono::microseconds(random_() % 3000);
    queues_[{from, to, tag}].push_back(message);
    return message.taken;
  }
  bool receive(int from, int to, int tag, void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& queue = queues_[{from, to, tag}];
    if (is_over() && (queue.empty() || !*queue.front().taken)) throw std::runtime_error("another process failed");
    if (queue.empty() || queue.front().arrives > Clock::now()) return false;
    const Message& message = queue.front();
    if (message.bytes != bytes) throw std::runtime_error("a message of another size");
    if (bytes > 0) std::memcpy(data, *message.taken ? message.own.data() : message.from, bytes);
    *message.taken = true;
    queue.pop_front();
    return true;
  }
  bool is(const bool& flag) {
    const std::lock_guard lock(mutex_);
    if (is_over() && !flag) throw std::runtime_error("another process failed");
    return flag;
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    if (!failed_) failed_ = Clock::now();
  }
  // Messages that were not received.
  std::size_t left() {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& [key, queue] : queues_) count += queue.size();
    return count;
  }

 private:
  static constexpr std::size_t kCopied = 1024;

  // What all were told before one failed still arrives.
  bool is_over() const { return failed_ && Clock::now() - *failed_ > std::chrono::seconds(1); }

  struct Message {
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
    std::vector<std::byte> own;
    std::shared_ptr<bool> taken = std::make_shared<bool>(false);
    Clock::time_point arrives;
  };

  int size_;
  unsigned delays_;
  std::minstd_rand random_;
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::deque<Message>> queues_;
  std::optional<Clock::time_point> failed_;
};

class ThreadCommunicator final : public rapt::Communicator {
 public:
  // Without tags, messages between two processes keep their order and nothing else.
  ThreadCommunicator(ThreadNetwork& network, int rank, bool tags = true)
      : network_(network), rank_(rank), tags_(tags) {}

  int rank() const override { return rank_; }
  int size() const override { return network_.size(); }
  bool has_tags() const override { return tags_; }

  int start_send(const void* data, std::size_t bytes, int to, int tag) override {
    progress_ = ThreadNetwork::Clock::now();
    pending_.push_back({false, nullptr, 0, 0, 0, network_.send(rank_, to, tags_ ? tag : 0, data, bytes)});
    return static_cast<int>(pending_.size()) - 1;
  }
  int start_receive(void* data, std::size_t bytes, int from, int tag) override {
    progress_ = ThreadNetwork::Clock::now();
    pending_.push_back({false, data, bytes, from, tags_ ? tag : 0, nullptr});
    return static_cast<int>(pending_.size()) - 1;
  }
  bool test(int message) override {
    Pending& p = pending_.at(static_cast<std::size_t>(message));
    if (p.done) return true;
    p.done = p.sent ? network_.is(*p.sent) : network_.receive(p.from, rank_, p.tag, p.data, p.bytes);
    // Processes that wait for each other end the test instead of stopping it.
    if (p.done) progress_ = ThreadNetwork::Clock::now();
    else if (ThreadNetwork::Clock::now() - progress_ > kPatience) throw std::runtime_error("no message for a minute");
    return p.done;
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};

  struct Pending {
    bool done;
    void* data;
    std::size_t bytes;
    int from, tag;
    std::shared_ptr<const bool> sent;
  };

  ThreadNetwork& network_;
  int rank_;
  bool tags_;
  std::vector<Pending> pending_;
  ThreadNetwork::Clock::time_point progress_ = ThreadNetwork::Clock::now();
};

// Runs body(communicator) in `size` processes; the messages of what they threw, empty where they did not.
inline std::vector<std::string> run_processes(int size, const std::function<void(rapt::Communicator&)>& body,
                                              unsigned delays = 0, bool tags = true) {
  ThreadNetwork network(size, delays);
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(network, rank, tags);
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
