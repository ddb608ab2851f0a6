#include "server/http/listener.h"

#include <utility>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include "server/http/server.h"
#include "server/http/session.h"

namespace tutti::server {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;
using ReusePort = net::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

HttpListener::HttpListener(const HttpOptions& options, HttpHandler handler)
    : context_(std::make_shared<net::io_context>(options.threads)),
      sessions_(std::make_shared<HttpSessions>(options.limits, std::move(handler))),
      work_(context_->get_executor()),
      acceptor_(net::make_strand(*context_)),
      retry_(acceptor_.get_executor()) {}

Status HttpListener::listen(const HttpOptions& options) {
  error_code error;
  const auto fail = [&](const char* what) {
    return unavailable("cannot ", what, " ", options.address, ":", options.port, ": ",
                       error.message());
  };
  tcp::resolver resolver(*context_);
  const auto found = resolver.resolve(options.address, std::to_string(options.port),
                                      tcp::resolver::passive, error);
  if (error || found.empty()) return fail("find");
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (error) return fail("open");
  acceptor_.set_option(net::socket_base::reuse_address(true), error);
  if (options.reuses_port) acceptor_.set_option(ReusePort(true), error);
  if (error) return fail("set up");
  acceptor_.bind(endpoint, error);
  if (error) return fail("listen on");
  acceptor_.listen(net::socket_base::max_listen_connections, error);
  if (error) return fail("listen on");
  port_ = acceptor_.local_endpoint().port();
  net::dispatch(acceptor_.get_executor(), [this] { accept(); });
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this] { context_->run(); });
  }
  return Status();
}

void HttpListener::accept() {
  acceptor_.async_accept(net::make_strand(*context_), [this](error_code error, tcp::socket socket) {
    on_accept(error, std::move(socket));
  });
}

void HttpListener::on_accept(error_code error, tcp::socket socket) {
  if (!acceptor_.is_open()) return;
  if (error) {
    // No descriptors left, most likely: others will close theirs.
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](error_code cancelled) {
      if (!cancelled && acceptor_.is_open()) accept();
    });
    return;
  }
  HttpSession::start(context_, sessions_, std::move(socket));
  accept();
}

template <class Call>
void HttpListener::for_each_session(Call call) {
  std::vector<std::shared_ptr<HttpSession>> open;
  {
    const std::lock_guard lock(sessions_->mutex);
    for (HttpSession* session : sessions_->open) {
      // One that is being destroyed waits for the mutex to take itself out.
      if (auto held = session->weak_from_this().lock()) open.push_back(std::move(held));
    }
  }
  for (const auto& session : open) call(*session);
}

void HttpListener::shutdown(std::chrono::steady_clock::time_point deadline) {
  if (threads_.empty()) return;
  {
    const std::lock_guard lock(sessions_->mutex);
    sessions_->is_stopping = true;
  }
  net::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
  });
  for_each_session([](HttpSession& session) { session.close_if_idle(); });
  const auto is_done = [this] { return sessions_->busy == 0; };
  std::unique_lock lock(sessions_->mutex);
  if (!sessions_->changed.wait_until(lock, deadline, is_done)) {
    lock.unlock();
    for_each_session([](HttpSession& session) { session.give_up(); });
    lock.lock();
    sessions_->changed.wait(lock, is_done);
  }
  lock.unlock();
  // Not stop(): reads that wait would keep their sessions, and these the context.
  for_each_session([](HttpSession& session) { session.close(); });
  work_.reset();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

HttpListener::~HttpListener() { shutdown(std::chrono::steady_clock::now()); }

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options, std::string name,
                                                      HttpHandler handler) {
  std::unique_ptr<HttpServer> server(new HttpServer());
  server->listener_ = std::make_unique<HttpListener>(options, std::move(handler));
  if (const Status status = server->listener_->listen(options); !status.ok()) {
    return status.with_context(name);
  }
  const bool is_ipv6 = options.address.find(':') != std::string::npos;
  server->endpoint_ =
      str_cat(is_ipv6 ? "[" : "", options.address, is_ipv6 ? "]:" : ":", server->port());
  return server;
}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return listener_->port(); }

void HttpServer::shutdown(std::chrono::steady_clock::time_point deadline) {
  listener_->shutdown(deadline);
}

}  // namespace tutti::server
