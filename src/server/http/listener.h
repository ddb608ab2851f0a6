// The sockets' side of HttpServer: threads, acceptor, and the set of open connections.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/status.h"
#include "server/http/exchange.h"
#include "server/http/options.h"

namespace tutti::server {

class HttpSession;

// What sessions share. Thread safe. Outlives the listener as long as a session needs it.
struct HttpSessions {
  explicit HttpSessions(HttpLimits session_limits, HttpHandler session_handler)
      : limits(session_limits), handler(std::move(session_handler)) {}

  const HttpLimits limits;
  const HttpHandler handler;

  std::mutex mutex;
  std::condition_variable changed;
  std::set<HttpSession*> open;  // under mutex; a session takes itself out
  std::size_t busy = 0;         // under mutex: sessions between a request's head and its answer
  bool is_stopping = false;     // under mutex: no further requests
};

class HttpListener {
 public:
  HttpListener(const HttpOptions& options, HttpHandler handler);
  ~HttpListener();

  Status listen(const HttpOptions& options);
  int port() const { return port_; }
  void shutdown(std::chrono::steady_clock::time_point deadline);

 private:
  void accept();
  void on_accept(boost::system::error_code error, boost::asio::ip::tcp::socket socket);
  template <class Call>
  void for_each_session(Call call);

  const std::shared_ptr<boost::asio::io_context> context_;
  const std::shared_ptr<HttpSessions> sessions_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer retry_;
  std::vector<std::thread> threads_;
  int port_ = 0;
};

}  // namespace tutti::server
