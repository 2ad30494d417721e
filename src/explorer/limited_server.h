#pragma once

#include <atomic>

#include <httplib.h>

namespace rapt::explorer {

// Limits of one client, so that none keeps others from an answer.
struct Limits {
  std::size_t most_head = std::size_t{1} << 15;     // bytes of the request line and the headers
  std::size_t most_request = std::size_t{5} << 16;  // of the whole request, however it is sent
  int head_ms = 3000;                               // for the head to arrive, from the connection or the last answer
  int request_ms = 10000;                           // for all of it, and for its answer to be taken
  int connections = 96;                             // at once; more get 503
};

// An HTTP server that limits its clients and stops at once: the library's own counts neither headers nor chunked
// bodies, and waits for every client.
class LimitedServer : public httplib::Server {
 public:
  explicit LimitedServer(const Limits& limits = {});

  // After the port is bound: sets the backlog for clients that connect together.
  void widen_queue() { ::listen(svr_sock_, limits_.connections); }
  // Disconnects every client; answers being computed are dropped once they are ready.
  void abandon() { stopping_ = true; }

 private:
  bool process_and_close_socket(socket_t socket) override;

  const Limits limits_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
};

}  // namespace rapt::explorer
