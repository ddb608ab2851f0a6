#include "backends/cpu/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tutti::cpu {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

class HostBuffer final : public DeviceBuffer {
 public:
  HostBuffer(void* data, std::size_t size) : data_(data), size_(size) {}
  ~HostBuffer() override { std::free(data_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* data() override { return data_; }
  std::size_t size() const override { return size_; }

 private:
  void* data_;
  std::size_t size_;
};

}  // namespace

CpuRankDevice::CpuRankDevice(const RankDeviceOptions& options, const KernelRegistry& kernels)
    : kernels_(kernels),
      pool_(options.threads),
      context_{&pool_, options.rank, options.communicators, options.axes} {}

Result<std::unique_ptr<Kernel>> CpuRankDevice::make_kernel(const KernelSpec& spec) {
  const KernelFactory factory = kernels_.find(spec.node.type());
  if (factory == nullptr) {
    return unimplemented(spec.node.describe(), ": the cpu backend has no kernel for ",
                         spec.node.type());
  }
  Result<std::unique_ptr<Kernel>> kernel = factory(spec, context_);
  if (!kernel.ok()) return kernel.status().with_context(spec.node.describe() + " on cpu");
  return kernel;
}

Result<std::unique_ptr<DeviceBuffer>> CpuRankDevice::allocate(std::size_t bytes) {
  // Large arenas lie on huge pages where the system has them: fewer address translations.
  const bool is_large = bytes >= 2 * kHugePage;
  const std::size_t alignment = is_large ? kHugePage : kCacheLine;
  const std::size_t padded =
      (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* data = padded < bytes ? nullptr : std::aligned_alloc(alignment, padded);
  if (data == nullptr) {
    return Status(StatusCode::kResourceExhausted,
                  str_cat("cpu: rank ", context_.rank, " gets no memory for ", bytes, " bytes"));
  }
  if (is_large) ::madvise(data, padded, MADV_HUGEPAGE);
  return std::unique_ptr<DeviceBuffer>(std::make_unique<HostBuffer>(data, bytes));
}

Result<const void*> CpuRankDevice::place_constant(const Tensor& tensor) {
  return static_cast<const void*>(tensor.data());
}

Status CpuRankDevice::upload(void* target, const void* host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(target, host, bytes);
  return {};
}

Status CpuRankDevice::download(void* host, const void* source, std::size_t bytes) {
  if (bytes > 0) std::memcpy(host, source, bytes);
  return {};
}

}  // namespace tutti::cpu
