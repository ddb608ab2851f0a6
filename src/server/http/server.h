// An HTTP/1.1 server: listens, reads requests, hands them to a handler and writes its answers.
// A few threads serve all connections; none belongs to one.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/http/exchange.h"
#include "server/http/options.h"

namespace tutti::server {

class HttpListener;

class HttpServer {
 public:
  // Listens when it returns. UNAVAILABLE when the address cannot be bound; the message begins with
  // `name`. What the handler uses outlives the server.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, std::string name,
                                                   HttpHandler handler);
  ~HttpServer();  // as shutdown(now)

  int port() const;
  const std::string& endpoint() const { return endpoint_; }  // "127.0.0.1:8000"

  // Takes no new connections and requests, answers those in flight; those left at `deadline` are
  // cancelled. Returns when all are answered. Once.
  void shutdown(std::chrono::steady_clock::time_point deadline);

 private:
  HttpServer() = default;
  std::unique_ptr<HttpListener> listener_;
  std::string endpoint_;
};

}  // namespace tutti::server
