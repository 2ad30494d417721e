// Clients that send endlessly, slowly, or not at all: they are disconnected, and others get their answers.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <httplib.h>

#include "explorer/server.h"
#include "tests/explorer/exhibits.h"

namespace rapt::explorer::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class Connection {
 public:
  explicit Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool write(const std::string& bytes) const {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t sent = send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += static_cast<std::size_t>(sent);
    }
    return true;
  }

  // How many of `most` bytes the server accepts, sent in pieces like this one.
  std::size_t flood(const std::string& piece, std::size_t most) const {
    std::size_t taken = 0;
    while (taken < most && write(piece)) taken += piece.size();
    return taken;
  }

 private:
  int socket_;
};

class ExplorerLimits : public testing::Test {
 protected:
  ExplorerLimits() : server_({some_exhibit(1, 1, 4, 4), make}, 0), thread_([this] { server_.run(); }) {}
  ~ExplorerLimits() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  static Exhibit make(const std::string& text, const std::string&) {
    Exhibit exhibit = some_exhibit(1, 1, 2, 2);
    exhibit.text = text;
    return exhibit;
  }

  int status() const {
    httplib::Client one("127.0.0.1", server_.port());
    one.set_read_timeout(10);
    const auto answer = one.Get("/api/exhibit");
    return answer ? answer->status : 0;
  }

  std::string head(const std::string& request) const {
    return request + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server_.port()) + "\r\n";
  }

  Server server_;
  std::thread thread_;
};

constexpr std::size_t kFlood = std::size_t{256} << 20;
constexpr std::size_t kBuffers = std::size_t{32} << 20;  // what the system takes before anything is read

TEST_F(ExplorerLimits, BodiesInChunksHaveAnEnd) {
  const Connection one(server_.port());
  ASSERT_TRUE(
      one.write(head("POST /api/run") + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"));
  const std::string piece = "10000\r\n" + std::string(0x10000, 'x') + "\r\n";
  EXPECT_LT(one.flood(piece, kFlood), kBuffers);
  EXPECT_EQ(status(), 200);
}

// The library would unpack 200 KB to a gigabyte before the bytes are counted.
TEST_F(ExplorerLimits, BodiesAreNotUnpacked) {
  httplib::Client one("127.0.0.1", server_.port());
  for (const char* encoding : {"gzip", "br", "deflate", "unknown"}) {
    const auto answer = one.Post("/api/run", {{"Content-Encoding", encoding}}, R"({"text": "ab"})", "application/json");
    ASSERT_TRUE(answer) << encoding;
    EXPECT_EQ(answer->status, 415) << encoding;
  }
  EXPECT_EQ(status(), 200);
}

// The library would answer with a copy for each range: 2,600 of the page are 271 MB.
TEST_F(ExplorerLimits, RangesAreLeftOut) {
  std::string ranges = "bytes=0-";
  for (int n = 1; n < 2600; ++n) ranges += ",0-";
  httplib::Client one("127.0.0.1", server_.port());
  for (const char* path : {"/", "/api/row?id=1&layer=0&row=0"}) {
    const auto whole = one.Get(path);
    ASSERT_TRUE(whole);
    for (const char* name : {"Range", "range", "RANGE"})
      for (const std::string& value :
           {ranges, std::string("bytes=1-2"), std::string("bytes=99999999-"), std::string()}) {
        const auto answer = one.Get(path, {{name, value}});
        ASSERT_TRUE(answer) << path << " " << value.substr(0, 20);
        EXPECT_EQ(answer->status, 200) << path << " " << value.substr(0, 20);
        EXPECT_EQ(answer->body, whole->body) << path << " " << value.substr(0, 20);
      }
  }
}

// Copied, printed or destroyed, a tree of so many levels takes more than a stack.
TEST_F(ExplorerLimits, BodiesAreNotDeep) {
  httplib::Client one("127.0.0.1", server_.port());
  const std::string deep = R"({"text": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const auto answer = one.Post("/api/run", deep, "application/json");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400);
  EXPECT_NE(answer->body.find("levels of nesting"), std::string::npos) << answer->body;
}

TEST_F(ExplorerLimits, HeadersHaveAnEnd) {
  const Connection one(server_.port());
  ASSERT_TRUE(one.write(head("GET /")));
  EXPECT_LT(one.flood("X-More: " + std::string(1000, 'x') + "\r\n", kFlood), kBuffers);
  const Connection other(server_.port());
  EXPECT_LT(other.flood(std::string(4000, 'x'), kFlood), kBuffers) << "a line without an end";
  EXPECT_EQ(status(), 200);
}

TEST_F(ExplorerLimits, SlowClientsKeepNobodyWaiting) {
  std::vector<std::unique_ptr<Connection>> slow;
  for (int n = 0; n < 64; ++n) {
    slow.push_back(std::make_unique<Connection>(server_.port()));
    if (n % 2 == 0) slow.back()->write("GET / HT");
  }
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(status(), 200);
  EXPECT_LT(seconds_since(start), 2.5);
}

// More than it has room for: new clients are refused until the slow ones are disconnected.
TEST_F(ExplorerLimits, ManyClientsAreSentAway) {
  std::vector<std::unique_ptr<Connection>> slow;
  for (int n = 0; n < 160; ++n) slow.push_back(std::make_unique<Connection>(server_.port()));
  const Clock::time_point start = Clock::now();
  while (status() != 200 && seconds_since(start) < 30) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(seconds_since(start), 20);
}

// A byte now and then is not a request either.
TEST_F(ExplorerLimits, ARequestHasItsTime) {
  const Connection one(server_.port());
  ASSERT_TRUE(one.write(head("POST /api/run") + "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"));
  const Clock::time_point start = Clock::now();
  while (seconds_since(start) < 40 && one.write("x")) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(seconds_since(start), 25);
}

TEST_F(ExplorerLimits, EndsAtOnceWhoeverIsConnected) {
  std::vector<std::unique_ptr<Connection>> slow;
  for (int n = 0; n < 64; ++n) {
    slow.push_back(std::make_unique<Connection>(server_.port()));
    if (n % 2 == 0) slow.back()->write(head("GET /"));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Clock::time_point start = Clock::now();
  server_.stop();
  thread_.join();
  EXPECT_LT(seconds_since(start), 1);
}

}  // namespace
}  // namespace rapt::explorer::test
