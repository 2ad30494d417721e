// Bytes from a client of the explorer's server: heads, bodies, chunks, and several requests in a row. Afterwards the
// server answers a valid request.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "explorer/server.h"
#include "rapt/error.h"
#include "tests/explorer/exhibits.h"

namespace {

using rapt::explorer::Server;

// Serves until the process ends.
class Running {
 public:
  Running()
      : server_({rapt::explorer::test::some_exhibit(2, 2, 5, 6),
                 [](const std::string& text, const std::string&) {
                   if (text.empty()) throw rapt::Error("text: expected at least one token, got none");
                   return rapt::explorer::test::some_exhibit(1, 1, 3, 3);
                 }},
                0),
        thread_([this] { server_.run(); }) {}
  ~Running() {
    server_.stop();
    thread_.join();
  }
  int port() const { return server_.port(); }

 private:
  Server server_;
  std::thread thread_;
};

// Everything that the server sends before it closes, for a few seconds at most.
std::string answer(int port, std::string_view says) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{20, 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string all;
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    for (std::size_t at = 0; at < says.size();) {
      const ssize_t sent = send(socket, says.data() + at, says.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) break;
      at += static_cast<std::size_t>(sent);
    }
    shutdown(socket, SHUT_WR);
    char bytes[4096];
    for (ssize_t got = 0; (got = recv(socket, bytes, sizeof bytes, 0)) > 0;)
      all.append(bytes, static_cast<std::size_t>(got));
  }
  close(socket);
  return all;
}

// "@" in a request stands for the server's address, which differs each time.
std::string with_host(std::string_view bytes, const std::string& host) {
  std::string text;
  for (const char c : bytes) {
    if (c == '@') text += host;
    else text += c;
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Running running;
  static int calls = 0;
  const std::string host = "127.0.0.1:" + std::to_string(running.port());
  answer(running.port(), with_host({reinterpret_cast<const char*>(data), size}, host));
  if (++calls % 64 == 0) {
    const std::string good =
        answer(running.port(), "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
    if (!good.starts_with("HTTP/1.1 200")) {
      std::fprintf(stderr, "a good request got: %.200s\n", good.c_str());
      std::abort();
    }
  }
  return 0;
}
