// A repository of fake models in a folder of its own, asked through the service.
#pragma once

#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "fakes.h"
#include "server/backend_loader.h"
#include "server/service.h"

namespace tutti::server::test {

struct Answer {
  Status status;
  InferResponse response;
  std::shared_ptr<VectorSink> sink = std::make_shared<VectorSink>();

  std::vector<float> floats(std::size_t output = 0) const {
    const auto found = sink->outputs.find(output);
    if (found == sink->outputs.end()) return {};
    std::vector<float> values(found->second.size() / sizeof(float));
    std::memcpy(values.data(), found->second.data(), found->second.size());
    return values;
  }
};

class LoadingFixture : public ::testing::Test {
 protected:
  Status start(std::size_t cache_bytes = 0, ControlMode mode = ControlMode::kNone) {
    std::vector<std::unique_ptr<ModelBackend>> backends;
    backends.push_back(std::make_unique<FakeBackend>(gate_));
    auto loader = std::make_shared<BackendLoader>(std::move(backends), 100, make_silent_log(),
                                                  RateLimitOptions(), cache_bytes);
    RepositoryOptions options;
    options.paths = {folder_.path()};
    options.control_mode = mode;
    repository_ = std::make_shared<ModelRepository>(options, loader, make_silent_log());
    service_ = std::make_unique<InferenceService>(repository_, ServiceOptions());
    return repository_->start();
  }

  // Input `name`: FP32 [values / 4, 4].
  std::future<Answer> send(const std::string& model, const std::string& name,
                           const std::vector<float>& values, std::vector<std::string> outputs = {},
                           std::stop_token cancel = {}) {
    auto data = std::make_shared<std::vector<float>>(values);
    InferRequest request;
    request.model_name = model;
    const auto rows = static_cast<std::int64_t>(values.size() / 4);
    request.inputs = {{name, DType::kFloat32, {rows, 4}, std::as_bytes(std::span(*data))}};
    request.outputs = std::move(outputs);
    request.owner = data;
    request.cancel = std::move(cancel);
    auto promise = std::make_shared<std::promise<Answer>>();
    Answer answer;
    const auto sink = answer.sink;
    service_->infer(std::move(request), sink, [promise, answer](Result<InferResponse> r) mutable {
      answer.status = r.status();
      if (r.ok()) answer.response = *std::move(r);
      promise->set_value(answer);
    });
    return promise->get_future();
  }

  Answer ask(const std::string& model, const std::string& name, const std::vector<float>& values,
             std::vector<std::string> outputs = {}) {
    return send(model, name, values, std::move(outputs)).get();
  }

  StatisticsSnapshot statistics(const std::string& model) {
    return (*service_->statistics(model, ""))[0].statistics;
  }

  TempFolder folder_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::shared_ptr<ModelRepository> repository_;
  std::unique_ptr<InferenceService> service_;
};

}  // namespace tutti::server::test
