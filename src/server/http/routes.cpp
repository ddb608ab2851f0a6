#include "server/http/routes.h"

#include <algorithm>

#include "server/http/text.h"

namespace tutti::server {
namespace {

using Call = HttpCall;
using Group = CallGroup;

struct Entry {
  std::string_view pattern;
  HttpRoute route;
};

// The first that fits counts: "/v2/models/stats" is no model.
constexpr Entry kEntries[] = {
    {"/v2", {Call::kServerMetadata, Group::kMetadata, "GET"}},
    {"/v2/health/live", {Call::kServerLive, Group::kHealth, "GET"}},
    {"/v2/health/ready", {Call::kServerReady, Group::kHealth, "GET"}},
    {"/v2/models/stats", {Call::kModelStatistics, Group::kStatistics, "GET"}},
    {"/v2/models/{model}", {Call::kModelMetadata, Group::kMetadata, "GET"}},
    {"/v2/models/{model}/ready", {Call::kModelReady, Group::kHealth, "GET"}},
    {"/v2/models/{model}/config", {Call::kModelConfig, Group::kModelConfig, "GET"}},
    {"/v2/models/{model}/stats", {Call::kModelStatistics, Group::kStatistics, "GET"}},
    {"/v2/models/{model}/infer", {Call::kInfer, Group::kInference, "POST"}},
    {"/v2/models/{model}/generate", {Call::kGenerate, Group::kInference, "POST"}},
    {"/v2/models/{model}/generate_stream", {Call::kGenerateStream, Group::kInference, "POST"}},
    {"/v2/models/{model}/trace/setting", {Call::kTraceSetting, Group::kTrace, "GET POST"}},
    {"/v2/models/{model}/versions/{version}", {Call::kModelMetadata, Group::kMetadata, "GET"}},
    {"/v2/models/{model}/versions/{version}/ready", {Call::kModelReady, Group::kHealth, "GET"}},
    {"/v2/models/{model}/versions/{version}/config",
     {Call::kModelConfig, Group::kModelConfig, "GET"}},
    {"/v2/models/{model}/versions/{version}/stats",
     {Call::kModelStatistics, Group::kStatistics, "GET"}},
    {"/v2/models/{model}/versions/{version}/infer", {Call::kInfer, Group::kInference, "POST"}},
    {"/v2/models/{model}/versions/{version}/generate",
     {Call::kGenerate, Group::kInference, "POST"}},
    {"/v2/models/{model}/versions/{version}/generate_stream",
     {Call::kGenerateStream, Group::kInference, "POST"}},
    {"/v2/repository/index", {Call::kRepositoryIndex, Group::kModelRepository, "POST"}},
    {"/v2/repository/{repository}/index",
     {Call::kRepositoryIndex, Group::kModelRepository, "POST"}},
    {"/v2/repository/models/{model}/load",
     {Call::kRepositoryLoad, Group::kModelRepository, "POST"}},
    {"/v2/repository/models/{model}/unload",
     {Call::kRepositoryUnload, Group::kModelRepository, "POST"}},
    {"/v2/repository/{repository}/models/{model}/load",
     {Call::kRepositoryLoad, Group::kModelRepository, "POST"}},
    {"/v2/repository/{repository}/models/{model}/unload",
     {Call::kRepositoryUnload, Group::kModelRepository, "POST"}},
    {"/v2/systemsharedmemory/status", {Call::kSystemStatus, Group::kSharedMemory, "GET"}},
    {"/v2/systemsharedmemory/register", {Call::kSystemRegister, Group::kSharedMemory, "POST"}},
    {"/v2/systemsharedmemory/unregister", {Call::kSystemUnregister, Group::kSharedMemory, "POST"}},
    {"/v2/systemsharedmemory/region/{region}/status",
     {Call::kSystemStatus, Group::kSharedMemory, "GET"}},
    {"/v2/systemsharedmemory/region/{region}/register",
     {Call::kSystemRegister, Group::kSharedMemory, "POST"}},
    {"/v2/systemsharedmemory/region/{region}/unregister",
     {Call::kSystemUnregister, Group::kSharedMemory, "POST"}},
    {"/v2/cudasharedmemory/status", {Call::kCudaStatus, Group::kSharedMemory, "GET"}},
    {"/v2/cudasharedmemory/register", {Call::kCudaRegister, Group::kSharedMemory, "POST"}},
    {"/v2/cudasharedmemory/unregister", {Call::kCudaUnregister, Group::kSharedMemory, "POST"}},
    {"/v2/cudasharedmemory/region/{region}/status",
     {Call::kCudaStatus, Group::kSharedMemory, "GET"}},
    {"/v2/cudasharedmemory/region/{region}/register",
     {Call::kCudaRegister, Group::kSharedMemory, "POST"}},
    {"/v2/cudasharedmemory/region/{region}/unregister",
     {Call::kCudaUnregister, Group::kSharedMemory, "POST"}},
    {"/v2/logging", {Call::kLogging, Group::kLogging, "GET POST"}},
    {"/v2/trace/setting", {Call::kTraceSetting, Group::kTrace, "GET POST"}},
};

bool is_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string* name_of(std::string_view brace, PathNames* names) {
  if (brace == "{model}") return &names->model;
  if (brace == "{version}") return &names->version;
  if (brace == "{repository}") return &names->repository;
  return &names->region;
}

bool fits(std::string_view pattern, const std::vector<std::string_view>& parts, PathNames* names) {
  const auto expected = split(pattern, '/');
  if (expected.size() != parts.size()) return false;
  PathNames found;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!expected[i].starts_with('{')) {
      if (expected[i] != parts[i]) return false;
      continue;
    }
    auto decoded = percent_decoded(parts[i]);
    if (!decoded || decoded->empty()) return false;
    if (expected[i] == "{version}" && !is_digits(*decoded)) return false;
    *name_of(expected[i], &found) = *std::move(decoded);
  }
  *names = std::move(found);
  return true;
}

}  // namespace

const HttpRoute* find_route(std::string_view path, PathNames* names) {
  const auto parts = split(path, '/');
  for (const Entry& entry : kEntries) {
    if (fits(entry.pattern, parts, names)) return &entry.route;
  }
  return nullptr;
}

bool allows_method(const HttpRoute& route, std::string_view method) {
  const auto methods = split(route.methods, ' ');
  return std::find(methods.begin(), methods.end(), method) != methods.end();
}

}  // namespace tutti::server
