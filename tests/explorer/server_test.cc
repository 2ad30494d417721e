#include "explorer/server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>
#include <httplib.h>
#include <nlohmann/json.hpp>

#include "rapt/error.h"
#include "tests/explorer/exhibits.h"

namespace rapt::explorer::test {
namespace {

using Json = nlohmann::json;

// A server that runs until the end of the test.
class ExplorerServer : public testing::Test {
 protected:
  ExplorerServer() : server_({some_exhibit(2, 3, 9, 7), make}, 0), thread_([this] { server_.run(); }) {}
  ~ExplorerServer() override {
    server_.stop();
    thread_.join();
  }

  static Exhibit make(const std::string& text, const std::string& target) {
    if (text == "bad") throw Error("explore: expected a good text, got a bad one");
    Exhibit exhibit = some_exhibit(1, 1, 2, 2);
    exhibit.text = text;
    exhibit.target = target;
    return exhibit;
  }

  httplib::Client client() const {
    httplib::Client one("127.0.0.1", server_.port());
    one.set_read_timeout(10);
    return one;
  }

  int status(const std::string& path) const {
    const auto answer = client().Get(path.c_str());
    return answer ? answer->status : 0;
  }

  // Sends raw bytes; returns what comes back at once. A client that has closed its side may get no answer.
  std::string raw(const std::string& bytes, bool done = true) const {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(server_.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{3, 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t sent = send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) break;
      at += static_cast<std::size_t>(sent);
    }
    if (done) shutdown(socket, SHUT_WR);
    std::string answer(4096, '\0');
    const ssize_t got = recv(socket, answer.data(), answer.size(), 0);
    close(socket);
    answer.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return answer;
  }

  Server server_;
  std::thread thread_;
};

TEST_F(ExplorerServer, GivesThePageAndTheExhibit) {
  const auto page = client().Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_NE(page->body.find("connect-src 'self'"), std::string::npos);
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  const auto exhibit = client().Get("/api/exhibit");
  ASSERT_TRUE(exhibit);
  const Json json = Json::parse(exhibit->body);
  EXPECT_EQ(json["exhibit"]["layers"].size(), 2U);
  EXPECT_EQ(json["exhibit"]["tokens"][0][8], "q8");
}

TEST_F(ExplorerServer, GivesPartsOfMaps) {
  const std::vector<float> all = some_weights(2, 3, 9, 7);
  const auto answer = client().Get("/api/map?id=1&layer=1&head=2&top=2&bottom=5&left=1&right=7&height=100&width=100");
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(answer->get_header_value("X-Rows"), "3");
  EXPECT_EQ(answer->get_header_value("X-Cols"), "6");
  ASSERT_EQ(answer->body.size(), 2U * 18);
  for (std::size_t n = 0; n < 18; ++n) {
    const auto bits = static_cast<std::uint16_t>(static_cast<unsigned char>(answer->body[2 * n]) |
                                                 static_cast<unsigned char>(answer->body[2 * n + 1]) << 8);
    EXPECT_EQ(bits, to_float16(all[(5 * 9 + 2 + n / 6) * 7 + 1 + n % 6]).bits);
  }
  const auto row = client().Get("/api/row?id=1&layer=0&row=4");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->get_header_value("X-Rows"), "3");
  EXPECT_EQ(row->body.size(), 2U * 3 * 7);
  const auto head = client().Get("/api/head?id=1&layer=0&head=1");
  ASSERT_TRUE(head);
  EXPECT_GT(Json::parse(head->body)["entropy"].get<double>(), 0);
}

TEST_F(ExplorerServer, RefusesBadParameters) {
  for (const char* path :
       {"/api/map", "/api/map?id=1", "/api/head?id=1&layer=2&head=0", "/api/head?id=1&layer=0&head=3",
        "/api/head?id=1&layer=-1&head=0", "/api/head?id=1&layer=0&head=x", "/api/head?id=1&layer=0&head=0x1",
        "/api/head?id=1&layer=0&head=99999999999999999999", "/api/head?id=7&layer=0&head=0",
        "/api/row?id=1&layer=0&row=9", "/api/map?id=1&layer=0&head=0&top=5&bottom=5&left=0&right=7&height=9&width=9",
        "/api/map?id=1&layer=0&head=0&top=0&bottom=10&left=0&right=7&height=9&width=9",
        "/api/map?id=1&layer=0&head=0&top=0&bottom=9&left=0&right=7&height=4096&width=4096",
        "/api/map?id=1&layer=0&head=0&top=0&bottom=9&left=0&right=7&height=0&width=9", "/api/exhibit?id=abc"}) {
    const auto answer = client().Get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 400) << path;
    EXPECT_TRUE(Json::parse(answer->body)["error"].is_string()) << path;
  }
  EXPECT_EQ(status("/etc/passwd"), 404);
  EXPECT_EQ(status("/../../etc/passwd"), 404);
  EXPECT_EQ(status("/"), 200);
}

