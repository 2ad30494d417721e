#pragma once

#include <functional>
#include <memory>
#include <string>

#include "explorer/exhibit.h"

namespace rapt::explorer {

// What a server shows: an initial exhibit, and optionally a way to make others from texts.
struct Served {
  Exhibit first;
  std::function<Exhibit(const std::string& text, const std::string& target)> run;
};

// Serves the explorer page and the rows it requests, on the loopback interface only. Requests must name that interface
// as their host, so that no other web page can reach it under another name.
class Server {
 public:
  // port 0: any free one. Throws if the port is taken.
  Server(Served served, int port);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  std::string address() const;  // "http://127.0.0.1:8080/"
  // Serves until stop(), which another thread may call at any time; returns after the last answer.
  void run();
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rapt::explorer
