#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <stdexcept>
#include <vector>

#include "rapt/communicator.h"

// Processes with a socket to each other: messages keep their order, and have no tags.
namespace support {

class SocketCommunicator final : public rapt::Communicator {
 public:
  // sockets[n]: to process n; −1: itself.
  SocketCommunicator(int rank, std::vector<int> sockets) : rank_(rank), sockets_(std::move(sockets)) {
    out_.resize(sockets_.size());
    in_.resize(sockets_.size());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(sockets_.size()); }
  bool has_tags() const override { return false; }
  int start_send(const void* data, std::size_t bytes, int to, int) override {
    return start(out_, {const_cast<char*>(static_cast<const char*>(data)), bytes, 0}, to);
  }
  int start_receive(void* data, std::size_t bytes, int from, int) override {
    return start(in_, {static_cast<char*>(data), bytes, 0}, from);
  }
  bool test(int message) override {
    for (std::size_t n = 0; n < sockets_.size(); ++n) {
      move(out_[n], [&](char* data, std::size_t bytes) {
        return ::send(sockets_[n], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
      });
      move(in_[n], [&](char* data, std::size_t bytes) {
        const ssize_t got = ::recv(sockets_[n], data, bytes, MSG_DONTWAIT);
        if (got == 0) throw std::runtime_error("process " + std::to_string(n) + " is gone");
        return got;
      });
    }
    return done_.at(static_cast<std::size_t>(message));
  }

 private:
  struct Pending {
    char* data;
    std::size_t bytes;
    int number;
  };
  using Queues = std::vector<std::deque<Pending>>;

  int start(Queues& queues, Pending pending, int process) {
    pending.number = static_cast<int>(done_.size());
    done_.push_back(false);
    queues.at(static_cast<std::size_t>(process)).push_back(pending);
    return pending.number;
  }
  template <class F>
  void move(std::deque<Pending>& queue, const F& f) {
    while (!queue.empty()) {
      Pending& first = queue.front();
      if (first.bytes > 0) {
        const ssize_t count = f(first.data, first.bytes);
        if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
          throw std::runtime_error("a socket failed");
        if (count <= 0) return;
        first.data += count;
        first.bytes -= static_cast<std::size_t>(count);
      }
      if (first.bytes > 0) return;
      done_[static_cast<std::size_t>(first.number)] = true;
      queue.pop_front();
    }
  }

  int rank_;
  std::vector<int> sockets_;
  Queues out_, in_;
  std::vector<bool> done_;
};

}  // namespace support
