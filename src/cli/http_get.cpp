#include "cli/http_get.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

struct Address {
  std::string host;
  std::string port;
};

// "[::1]:8002" is an address too.
Result<Address> parse_address(std::string_view text) {
  if (text.starts_with("http://")) text.remove_prefix(7);
  if (text.ends_with('/')) text.remove_suffix(1);
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) {
    return invalid_argument("'", text, "' is no HOST:PORT");
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return Address{std::string(host), std::string(text.substr(colon + 1))};
}

// False when the time is over.
bool wait_for(const Socket& socket, short events, Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
  pollfd entry{socket.fd(), events, 0};
  return left.count() > 0 && ::poll(&entry, 1, static_cast<int>(left.count())) == 1;
}

bool connect_until(const Socket& socket, const addrinfo& address, Clock::time_point until) {
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !wait_for(socket, POLLOUT, until)) return false;
  int error = 0;
  socklen_t size = sizeof(error);
  return ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

bool send_until(const Socket& socket, std::string_view text, Clock::time_point until) {
  while (!text.empty()) {
    if (!wait_for(socket, POLLOUT, until)) return false;
    const ssize_t sent = ::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// HTTP/1.0: the answer ends where the connection does.
bool receive_until(const Socket& socket, std::string* text, Clock::time_point until) {
  char buffer[1 << 14];
  while (wait_for(socket, POLLIN, until)) {
    const ssize_t count = ::recv(socket.fd(), buffer, sizeof(buffer), 0);
    if (count < 0) return false;
    if (count == 0) return true;
    text->append(buffer, static_cast<std::size_t>(count));
  }
  return false;
}

}  // namespace

Result<std::string> http_get(const std::string& address, const std::string& path,
                             std::chrono::milliseconds patience) {
  TUTTI_ASSIGN_OR_RETURN(const Address at, parse_address(address));
  const Clock::time_point until = Clock::now() + patience;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found);
      error != 0) {
    return unavailable("'", address, "': ", ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const Socket socket(::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                                 one->ai_protocol));
    if (socket.fd() < 0 || !connect_until(socket, *one, until)) continue;
    const std::string request =
        str_cat("GET ", path, " HTTP/1.0\r\nHost: ", at.host, "\r\nConnection: close\r\n\r\n");
    std::string answer;
    if (!send_until(socket, request, until) || !receive_until(socket, &answer, until)) continue;
    const auto head = answer.find("\r\n\r\n");
    const std::string_view line = std::string_view(answer).substr(0, answer.find("\r\n"));
    if (!line.starts_with("HTTP/1.") || head == std::string::npos) {
      return unavailable("'", address, "' answers, but not HTTP: is it the metrics port?");
    }
    if (line.find(" 200 ") == std::string_view::npos) {
      return unavailable("'", address, path, "' answers '", line, "': is it the metrics port?");
    }
    return answer.substr(head + 4);
  }
  return unavailable("nobody answers at '", address,
                     "': is the server running, with --allow-metrics and this port?");
}

}  // namespace tutti::cli
