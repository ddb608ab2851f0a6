// Models, backends and folders for the server's tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/model_backend.h"
#include "server/repository/model_loader.h"
#include "support/temp_folder.h"

namespace tutti::server::test {

using tutti::test::TempFolder;

// Keeps outputs in vectors.
class VectorSink : public OutputSink {
 public:
  Result<std::byte*> allocate(std::size_t position, const OutputDesc&, std::size_t bytes) override {
    outputs[position].resize(bytes);
    return outputs[position].data();
  }
  std::map<std::size_t, std::vector<std::byte>> outputs;
};

// Holds whoever calls wait() until open() is called.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
  }
  // Until `count` callers came to wait().
  void await_arrivals(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int arrived_ = 0;
};

// Output i is a copy of input i, under the names that the request asks for.
class IdentityModel : public ServableModel {
 public:
  explicit IdentityModel(std::shared_ptr<Gate> gate = nullptr,
                         std::function<Status()> verdict = nullptr)
      : gate_(std::move(gate)), verdict_(std::move(verdict)) {}

  // A model whose requests fail is as one whose rank group could not be rebuilt.
  bool is_ready() const override { return verdict_ == nullptr; }

  Result<InferResult> infer(const InferRequest& request,
                            const std::shared_ptr<OutputSink>& sink) override {
    InferResult result;
    result.inputs_ready = std::chrono::steady_clock::now();
    if (gate_) gate_->wait();
    if (verdict_) TUTTI_RETURN_IF_ERROR(verdict_());
    for (std::size_t i = 0; i < request.outputs.size(); ++i) {
      const InferInput& input = request.inputs[i % request.inputs.size()];
      OutputDesc output{request.outputs[i], input.dtype, input.shape};
      TUTTI_ASSIGN_OR_RETURN(std::byte * data, sink->allocate(i, output, input.data.size()));
      if (!input.data.empty()) std::memcpy(data, input.data.data(), input.data.size());
      result.outputs.push_back(std::move(output));
    }
    result.outputs_started = std::chrono::steady_clock::now();
    return result;
  }

 private:
  std::shared_ptr<Gate> gate_;
  std::function<Status()> verdict_;
};

// Opens files whose text is "identity", "string" (BYTES), "failing" (every request fails), "gated"
// (requests wait for `gate`), "slow to load" (loading waits for it), "ranks N", or anything else,
// which does not load. The first three take x: [-1, 4] (FP32, BYTES for "string") and give y.
class FakeBackend : public ModelBackend {
 public:
  explicit FakeBackend(std::shared_ptr<Gate> gate = nullptr) : gate_(std::move(gate)) {}

  BackendName name() const override { return {"tutti", "tutti_plan"}; }
  DeviceFacts devices() const override { return {"cpu", 0}; }
  Result<std::unique_ptr<ModelSource>> open(const std::string& path) override {
    std::string kind;
    std::ifstream file(path);
    std::getline(file, kind);
    return std::unique_ptr<ModelSource>(std::make_unique<Source>(kind, gate_));
  }

 private:
  class Source : public ModelSource {
   public:
    Source(std::string kind, std::shared_ptr<Gate> gate)
        : kind_(std::move(kind)), gate_(std::move(gate)) {
      const DType dtype = kind_ == "string" ? DType::kString : DType::kFloat32;
      facts_.signature = {{{"x", dtype, {-1, 4}}}, {{"y", dtype, {-1, 4}}}};
      if (kind_.starts_with("ranks ")) {
        facts_.ranks = std::stoi(kind_.substr(6));
        facts_.mesh = str_cat("cp=", facts_.ranks);
      }
    }
    const ModelFacts& facts() const override { return facts_; }
    Result<std::unique_ptr<ServableModel>> create_instance(const Placement&) override {
      if (kind_ == "identity" || kind_ == "string" || kind_.starts_with("ranks ")) return make();
      if (kind_ == "gated") return make(gate_);
      if (kind_ == "slow to load") {
        gate_->wait();
        return make();
      }
      if (kind_ == "failing") {
        return make(nullptr, [] { return unavailable("rank 1 of 2: lost its device"); });
      }
      return invalid_argument("file says '", kind_, "'");
    }

   private:
    static std::unique_ptr<ServableModel> make(std::shared_ptr<Gate> gate = nullptr,
                                               std::function<Status()> verdict = nullptr) {
      return std::make_unique<IdentityModel>(std::move(gate), std::move(verdict));
    }
    std::string kind_;
    std::shared_ptr<Gate> gate_;
    ModelFacts facts_;
  };
  std::shared_ptr<Gate> gate_;
};

// A 4-byte length and the bytes for each element.
inline std::string bytes_tensor(const std::vector<std::string>& elements) {
  std::string data;
  for (const std::string& element : elements) {
    const auto length = static_cast<std::uint32_t>(element.size());
    data.append(reinterpret_cast<const char*>(&length), 4);
    data += element;
  }
  return data;
}

template <class T>
std::string raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline std::span<const std::byte> as_span(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace tutti::server::test
