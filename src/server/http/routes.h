// Which path of the KServe API is which call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/restrictions.h"

namespace tutti::server {

enum class HttpCall {
  kServerMetadata,
  kServerLive,
  kServerReady,
  kModelMetadata,
  kModelReady,
  kModelConfig,
  kModelStatistics,
  kInfer,
  kGenerate,
  kGenerateStream,
  kRepositoryIndex,
  kRepositoryLoad,
  kRepositoryUnload,
  kSystemStatus,
  kSystemRegister,
  kSystemUnregister,
  kCudaStatus,
  kCudaRegister,
  kCudaUnregister,
  kLogging,
  kTraceSetting,
};

struct HttpRoute {
  HttpCall call;
  CallGroup group;
  std::string_view methods;  // "GET POST"
};

// What the braces of a path held, decoded; "" where the path has none of that name.
struct PathNames {
  std::string model;
  std::string version;
  std::string repository;
  std::string region;
};

// `path` as a client sends it. Null when no call has it: another number of parts, empty ones (so a
// slash at the end too), versions that are not digits, broken percent codes.
const HttpRoute* find_route(std::string_view path, PathNames* names);

bool allows_method(const HttpRoute& route, std::string_view method);

}  // namespace tutti::server
