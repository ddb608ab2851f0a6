#include "backends/cuda/offline.h"

#include <algorithm>
#include <array>

#include "backends/cuda/kernels.h"

namespace tutti::cuda {
namespace {

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": shared memory that
// a block may have.
struct Architecture {
  int number = 0;
  std::size_t shared_kib = 0;
};
constexpr std::array<Architecture, 11> kArchitectures = {{{80, 163},
                                                          {86, 99},
                                                          {87, 163},
                                                          {88, 163},
                                                          {89, 99},
                                                          {90, 227},
                                                          {100, 227},
                                                          {103, 227},
                                                          {110, 227},
                                                          {120, 99},
                                                          {121, 99}}};

Status runs_nothing() { return unimplemented("cuda: there is no device to run on"); }

class NoMemory final : public DeviceBuffer {
 public:
  explicit NoMemory(std::size_t size) : size_(size) {}
  void* data() override { return nullptr; }
  std::size_t size() const override { return size_; }

 private:
  std::size_t size_;
};

class OfflineRank final : public RankDevice {
 public:
  OfflineRank(const RankDeviceOptions& options, KernelCompiler* compiler, int arch,
              std::size_t shared_bytes)
      : group_(options.group) {
    context_.is_dry = true;
    context_.rank = options.rank;
    context_.arch = arch;
    context_.shared_bytes = shared_bytes;
    context_.compiler = compiler;
    context_.communicators = options.communicators;
    context_.axes = options.axes;
  }

  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) override {
    return tutti::cuda::make_kernel(spec, context_);
  }
  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    return std::unique_ptr<DeviceBuffer>(std::make_unique<NoMemory>(bytes));
  }
  Result<const void*> place_constant(const Tensor& /*tensor*/) override {
    return static_cast<const void*>(this);  // an address that nobody follows
  }
  Status upload(void*, const void*, std::size_t) override { return runs_nothing(); }
  Status download(void*, const void*, std::size_t) override { return runs_nothing(); }
  Status finish() override { return runs_nothing(); }

 private:
  RankContext context_;
  std::shared_ptr<Communicator> group_;
};

}  // namespace

Result<std::unique_ptr<Backend>> OfflineBackend::create(const std::string& target) {
  std::string names;
  for (const Architecture& known : kArchitectures) {
    const std::string name = str_cat("sm_", known.number);
    if (name == target) {
      std::unique_ptr<OfflineBackend> backend(new OfflineBackend);
      TUTTI_RETURN_IF_ERROR(backend->compiler_->has_nvrtc());
      backend->arch_ = known.number;
      backend->shared_bytes_ = known.shared_kib << 10;
      return std::unique_ptr<Backend>(std::move(backend));
    }
    names += str_cat(names.empty() ? "" : ", ", name);
  }
  return invalid_argument("cuda: '", target, "' is no architecture, expected one of ", names);
}

std::string OfflineBackend::describe() const {
  return str_cat("no device, kernels for sm_", arch_, ", ", compiler_->version());
}

Result<std::unique_ptr<RankDevice>> OfflineBackend::create_rank(const RankDeviceOptions& options) {
  return std::unique_ptr<RankDevice>(
      std::make_unique<OfflineRank>(options, compiler_.get(), arch_, shared_bytes_));
}

}  // namespace tutti::cuda