TEST_F(ExplorerServer, AnswersToItsOwnNameOnly) {
  const std::string port = ":" + std::to_string(server_.port());
  for (const std::string& host : {"evil.example" + port, std::string("127.0.0.1"), "127.0.0.1.evil.example" + port,
                                  std::string("evil.example"), std::string("localhost:1")}) {
    const auto answer = client().Get("/api/exhibit", httplib::Headers{{"Host", host}});
    ASSERT_TRUE(answer) << host;
    EXPECT_EQ(answer->status, 403) << host;
    EXPECT_EQ(answer->body.find("q8"), std::string::npos);
  }
  const auto own = client().Get("/", httplib::Headers{{"Host", "localhost" + port}});
  ASSERT_TRUE(own);
  EXPECT_EQ(own->status, 200);
  const auto foreign = client().Get("/", httplib::Headers{{"Origin", "http://evil.example"}});
  ASSERT_TRUE(foreign);
  EXPECT_EQ(foreign->status, 403);
  EXPECT_NE(raw("GET / HTTP/1.1\r\n\r\n", false).find("403"), std::string::npos);
}

TEST_F(ExplorerServer, RunsTextsAndKeepsTheLast) {
  const auto post = [&](const std::string& body, const char* type = "application/json") {
    const auto answer = client().Post("/api/run", body, type);
    return answer ? std::pair{answer->status, answer->body} : std::pair{0, std::string()};
  };
  const auto [good, body] = post(R"({"text": "<b>", "target": "x"})");
  EXPECT_EQ(good, 200);
  EXPECT_EQ(Json::parse(body)["id"], 2);
  EXPECT_EQ(Json::parse(body)["exhibit"]["text"], "<b>");
  const auto [bad, message] = post(R"({"text": "bad"})");
  EXPECT_EQ(bad, 400);
  EXPECT_NE(message.find("expected a good text"), std::string::npos);
  for (const char* broken :
       {"", "{", "[]", "3", R"({"text": 3})", R"({"target": "a"})", R"({"text": "a", "target": 1})"})
    EXPECT_EQ(post(broken).first, 400) << broken;
  EXPECT_EQ(post(R"({"text": "a"})", "text/plain").first, 400);
  EXPECT_EQ(post("{\"text\": \"" + std::string(1 << 19, 'a') + "\"}").first, 413);
  for (int n = 0; n < 12; ++n) EXPECT_EQ(post(R"({"text": "again"})").first, 200);
  EXPECT_EQ(status("/api/head?id=2&layer=0&head=0"), 400);   // gone
  EXPECT_EQ(status("/api/head?id=14&layer=0&head=0"), 200);  // the last
  EXPECT_EQ(status("/api/head?id=1&layer=0&head=0"), 200);   // the first
}

TEST_F(ExplorerServer, SurvivesGarbage) {
  std::string noise;
  std::uint32_t state = 5;
  for (int n = 0; n < 100000; ++n) noise += static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  for (const std::string& bytes :
       {std::string(), std::string("\r\n\r\n"), std::string("GET"), noise, std::string(200000, 'A'),
        "GET /" + std::string(100000, 'a') + " HTTP/1.1\r\n\r\n", std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("POST /api/run HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"),
        std::string("POST /api/run HTTP/1.1\r\nContent-Length: -1\r\n\r\n{}"),
        std::string("POST /api/run HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        std::string("GET /%00%zz%ff?id=%zz HTTP/1.1\r\nHost: \xff\r\n\r\n"),
        "GET / HTTP/1.1\r\nX: " + std::string(100000, 'x') + "\r\n\r\n"})
    raw(bytes);
  EXPECT_EQ(status("/"), 200);
}

TEST_F(ExplorerServer, ThreadsOfManyClients) {
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int n = 0; n < 12; ++n)
    clients.emplace_back([&, n] {
      for (int k = 0; k < 5; ++k)
        good += status("/api/head?id=1&layer=" + std::to_string(n % 2) + "&head=" + std::to_string(k % 3)) == 200;
    });
  for (std::thread& one : clients) one.join();
  EXPECT_EQ(good, 60);
}

TEST_F(ExplorerServer, ThePortIsTakenOnce) {
  try {
    const Server second({some_exhibit(1, 1, 1, 1), nullptr}, server_.port());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("port"), std::string::npos);
  }
}

TEST(ExplorerServerAlone, EndsWhenToldBefore) {
  Server server({some_exhibit(1, 1, 1, 1), nullptr}, 0);
  server.stop();
  server.run();
  EXPECT_NE(server.address().find("http://127.0.0.1:"), std::string::npos);
}

}  // namespace
}  // namespace rapt::explorer::test
