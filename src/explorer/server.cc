#include "explorer/server.h"

#include <atomic>
#include <charconv>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "explorer/limited_server.h"
#include "explorer/page.h"
#include "rapt/error.h"
#include "tensor/json_text.h"

namespace rapt::explorer {
namespace {

using httplib::Request;
using httplib::Response;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBody = std::size_t{1} << 18;
constexpr std::size_t kMostKept = 8;                          // exhibits; each open page uses one
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 22;  // of one answer

// A bad request; the message says why.
struct BadRequest {
  std::string message;
};

std::int64_t number(const Request& request, const char* name, std::int64_t low, std::int64_t high) {
  const std::string text = request.get_param_value(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw BadRequest{std::string(name) + ": expected a whole number from " + std::to_string(low) + " to " +
                     std::to_string(high) + ", got '" + text + "'"};
  return value;
}

// An exhibit, and what was computed of it.
class Shown {
 public:
  Shown(std::int64_t id, Exhibit exhibit) : id_(id), exhibit_(std::move(exhibit)) {
    for (const Layer& layer : exhibit_.layers)
      summaries_.emplace_back(static_cast<std::size_t>(layer.weights->heads()));
  }

  std::int64_t id() const { return id_; }
  const Exhibit& exhibit() const { return exhibit_; }

  const HeadSummary& summary(std::size_t layer, std::int64_t head) {
    const std::lock_guard lock(mutex_);
    std::optional<HeadSummary>& entry = summaries_[layer][static_cast<std::size_t>(head)];
    if (!entry) entry = summarize(*exhibit_.layers[layer].weights, head, exhibit_.layers[layer].grid);
    return *entry;
  }

 private:
  std::int64_t id_;
  Exhibit exhibit_;
  std::mutex mutex_;
  std::vector<std::vector<std::optional<HeadSummary>>> summaries_;
};

}  // namespace

struct Server::Parts {
  LimitedServer http;
  std::function<Exhibit(const std::string&, const std::string&)> make;
  std::string page;
  int port = 0;
  std::atomic<bool> serving{false};
  std::atomic<bool> stopped{false};
  std::mutex mutex;  // of the list
  std::deque<std::shared_ptr<Shown>> shown;
  std::int64_t next_id = 1;
  std::mutex engine;  // one computation at a time: each uses all processors

  std::shared_ptr<Shown> add(Exhibit exhibit) {
    const std::lock_guard lock(mutex);
    shown.push_back(std::make_shared<Shown>(next_id++, std::move(exhibit)));
    // The first one stays: a page begins with it.
    if (shown.size() > kMostKept) shown.erase(shown.begin() + 1);
    return shown.back();
  }

  std::shared_ptr<Shown> find(const Request& request) {
    const std::int64_t id = number(request, "id", 1, std::numeric_limits<std::int64_t>::max());
    const std::lock_guard lock(mutex);
    for (const std::shared_ptr<Shown>& one : shown)
      if (one->id() == id) return one;
    throw BadRequest{"id: expected a text that is still kept, got one that is not; run it again"};
  }

  bool is_own_host(const std::string& host) const {
    const std::string suffix = ":" + std::to_string(port);
    return host == "127.0.0.1" + suffix || host == "localhost" + suffix || host == "[::1]" + suffix;
  }

  bool allowed(const Request& request) const {
    if (request.get_header_value_count("Host") != 1 || !is_own_host(request.get_header_value("Host"))) return false;
    const std::string origin = request.get_header_value("Origin");
    return origin.empty() || (origin.starts_with("http://") && is_own_host(origin.substr(7)));
  }

  static void send(Response& response, const Json& json) {
    response.set_content(json.dump(-1, ' ', false, Json::error_handler_t::replace), "application/json");
  }

  static void send_numbers(Response& response, std::int64_t rows, std::int64_t cols, const std::vector<float>& cells) {
    response.set_header("X-Rows", std::to_string(rows));
    response.set_header("X-Cols", std::to_string(cols));
    response.set_content(half_bytes(cells.data(), static_cast<std::int64_t>(cells.size())), "application/octet-stream");
  }

  static void fail(Response& response, int status, const std::string& message) {
    response.status = status;
    send(response, {{"error", message}});
  }

  // A handler whose errors become answers.
  template <class F>
  static httplib::Server::Handler guarded(F handler) {
    return [handler](const Request& request, Response& response) {
      try {
        handler(request, response);
      } catch (const BadRequest& bad) {
        fail(response, 400, bad.message);
      } catch (const Error& error) {
        fail(response, 400, error.what());
      } catch (const std::bad_alloc&) {
        fail(response, 500, "out of memory");
      }
    };
  }

  struct Place {
    std::shared_ptr<Shown> shown;
    std::size_t layer = 0;
    const Layer* data = nullptr;
  };
  Place place(const Request& request) {
    Place p{find(request), 0, nullptr};
    const auto layers = static_cast<std::int64_t>(p.shown->exhibit().layers.size());
    p.layer = static_cast<std::size_t>(number(request, "layer", 0, layers - 1));
    p.data = &p.shown->exhibit().layers[p.layer];
    return p;
  }

