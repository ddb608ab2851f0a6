// One connection: reads a request, hands it on, writes the answer, and again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/buffers_suffix.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include "server/byte_buffer.h"
#include "server/http/compression.h"
#include "server/http/exchange.h"
#include "server/http/listener.h"

namespace tutti::server {

class SessionExchange;

// Everything runs on the connection's strand but start(), close_if_idle(), give_up() and close().
// Owned by whatever it waits for: a read, a write, or the exchange in a handler's hands.
//
//   idle --head--> reading --body--> handling --answer--> writing --> idle or closed
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  static void start(std::shared_ptr<boost::asio::io_context> context,
                    std::shared_ptr<HttpSessions> sessions, boost::asio::ip::tcp::socket socket);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  void close_if_idle();  // keeps an answer that is on its way
  void give_up();        // closes, or cancels the request that is being handled
  void close();

 private:
  friend class SessionExchange;
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
  enum class State { kIdle, kReading, kHandling, kWriting, kLingering, kClosed };

  // A request's bytes, laid so that tensors behind a head of known length are aligned.
  struct Body {
    ByteBuffer buffer;
    std::size_t begin = 0;
    std::size_t size = 0;
    std::byte* data() { return buffer.data() + begin; }
    std::span<const std::byte> span() const { return buffer.span().subspan(begin, size); }
  };

  HttpSession(std::shared_ptr<boost::asio::io_context> context,
              std::shared_ptr<HttpSessions> sessions, boost::asio::ip::tcp::socket socket);

  // Reading, in session_read.cpp.
  void wait_for_request();
  void read_head();
  void on_head(Error error);
  void begin_body();
  void send_continue();
  void read_body();
  void begin_sized_body(std::size_t size);
  void read_sized_body();
  void read_chunks();
  void on_chunks(Error error);
  bool set_body_time();
  void on_body();
  void handle(std::span<const std::byte> body, std::shared_ptr<const void> owner);
  void watch_client();
  void refuse(int status, const std::string& message);  // answers and closes

  // Writing, in session_write.cpp; each belongs to the exchange with that number.
  void respond(std::uint64_t exchange, HttpResponse response);
  void begin_stream(std::uint64_t exchange, std::string content_type);
  void send_part(std::uint64_t exchange, std::string part);
  void end_stream(std::uint64_t exchange);
  void write_response(HttpResponse response, bool closes);
  std::string_view connection_header() const;
  void write_some();
  void on_written();
  void linger();
  void drain();

  void set_state(State state);
  void close_now();
  bool is_current(std::uint64_t exchange) const {
    return exchange == exchange_number_ && state_ == State::kHandling;
  }

  // First, so that the socket goes before what it belongs to.
  const std::shared_ptr<boost::asio::io_context> context_;
  const std::shared_ptr<HttpSessions> sessions_;
  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  State state_ = State::kIdle;

  std::optional<Parser> parser_;
  HttpRequest request_;
  Coding coding_ = Coding::kIdentity;
  std::shared_ptr<Body> body_;
  std::size_t received_ = 0;
  std::size_t chunks_ = 0;
  std::function<void(std::uint64_t, boost::beast::string_view, Error&)> on_chunk_head_;
  std::function<std::size_t(std::uint64_t, boost::beast::string_view, Error&)> on_chunk_body_;
  std::string too_much_;  // why the chunks were refused
  TimePoint body_began_;

  std::uint64_t exchange_number_ = 0;
  std::stop_source cancel_;
  bool keeps_alive_ = false;
  bool is_head_request_ = false;
  bool accepts_chunks_ = false;
  Coding answer_coding_ = Coding::kIdentity;

  // What is being written.
  HttpResponse response_;
  std::string head_;
  ByteBuffer compressed_;
  std::optional<boost::beast::buffers_suffix<std::vector<boost::asio::const_buffer>>> unwritten_;
  bool is_streaming_ = false;
  bool is_stream_over_ = false;
  std::vector<std::string> parts_;          // wait to be written
  std::vector<std::string> written_parts_;  // being written
  TimePoint lingers_until_;
};

}  // namespace tutti::server
