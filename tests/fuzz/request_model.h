// What requests of the fuzzers are for.
#pragma once

#include <memory>
#include <string>

#include "fuzz/surface.h"
#include "server/infer.h"
#include "server/parameters.h"
#include "server/request_checks.h"

namespace tutti::fuzz {

inline const server::ModelSignature& request_model() {
  static const server::ModelSignature signature = {
      {{"x", DType::kFloat32, {-1, 4}}, {"s", DType::kString, {-1, 1}}, {"i", DType::kInt64, {-1}}},
      {{"y", DType::kFloat32, {-1, 4}}}};
  return signature;
}

// The way of a decoded request to a model; true when it would get there.
inline bool pass_checks(server::InferRequest* request) {
  if (const Status status = server::apply_parameters(request); !status.ok()) {
    check_error(status);
    return false;
  }
  for (const server::InferInput& input : request->inputs) {
    if (input.shared_memory) return false;
  }
  if (!check_result(server::check_request(request_model(), 0, request))) return false;
  std::size_t sum = 0;
  for (const server::InferInput& input : request->inputs) {
    for (const std::byte byte : input.data) sum += static_cast<std::size_t>(byte);
  }
  require(sum != static_cast<std::size_t>(-1), "all of the data is there");
  return true;
}

}  // namespace tutti::fuzz