  void routes() {
    http.Get("/",
             [this](const Request&, Response& response) { response.set_content(page, "text/html; charset=utf-8"); });
    http.Get("/api/exhibit", guarded([this](const Request& request, Response& response) {
               std::shared_ptr<Shown> one;
               if (request.has_param("id")) one = find(request);
               else {
                 const std::lock_guard lock(mutex);
                 one = shown.front();
               }
               send(response, {{"id", one->id()}, {"exhibit", describe(one->exhibit())}});
             }));
    http.Get("/api/head", guarded([this](const Request& request, Response& response) {
               const Place p = place(request);
               const std::int64_t head = number(request, "head", 0, p.data->weights->heads() - 1);
               const std::lock_guard lock(engine);
               send(response, describe(p.shown->summary(p.layer, head)));
             }));
    http.Get("/api/map", guarded([this](const Request& request, Response& response) { map(request, response); }));
    http.Get("/api/row", guarded([this](const Request& request, Response& response) { row(request, response); }));
    http.Post("/api/run", guarded([this](const Request& request, Response& response) { live(request, response); }));
  }

  // Part of a head's map, reduced to the screen's resolution.
  void map(const Request& request, Response& response) {
    const Place p = place(request);
    const Weights& weights = *p.data->weights;
    const std::int64_t head = number(request, "head", 0, weights.heads() - 1);
    Part part;
    part.top = number(request, "top", 0, weights.queries() - 1);
    part.bottom = number(request, "bottom", part.top + 1, weights.queries());
    part.left = number(request, "left", 0, weights.keys() - 1);
    part.right = number(request, "right", part.left + 1, weights.keys());
    const std::int64_t height = number(request, "height", 1, 4096);
    const std::int64_t width = number(request, "width", 1, kMostNumbers / height);
    const std::lock_guard lock(engine);
    const Pooled pooled = pool(weights, head, part, height, width);
    send_numbers(response, pooled.height, pooled.width, pooled.cells);
  }

  // One query's weights, for every head of the layer.
  void row(const Request& request, Response& response) {
    const Place p = place(request);
    const Weights& weights = *p.data->weights;
    const std::int64_t row = number(request, "row", 0, weights.queries() - 1);
    std::vector<float> cells(static_cast<std::size_t>(weights.heads() * weights.keys()));
    const std::lock_guard lock(engine);
    for (std::int64_t h = 0; h < weights.heads(); ++h) weights.rows(h, row, row + 1, cells.data() + h * weights.keys());
    send_numbers(response, weights.heads(), weights.keys(), cells);
  }

  void live(const Request& request, Response& response) {
    if (!make) throw BadRequest{"text: expected a page of a run, got one of arrays"};
    // A form of another page cannot send this type.
    if (!request.get_header_value("Content-Type").starts_with("application/json"))
      throw BadRequest{"expected a body of type application/json, got another"};
    const Json body = parse_json<Json>("body", request.body);
    if (!body.is_object() || !body.contains("text") || !body["text"].is_string() ||
        (body.contains("target") && !body["target"].is_string()))
      throw BadRequest{"expected {\"text\": \"…\"} and, if wanted, \"target\", got something else"};
    std::shared_ptr<Shown> one;
    {
      const std::lock_guard lock(engine);
      one = add(make(body["text"].get<std::string>(), body.value("target", std::string())));
    }
    send(response, {{"id", one->id()}, {"exhibit", describe(one->exhibit())}});
  }
};

Server::Server(Served served, int port) : parts_(std::make_unique<Parts>()) {
  Parts& p = *parts_;
  p.make = std::move(served.run);
  p.page = served_page(static_cast<bool>(p.make));
  p.add(std::move(served.first));
  // Two servers on one port would share its requests.
  p.http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  p.http.set_payload_max_length(kMostBody);
  p.http.set_keep_alive_timeout(2);
  p.http.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"X-Frame-Options", "DENY"},
                              {"Cache-Control", "no-store"}});
  p.http.set_pre_routing_handler([&p](const Request& request, Response& response) {
    if (!p.allowed(request)) {
      Parts::fail(response, 403, "expected this server's own address, got another");
    } else if (request.has_header("Content-Encoding")) {
      // Its limit would count compressed bytes, 200 KB of which can be a gigabyte.
      Parts::fail(response, 415, "expected a body as it is, got an encoded one");
    } else {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    return httplib::Server::HandlerResponse::Handled;
  });
  p.http.set_exception_handler([](const Request&, Response& response, const std::exception_ptr&) {
    Parts::fail(response, 500, "the request could not be answered");
  });
  p.routes();
  if (port == 0) p.port = p.http.bind_to_any_port("127.0.0.1");
  else p.port = p.http.bind_to_port("127.0.0.1", port) ? port : -1;
  if (p.port <= 0) throw Error("explore: port: expected one that is free, or 0 for any, got " + std::to_string(port));
  p.http.widen_queue();
}

Server::~Server() { stop(); }

int Server::port() const { return parts_->port; }

std::string Server::address() const { return "http://127.0.0.1:" + std::to_string(parts_->port) + "/"; }

void Server::run() {
  parts_->serving = true;
  if (!parts_->stopped) parts_->http.listen_after_bind();
  parts_->serving = false;
}

void Server::stop() {
  parts_->stopped = true;
  parts_->http.abandon();
  // The library ignores a stop that comes before it listens.
  while (parts_->serving) {
    parts_->http.stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace rapt::explorer
