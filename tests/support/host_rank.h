#pragma once

#include <memory>
#include <utility>

#include "runtime/backend.h"

namespace tutti::test {

// A rank of a host backend with everything passed on: tests say what they do otherwise. It does not
// say that its memory is the host's.
class HostRank : public RankDevice {
 public:
  explicit HostRank(std::unique_ptr<RankDevice> host) : host_(std::move(host)) {}

  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) override {
    return host_->make_kernel(spec);
  }
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    return host_->allocate(bytes);
  }
  Result<const void*> place_constant(const Tensor& tensor) override {
    return host_->place_constant(tensor);
  }
  Status upload(void* target, const void* host, std::size_t bytes) override {
    return host_->upload(target, host, bytes);
  }
  Status download(void* host, const void* source, std::size_t bytes) override {
    return host_->download(host, source, bytes);
  }
  Status finish() override { return host_->finish(); }

 private:
  const std::unique_ptr<RankDevice> host_;
};

}  // namespace tutti::test
