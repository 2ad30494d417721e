#pragma once

#include <functional>
#include <memory>
#include <string>

#include "explorer/exhibit.h"

namespace rapt::explorer {

// What a server shows: an exhibit to begin with, and a way to make others from texts, or none.
struct Served {
  Exhibit first;
  std::function<Exhibit(const std::string& text, const std::string& target)> run;
};

// The explorer page and the rows it asks for, on the loopback interface only. Requests must name that interface as
// their host, so that no other web page can reach it under a name of its own.
class Server {
 public:
  // port 0: any that is free. Throws where the port cannot be had.
  Server(Served served, int port);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  std::string address() const;  // "http://127.0.0.1:8080/"
  // Answers until stop(), which another thread may call, also before; it returns when the last answer is given.
  void run();
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rapt::explorer
