// A backend whose memory is not the host's: what a GPU asks of the executor.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "runtime/instance.h"
#include "toy.h"

namespace tutti::toy {

// Which addresses are the device's.
class Ranges {
 public:
  void add(const void* begin, std::size_t size) {
    const std::lock_guard lock(mutex_);
    ranges_.push_back({static_cast<const std::byte*>(begin), size});
  }
  bool contains(const void* address) const {
    const auto* at = static_cast<const std::byte*>(address);
    const std::lock_guard lock(mutex_);
    for (const auto& [begin, size] : ranges_) {
      if (at >= begin && at <= begin + size) return true;
    }
    return false;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<const std::byte*, std::size_t>> ranges_;  // under mutex_
};

class CheckedKernel final : public Kernel {
 public:
  CheckedKernel(std::unique_ptr<Kernel> kernel, const Ranges& ranges)
      : kernel_(std::move(kernel)), ranges_(ranges) {}
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  Status run(const KernelArgs& args) override {
    for (const void* input : args.inputs) {
      if (!ranges_.contains(input)) return internal_error("an input is host memory");
    }
    for (const void* output : args.outputs) {
      if (!ranges_.contains(output)) return internal_error("an output is host memory");
    }
    return kernel_->run(args);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  const Ranges& ranges_;
};

class DiscreteDevice final : public RankDevice {
 public:
  explicit DiscreteDevice(std::unique_ptr<RankDevice> host) : host_(std::move(host)) {}

  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, host_->make_kernel(spec));
    return std::unique_ptr<Kernel>(std::make_unique<CheckedKernel>(std::move(kernel), ranges_));
  }
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    if (bytes > room) {
      return Status(StatusCode::kResourceExhausted, str_cat("no room for ", bytes, " bytes"));
    }
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> buffer, host_->allocate(bytes));
    ranges_.add(buffer->data(), bytes);
    return buffer;
  }
  Result<const void*> place_constant(const Tensor& tensor) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> buffer, allocate(tensor.byte_size()));
    TUTTI_RETURN_IF_ERROR(upload(buffer->data(), tensor.data(), tensor.byte_size()));
    constants_.push_back(std::move(buffer));
    return static_cast<const void*>(constants_.back()->data());
  }
  Status upload(void* target, const void* host, std::size_t bytes) override {
    if (!ranges_.contains(target)) return internal_error("upload to host memory");
    if (bytes > 0 && ranges_.contains(host)) return internal_error("upload from the device");
    return host_->upload(target, host, bytes);
  }
  Status read_input(const RowCopy& rows) override {
    if (!ranges_.contains(rows.target)) return internal_error("an input goes to host memory");
    input_bytes += rows.rows * rows.row_bytes;
    return host_->read_input(rows);
  }
  Status write_output(void* target, const void* source, std::size_t bytes) override {
    if (!ranges_.contains(source)) return internal_error("an output comes from host memory");
    return host_->write_output(target, source, bytes);
  }
  Status download(void* host, const void* source, std::size_t bytes) override {
    if (!ranges_.contains(source)) return internal_error("download from host memory");
    return host_->download(host, source, bytes);
  }
  Status finish() override { return {}; }

  std::size_t input_bytes = 0;                          // read from requests
  std::atomic<std::size_t> room{std::size_t{1} << 40};  // bytes that one allocation may have

 private:
  std::unique_ptr<RankDevice> host_;
  Ranges ranges_;
  std::vector<std::unique_ptr<DeviceBuffer>> constants_;
};

class DiscreteBackend final : public Backend {
 public:
  std::string name() const override { return "discrete"; }
  int device_count() const override { return 3; }
  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override {
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RankDevice> host, cpu_.create_rank(options));
    auto device = std::make_unique<DiscreteDevice>(std::move(host));
    ranks.push_back(device.get());
    return std::unique_ptr<RankDevice>(std::move(device));
  }
  Status check_device_memory(int device, const void* data, std::size_t bytes) override {
    if (device == 1 && regions.contains(data)) return {};
    return invalid_argument("its ", bytes, " bytes are not in the memory of device ", device);
  }
  Status read_device_memory(void* host, int, const void* source, std::size_t bytes) override {
    ++fetches;
    std::memcpy(host, source, bytes);
    return {};
  }
  Result<std::shared_ptr<std::byte>> allocate_device(int, std::size_t bytes) override {
    if (!lends) return std::shared_ptr<std::byte>();
    if (is_full) return Status(StatusCode::kResourceExhausted, "the device is full");
    return std::shared_ptr<std::byte>(new std::byte[bytes], std::default_delete<std::byte[]>());
  }
  Status write_device_memory(int, void* target, const void* host, std::size_t bytes) override {
    std::memcpy(target, host, bytes);
    const std::lock_guard lock(mutex_);
    uploads_.push_back(target);
    changed_.notify_all();
    return {};
  }

  // Where requests were put while others ran, in order; waits until there are `count`.
  std::vector<const void*> uploads(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return uploads_.size() >= count; });
    return uploads_;
  }

  Ranges regions;  // of device 1, for requests
  std::atomic<int> fetches{0};
  std::vector<DiscreteDevice*> ranks;
  bool lends = false;  // memory for requests that wait
  std::atomic<bool> is_full{false};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const void*> uploads_;  // under mutex_
  cpu::CpuBackend cpu_{kernels()};
};

}  // namespace tutti::toy
