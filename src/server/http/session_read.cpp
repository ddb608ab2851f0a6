// The reading side of HttpSession.
#include <algorithm>
#include <limits>
#include <utility>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include "server/http/session.h"
#include "server/http/session_exchange.h"
#include "server/http/text.h"
#include "server/names.h"

namespace tutti::server {

namespace net = boost::asio;
namespace http = boost::beast::http;

namespace {

constexpr std::size_t kAlignment = 64;
// Read at once into a body whose length is known.
constexpr std::size_t kReadStep = std::size_t{4} << 20;

std::string too_large(std::size_t limit) {
  return str_cat("the request's body is above ", limit,
                 " bytes, the limit of --http-max-input-size");
}

}  // namespace

void HttpSession::wait_for_request() {
  set_state(State::kIdle);
  if (buffer_.size() > 0) return read_head();
  stream_.expires_after(sessions_->limits.idle_time);
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](Error error, std::size_t bytes) {
                            if (error) return self->close_now();
                            self->buffer_.commit(bytes);
                            self->read_head();
                          });
}

void HttpSession::read_head() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(sessions_->limits.max_head_bytes));
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // checked here, where the answer can say so
  stream_.expires_after(sessions_->limits.head_time);
  http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](Error error, std::size_t) { self->on_head(error); });
}

void HttpSession::on_head(Error error) {
  if (error) {
    const bool is_syntax = error.category() == make_error_code(http::error::bad_method).category();
    if (!is_syntax || error == http::error::end_of_stream ||
        error == http::error::partial_message) {
      return close_now();
    }
    set_state(State::kReading);
    keeps_alive_ = false;
    if (error == http::error::header_limit) {
      return refuse(
          431, str_cat("the request's head is above ", sessions_->limits.max_head_bytes, " bytes"));
    }
    return refuse(400, str_cat("malformed HTTP: ", error.message()));
  }
  set_state(State::kReading);
  const auto& message = parser_->get();
  {
    const std::lock_guard lock(sessions_->mutex);
    keeps_alive_ = message.keep_alive() && !sessions_->is_stopping;
  }
  is_head_request_ = message.method() == http::verb::head;
  accepts_chunks_ = message.version() >= 11;
  request_ = HttpRequest();
  request_.arrived = std::chrono::steady_clock::now();
  request_.method = std::string(message.method_string());
  const std::string target(message.target());
  request_.path = target.substr(0, target.find('?'));
  for (const auto& field : message) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  answer_coding_ = choose_coding(request_.header("Accept-Encoding"));
  begin_body();
}

void HttpSession::begin_body() {
  const Result<Coding> coding = parse_content_encoding(request_.header("Content-Encoding"));
  if (!coding.ok()) return refuse(415, coding.status().message());
  coding_ = *coding;
  body_ = std::make_shared<Body>();
  received_ = 0;
  chunks_ = 0;
  too_much_.clear();
  body_began_ = std::chrono::steady_clock::now();
  const auto length = parser_->content_length();
  if (length && *length > sessions_->limits.max_body_bytes) {
    return refuse(400, too_large(sessions_->limits.max_body_bytes));
  }
  const std::string_view expects = request_.header("Expect");
  if (expects.empty()) return read_body();
  if (!equals_ignoring_case(expects, "100-continue")) {
    return refuse(417, str_cat("Expect '", printable(expects), "' is not known"));
  }
  send_continue();
}

void HttpSession::send_continue() {
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  stream_.expires_after(sessions_->limits.stall_time);
  net::async_write(stream_, net::buffer(kContinue.data(), kContinue.size()),
                   [self = shared_from_this()](Error error, std::size_t) {
                     if (error) return self->close_now();
                     self->read_body();
                   });
}

void HttpSession::read_body() {
  if (parser_->chunked()) return read_chunks();
  begin_sized_body(parser_->content_length() ? *parser_->content_length() : 0);
}

void HttpSession::begin_sized_body(std::size_t size) {
  if (size == 0) return on_body();
  if (!body_->buffer.resize(size + kAlignment)) {
    return refuse(503, str_cat("no memory left for a body of ", size, " bytes"));
  }
  body_->size = size;
  const auto head = parse_size(request_.header("Inference-Header-Content-Length")).value_or(0);
  const auto address = reinterpret_cast<std::uintptr_t>(body_->buffer.data());
  body_->begin = (kAlignment - (address + head) % kAlignment) % kAlignment;
  const std::size_t there = std::min(size, buffer_.size());
  net::buffer_copy(net::buffer(body_->data(), there), buffer_.data());
  buffer_.consume(there);
  received_ = there;
  read_sized_body();
}

