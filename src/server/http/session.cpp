#include "server/http/session.h"

#include <utility>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include "server/http/session_exchange.h"

namespace tutti::server {

namespace net = boost::asio;
using net::ip::tcp;

HttpSession::HttpSession(std::shared_ptr<net::io_context> context,
                         std::shared_ptr<HttpSessions> sessions, tcp::socket socket)
    : context_(std::move(context)), sessions_(std::move(sessions)), stream_(std::move(socket)) {}

HttpSession::~HttpSession() {
  const std::lock_guard lock(sessions_->mutex);
  sessions_->open.erase(this);
}

void HttpSession::start(std::shared_ptr<net::io_context> context,
                        std::shared_ptr<HttpSessions> sessions, tcp::socket socket) {
  Error ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  // Finds peers that vanished without a word.
  socket.set_option(net::socket_base::keep_alive(true), ignored);
  const std::shared_ptr<HttpSession> session(
      new HttpSession(std::move(context), sessions, std::move(socket)));
  {
    const std::lock_guard lock(sessions->mutex);
    if (sessions->is_stopping || sessions->open.size() >= sessions->limits.max_connections) return;
    sessions->open.insert(session.get());
  }
  net::dispatch(session->stream_.get_executor(), [session] { session->wait_for_request(); });
}

// Counts the sessions that owe an answer: shutdown() waits for these.
void HttpSession::set_state(State state) {
  const auto is_busy = [](State s) {
    return s == State::kReading || s == State::kHandling || s == State::kWriting;
  };
  const bool was_busy = is_busy(state_);
  state_ = state;
  if (was_busy == is_busy(state)) return;
  const std::lock_guard lock(sessions_->mutex);
  if (was_busy) {
    --sessions_->busy;
    sessions_->changed.notify_all();
  } else {
    ++sessions_->busy;
  }
}

void HttpSession::close_now() {
  if (state_ == State::kClosed) return;
  if (state_ == State::kHandling) {
    // Nobody waits for the answer any more; it is busy until the handler has come back, though.
    cancel_.request_stop();
    Error ignored;
    stream_.socket().close(ignored);
    return;
  }
  set_state(State::kClosed);
  stream_.close();
}

void HttpSession::close_if_idle() {
  net::post(stream_.get_executor(), [self = shared_from_this()] {
    self->keeps_alive_ = false;
    if (self->state_ == State::kIdle) self->close_now();
  });
}

void HttpSession::give_up() {
  net::post(stream_.get_executor(), [self = shared_from_this()] {
    self->keeps_alive_ = false;
    if (self->state_ == State::kHandling) {
      self->cancel_.request_stop();
    } else {
      self->close_now();
    }
  });
}

void HttpSession::close() {
  net::post(stream_.get_executor(), [self = shared_from_this()] { self->close_now(); });
}

}  // namespace tutti::server
