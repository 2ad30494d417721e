#include "explorer/limited_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

namespace rapt::explorer {
namespace {

using Clock = std::chrono::steady_clock;

// One connection, with limits on bytes and time.
class LimitedStream final : public httplib::Stream {
 public:
  LimitedStream(socket_t socket, const Limits& limits, const std::atomic<bool>& stopping)
      : socket_(socket), limits_(limits), stopping_(stopping) {}

  // Begins the next request, keeping what was already read of it.
  void begin_request() {
    request_bytes_ = 0;
    head_ended_ = false;
    ended_ = 0;
    column_ = 0;
    answering_ = false;
    refused_ = false;
    start_ = Clock::now();
  }

  // Whether a request arrives within this time.
  bool wait_for_request(int milliseconds) {
    return next_ < filled_ || wait(POLLIN, Clock::now() + std::chrono::milliseconds(milliseconds));
  }

  bool is_readable() const override { return next_ < filled_ || wait(POLLIN, deadline()); }
  bool is_writable() const override {
    return wait(POLLOUT, answering_ ? write_deadline_ : Clock::now() + std::chrono::milliseconds(limits_.request_ms));
  }

  ssize_t read(char* to, std::size_t size) override {
    if (refused_) return -1;
    if (request_bytes_ >= (head_ended_ ? limits_.most_request : limits_.most_head)) {
      refuse(head_ended_ ? "413 Payload Too Large" : "431 Request Header Fields Too Large");
      return -1;
    }
    if (next_ == filled_) {
      if (!wait(POLLIN, deadline())) {
        if (!stopping_ && request_bytes_ > 0) refuse("408 Request Timeout");
        return -1;
      }
      const ssize_t got = recv(socket_, buffer_, sizeof buffer_, 0);
      if (got <= 0) return got;
      next_ = 0;
      filled_ = static_cast<std::size_t>(got);
    }
    const std::size_t count = std::min(size, filled_ - next_);
    std::memcpy(to, buffer_ + next_, count);
    next_ += count;
    request_bytes_ += count;
    for (std::size_t n = 0; n < count && !head_ended_; ++n) follow(to[n]);
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, std::size_t size) override {
    if (refused_) return -1;
    // The time of an answer counts from its first byte: computing it may have taken long.
    if (!answering_) write_deadline_ = Clock::now() + std::chrono::milliseconds(limits_.request_ms);
    answering_ = true;
    std::size_t done = 0;
    while (done < size) {
      if (!wait(POLLOUT, write_deadline_)) return -1;
      const ssize_t sent = send(socket_, from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (sent <= 0) return -1;
      done += static_cast<std::size_t>(sent);
    }
    return static_cast<ssize_t>(done);
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip = "127.0.0.1", port = 0; }
  socket_t socket() const override { return socket_; }

  // Answers without the library, and reads no more.
  void refuse(const char* status) {
    const std::string text = std::string("HTTP/1.1 ") + status + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    send(socket_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    refused_ = true;
  }

  bool refused() const { return refused_; }

 private:
  Clock::time_point deadline() const {
    return start_ + std::chrono::milliseconds(head_ended_ ? limits_.request_ms : limits_.head_ms);
  }

  // In short steps, so that a stop of the server is noticed.
  bool wait(short what, Clock::time_point until) const {
    constexpr int kStep = 100;
    while (!stopping_) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0) return false;
      pollfd one{socket_, what, 0};
      const int ready = poll(&one, 1, static_cast<int>(std::min<long long>(left, kStep)));
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
    return false;
  }

  // The head ends with an empty line. A Range header is renamed: the library would answer with as many copies as it
  // asks for, all in memory.
  void follow(char& c) {
    constexpr std::string_view kRange = "range";
    if (c == '\n') {
      head_ended_ = ++ended_ == 2;
      column_ = 0;
    } else if (c != '\r') {
      ended_ = 0;
      if (column_ < kRange.size() && (c | 0x20) == kRange[column_]) {
        if (++column_ == kRange.size()) c = '-';
      } else {
        column_ = std::string_view::npos;
      }
    }
  }

  const socket_t socket_;
  const Limits& limits_;
  const std::atomic<bool>& stopping_;
  char buffer_[4096];
  std::size_t next_ = 0, filled_ = 0;
  std::size_t request_bytes_ = 0;
  bool head_ended_ = false, answering_ = false, refused_ = false;
  int ended_ = 0;           // consecutive line ends
  std::size_t column_ = 0;  // in a line that begins as "range" does
  Clock::time_point start_ = Clock::now(), write_deadline_ = start_;
};

class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count), number_(++count) {}
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int number() const { return number_; }

 private:
  std::atomic<int>& count_;
  const int number_;
};

}  // namespace

LimitedServer::LimitedServer(const Limits& limits) : limits_(limits) {
  // More threads than connections, so that one is always free to turn a client away.
  new_task_queue = [count = limits.connections] {
    return new httplib::ThreadPool(static_cast<std::size_t>(count) + 8);
  };
}

bool LimitedServer::process_and_close_socket(socket_t socket) {
  const Counted counted(connections_);
  LimitedStream stream(socket, limits_, stopping_);
  bool good = true;
  if (counted.number() > limits_.connections) {
    stream.refuse("503 Service Unavailable");
  } else {
    constexpr int kRequests = 100;  // of one connection
    for (int n = 0; n < kRequests && good && !stopping_; ++n) {
      if (!stream.wait_for_request(n == 0 ? limits_.head_ms : static_cast<int>(keep_alive_timeout_sec_) * 1000)) break;
      stream.begin_request();
      bool closed = false;
      good = process_request(stream, n + 1 == kRequests, closed, nullptr);
      if (closed || stream.refused()) break;
    }
  }
  shutdown(socket, SHUT_RDWR);
  close(socket);
  return good;
}

}  // namespace rapt::explorer