// False when the client is too slow to go on with.
bool HttpSession::set_body_time() {
  const HttpLimits& limits = sessions_->limits;
  const TimePoint now = std::chrono::steady_clock::now();
  const TimePoint latest =
      body_began_ + limits.stall_time +
      std::chrono::milliseconds(received_ * 1000 / limits.slowest_bytes_per_second);
  stream_.expires_at(std::min(now + limits.stall_time, latest));
  return now < latest;
}

void HttpSession::read_sized_body() {
  if (received_ == body_->size) return on_body();
  if (!set_body_time()) return close_now();
  const std::size_t step = std::min(kReadStep, body_->size - received_);
  stream_.async_read_some(net::buffer(body_->data() + received_, step),
                          [self = shared_from_this()](Error error, std::size_t bytes) {
                            if (error) return self->close_now();
                            self->received_ += bytes;
                            self->read_sized_body();
                          });
}

void HttpSession::read_chunks() {
  const HttpLimits& limits = sessions_->limits;
  const auto fail = [this](Error& error, std::string why) {
    too_much_ = std::move(why);
    error = http::error::body_limit;
  };
  // The parser keeps references only.
  on_chunk_head_ = [this, limits, fail](std::uint64_t size, auto, Error& error) {
    if (size > 0 && ++chunks_ > limits.max_chunks) {
      fail(error, str_cat("the request's body has more than ", limits.max_chunks,
                          " chunks, expected fewer or larger ones"));
    } else if (size > limits.max_body_bytes - received_) {
      fail(error, too_large(limits.max_body_bytes));
    }
  };
  on_chunk_body_ = [this, fail](std::uint64_t, auto text, Error& error) {
    if (!body_->buffer.append(text.data(), text.size())) {
      fail(error, "no memory left for the request's body");
    }
    received_ += text.size();
    return text.size();
  };
  parser_->on_chunk_header(on_chunk_head_);
  parser_->on_chunk_body(on_chunk_body_);
  on_chunks(Error());
}

void HttpSession::on_chunks(Error error) {
  if (!too_much_.empty()) return refuse(400, too_much_);
  if (error) {
    const bool is_syntax = error.category() == make_error_code(http::error::bad_chunk).category();
    if (!is_syntax || error == http::error::partial_message) return close_now();
    return refuse(400, str_cat("malformed HTTP: ", error.message()));
  }
  if (parser_->is_done()) {
    body_->size = received_;
    return on_body();
  }
  if (!set_body_time()) return close_now();
  http::async_read_some(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](Error failed, std::size_t) { self->on_chunks(failed); });
}

void HttpSession::on_body() {
  parser_.reset();
  stream_.expires_never();
  if (coding_ == Coding::kIdentity || body_->size == 0) return handle(body_->span(), body_);
  Result<ByteBuffer> plain = decompress(body_->span(), coding_, sessions_->limits.max_body_bytes);
  body_.reset();
  if (!plain.ok()) return refuse(http_status(plain.status().code()), plain.status().message());
  const auto owner = std::make_shared<ByteBuffer>(*std::move(plain));
  handle(owner->span(), owner);
}

void HttpSession::handle(std::span<const std::byte> body, std::shared_ptr<const void> owner) {
  set_state(State::kHandling);
  request_.body = body;
  request_.owner = std::move(owner);
  body_.reset();
  cancel_ = std::stop_source();
  is_streaming_ = is_stream_over_ = false;
  const std::uint64_t number = ++exchange_number_;
  auto exchange = std::make_shared<SessionExchange>(shared_from_this(), number, std::move(request_),
                                                    cancel_.get_token());
  watch_client();
  sessions_->handler(std::move(exchange));
}

// A connection that ends while its request is being handled takes the request with it.
void HttpSession::watch_client() {
  stream_.socket().async_wait(net::ip::tcp::socket::wait_read,
                              [self = shared_from_this(), number = exchange_number_](Error error) {
                                if (error || !self->is_current(number)) return;
                                char byte = 0;
                                Error closed;
                                self->stream_.socket().non_blocking(true, closed);
                                const std::size_t there = self->stream_.socket().receive(
                                    net::buffer(&byte, 1), net::socket_base::message_peek, closed);
                                // Bytes are the next request, already: read when this one is
                                // answered.
                                if (there == 0 && closed != net::error::would_block)
                                  self->cancel_.request_stop();
                              });
}

void HttpSession::refuse(int status, const std::string& message) {
  parser_.reset();
  body_.reset();
  write_response(error_response(status, message), true);
}

}  // namespace tutti::server
