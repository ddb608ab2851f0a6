// One request over HTTP and its answer, free of sockets: what handlers see.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/infer.h"

namespace tutti::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // as sent, without the query
  HttpHeaders headers;
  std::span<const std::byte> body;    // whole, without chunks and content coding
  std::shared_ptr<const void> owner;  // keeps `body` alive
  TimePoint arrived;                  // when its head was there

  // The first header of that name, whatever its case; "" where there is none.
  std::string_view header(std::string_view name) const;
  std::string_view text() const {
    return {reinterpret_cast<const char*>(body.data()), body.size()};
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;  // besides those of framing and content
  std::string text;     // the body: this, then the pieces
  std::vector<std::span<const std::byte>> pieces;
  std::shared_ptr<const void> owner;  // keeps `pieces` alive
  bool is_compressible = false;       // where the client accepts it
};

// Answered once, by respond() or by a stream; from any thread. The connection goes on afterwards.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;
  // Requested when the client has gone or the server's time is over.
  virtual std::stop_token cancel() const = 0;

  virtual void respond(HttpResponse response) = 0;
  // `make` runs on a thread of the connection's: for answers that take time to write down.
  virtual void respond_later(std::function<HttpResponse()> make) = 0;

  // A body that comes in parts: status 200, then each part as it is there.
  virtual void begin_stream(std::string content_type) = 0;
  virtual void send(std::string part) = 0;
  virtual void end_stream() = 0;
};

using ExchangePtr = std::shared_ptr<HttpExchange>;
// Must not block: it runs on a thread that serves other connections too.
using HttpHandler = std::function<void(ExchangePtr)>;

// {"error": "..."} under the status that Triton gives the code.
HttpResponse error_response(const Status& status);
HttpResponse error_response(int http_status, std::string_view message);
int http_status(StatusCode code);

}  // namespace tutti::server
