// The exchange of a connection, as handlers hold it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>

#include "server/http/session.h"

namespace tutti::server {

class SessionExchange final : public HttpExchange {
 public:
  SessionExchange(std::shared_ptr<HttpSession> session, std::uint64_t number, HttpRequest request,
                  std::stop_token cancel)
      : session_(std::move(session)),
        number_(number),
        request_(std::move(request)),
        cancel_(std::move(cancel)) {}

  // A handler that forgets its answer must not leave the client waiting.
  ~SessionExchange() override {
    if (!is_answered_) respond(error_response(500, "the request was dropped"));
  }

  const HttpRequest& request() const override { return request_; }
  std::stop_token cancel() const override { return cancel_; }

  void respond(HttpResponse response) override {
    is_answered_ = true;
    on_strand([number = number_, response = std::move(response)](HttpSession& session) mutable {
      session.respond(number, std::move(response));
    });
  }
  void respond_later(std::function<HttpResponse()> make) override {
    is_answered_ = true;
    on_strand([number = number_, make = std::move(make)](HttpSession& session) {
      session.respond(number, make());
    });
  }
  void begin_stream(std::string content_type) override {
    is_answered_ = true;
    on_strand([number = number_, type = std::move(content_type)](HttpSession& session) mutable {
      session.begin_stream(number, std::move(type));
    });
  }
  void send(std::string part) override {
    on_strand([number = number_, part = std::move(part)](HttpSession& session) mutable {
      session.send_part(number, std::move(part));
    });
  }
  void end_stream() override {
    on_strand([number = number_](HttpSession& session) { session.end_stream(number); });
  }

 private:
  template <class Call>
  void on_strand(Call call) {
    boost::asio::post(session_->stream_.get_executor(),
                      [session = session_, call = std::move(call)]() mutable { call(*session); });
  }

  const std::shared_ptr<HttpSession> session_;
  const std::uint64_t number_;
  const HttpRequest request_;
  const std::stop_token cancel_;
  bool is_answered_ = false;
};

}  // namespace tutti::server
