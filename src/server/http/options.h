// How an HTTP front end listens and what it takes.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tutti::server {

struct HttpLimits {
  std::size_t max_body_bytes = std::size_t{64} << 20;  // of a request, decompressed too
  std::size_t max_head_bytes = std::size_t{64} << 10;
  std::size_t max_chunks = 65536;
  std::size_t max_connections = 4096;
  // A client that takes longer loses its connection.
  std::chrono::milliseconds head_time{30'000};   // from the first byte to the end of the headers
  std::chrono::milliseconds stall_time{60'000};  // without any byte of a body, either way
  std::chrono::milliseconds idle_time{300'000};  // between two requests
  std::size_t slowest_bytes_per_second = 4096;   // of a request's body, after stall_time
};

struct HttpOptions {
  std::string address = "0.0.0.0";
  int port = 8000;  // 0: any free one
  int threads = 2;
  bool reuses_port = false;  // several servers may listen on the port
  HttpLimits limits = {};
};

}  // namespace tutti::server
