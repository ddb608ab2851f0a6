// The writing side of HttpSession.
#include <charconv>
#include <utility>

#include <boost/asio/write.hpp>
#include <boost/beast/http/status.hpp>

#include "server/http/session.h"

namespace tutti::server {

namespace net = boost::asio;
namespace http = boost::beast::http;

namespace {

net::const_buffer as_buffer(std::span<const std::byte> bytes) {
  return {bytes.data(), bytes.size()};
}

std::string status_line(int status) {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return str_cat("HTTP/1.1 ", status, " ", std::string_view(reason.data(), reason.size()), "\r\n");
}

std::string hex(std::size_t value) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value, 16).ptr;
  return std::string(digits, end);
}

// Discarded after an answer that came before the request's end.
constexpr std::chrono::seconds kLingering{10};

}  // namespace

void HttpSession::respond(std::uint64_t exchange, HttpResponse response) {
  if (!is_current(exchange)) return;
  if (!stream_.socket().is_open()) return set_state(State::kClosed);
  write_response(std::move(response), !keeps_alive_);
}

void HttpSession::write_response(HttpResponse response, bool closes) {
  set_state(State::kWriting);
  keeps_alive_ = !closes;
  response_ = std::move(response);
  std::vector<net::const_buffer> buffers{{}, net::buffer(response_.text)};
  for (const auto& piece : response_.pieces) buffers.push_back(as_buffer(piece));
  head_ = status_line(response_.status);
  std::size_t length = net::buffer_size(buffers);
  if (response_.is_compressible && answer_coding_ != Coding::kIdentity && length > 0) {
    std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(response_.text))};
    pieces.insert(pieces.end(), response_.pieces.begin(), response_.pieces.end());
    if (Result<ByteBuffer> packed = compress(pieces, answer_coding_); packed.ok()) {
      compressed_ = *std::move(packed);
      length = compressed_.size();
      buffers = {{}, as_buffer(compressed_.span())};
      head_ += str_cat("Content-Encoding: ", coding_name(answer_coding_), "\r\n");
    }
  }
  if (!response_.content_type.empty()) {
    head_ += str_cat("Content-Type: ", response_.content_type, "\r\n");
  }
  for (const auto& [name, value] : response_.headers) head_ += str_cat(name, ": ", value, "\r\n");
  head_ += connection_header();
  head_ += str_cat("Content-Length: ", length, "\r\n\r\n");
  if (is_head_request_) buffers.resize(1);
  buffers.front() = net::buffer(head_);
  unwritten_.emplace(std::move(buffers));
  write_some();
}

std::string_view HttpSession::connection_header() const {
  if (!keeps_alive_) return "Connection: close\r\n";
  return accepts_chunks_ ? "" : "Connection: keep-alive\r\n";  // HTTP/1.0 wants to be told
}

void HttpSession::write_some() {
  if (net::buffer_size(*unwritten_) == 0) return on_written();
  stream_.expires_after(sessions_->limits.stall_time);
  stream_.async_write_some(*unwritten_,
                           [self = shared_from_this()](Error error, std::size_t bytes) {
                             if (error) {
                               self->cancel_.request_stop();
                               return self->close_now();
                             }
                             self->unwritten_->consume(bytes);
                             self->write_some();
                           });
}

void HttpSession::on_written() {
  unwritten_.reset();
  written_parts_.clear();
  if (is_streaming_ && !(is_stream_over_ && parts_.empty())) {
    // Handling again until the next part or the end.
    set_state(State::kHandling);
    if (!stream_.socket().is_open()) return close_now();
    stream_.expires_never();
    if (!parts_.empty() || is_stream_over_) send_part(exchange_number_, "");
    return;
  }
  is_streaming_ = false;
  response_ = HttpResponse();  // what it owned may go
  compressed_ = ByteBuffer();
  ++exchange_number_;
  if (keeps_alive_) return wait_for_request();
  linger();
}

void HttpSession::begin_stream(std::uint64_t exchange, std::string content_type) {
  if (!is_current(exchange)) return;
  is_streaming_ = true;
  if (!accepts_chunks_) keeps_alive_ = false;
  std::string head =
      str_cat(status_line(200), "Content-Type: ", content_type, "\r\nCache-Control: no-cache\r\n",
              accepts_chunks_ ? "Transfer-Encoding: chunked\r\n" : "", connection_header(), "\r\n");
  parts_.push_back(std::move(head));
}

void HttpSession::send_part(std::uint64_t exchange, std::string part) {
  if (exchange != exchange_number_ || !is_streaming_ || state_ == State::kClosed) return;
  if (!part.empty() && !is_head_request_) {
    parts_.push_back(accepts_chunks_ ? str_cat(hex(part.size()), "\r\n", part, "\r\n")
                                     : std::move(part));
  }
  if (state_ != State::kHandling || parts_.empty()) return;  // after what is being written
  set_state(State::kWriting);
  written_parts_ = std::exchange(parts_, {});
  std::vector<net::const_buffer> buffers;
  for (const std::string& written : written_parts_) buffers.push_back(net::buffer(written));
  unwritten_.emplace(std::move(buffers));
  write_some();
}

void HttpSession::end_stream(std::uint64_t exchange) {
  if (exchange != exchange_number_ || !is_streaming_ || is_stream_over_) return;
  is_stream_over_ = true;
  if (state_ == State::kClosed) return;
  if (!stream_.socket().is_open()) return set_state(State::kClosed);
  if (accepts_chunks_) parts_.emplace_back("0\r\n\r\n");
  if (state_ == State::kHandling && parts_.empty()) return on_written();
  send_part(exchange, "");
}

// Closing at once would make the kernel tell a client that still sends of a reset, and the answer
// could be lost: the end is announced, and what still comes is read and dropped for a while.
void HttpSession::linger() {
  set_state(State::kLingering);
  Error ignored;
  stream_.socket().shutdown(net::ip::tcp::socket::shutdown_send, ignored);
  lingers_until_ = std::chrono::steady_clock::now() + kLingering;
  buffer_.clear();
  drain();
}

void HttpSession::drain() {
  if (std::chrono::steady_clock::now() >= lingers_until_) return close_now();
  stream_.expires_at(lingers_until_);
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(std::size_t{1} << 16),
                          [self = shared_from_this()](Error error, std::size_t) {
                            if (error) return self->close_now();
                            self->drain();
                          });
}

}  // namespace tutti::server
