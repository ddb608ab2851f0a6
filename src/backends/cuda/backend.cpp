#include "backends/cuda/backend.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace tutti::cuda {
namespace {

Result<ExchangeWay> exchange_way() {
  const char* given = std::getenv("TUTTI_CUDA_EXCHANGE");
  const std::string_view name = given == nullptr ? "" : given;
  if (name.empty() || name == "push") return ExchangeWay::kPush;
  if (name == "pull") return ExchangeWay::kPull;
  if (name == "nccl") return ExchangeWay::kNccl;
  return invalid_argument("TUTTI_CUDA_EXCHANGE is '", name, "', expected push, pull or nccl");
}

Result<Pipelining> pipelining() {
  const char* given = std::getenv("TUTTI_CUDA_PIPELINE");
  const std::string_view name = given == nullptr ? "" : given;
  if (name.empty() || name == "auto") return Pipelining::kWherePays;
  if (name == "on") return Pipelining::kAlways;
  if (name == "off") return Pipelining::kNever;
  return invalid_argument("TUTTI_CUDA_PIPELINE is '", name, "', expected auto, on or off");
}

Result<bool> fuses_exchanges() {
  const char* given = std::getenv("TUTTI_CUDA_FUSE_EXCHANGE");
  const std::string_view name = given == nullptr ? "" : given;
  if (name.empty() || name == "on") return true;
  if (name == "off") return false;
  return invalid_argument("TUTTI_CUDA_FUSE_EXCHANGE is '", name, "', expected on or off");
}

// Threads that copy a request's tensors: more copy no faster.
int carrier_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, 8);
}

}  // namespace

CudaBackend::Carrier::~Carrier() {
  if (stream != nullptr) (void)cudaStreamDestroy(stream);
}

Status CudaBackend::Carrier::set_up() {
  if (stream != nullptr) return {};
  TUTTI_ASSIGN_OR_RETURN(staging, Staging::create(carrier_threads()));
  TUTTI_ASSIGN_OR_RETURN(done, Event::create(false));
  TUTTI_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return {};
}

Result<std::unique_ptr<Backend>> CudaBackend::create() {
  std::unique_ptr<CudaBackend> backend(new CudaBackend);
  TUTTI_RETURN_IF_ERROR(backend->find_devices());
  TUTTI_ASSIGN_OR_RETURN(backend->exchange_way_, exchange_way());
  TUTTI_ASSIGN_OR_RETURN(backend->pipelining_, pipelining());
  TUTTI_ASSIGN_OR_RETURN(backend->fuses_exchanges_, fuses_exchanges());
  backend->compiler_ = KernelCompiler::create(backend->store_);
  TUTTI_RETURN_IF_ERROR(backend->open_libraries());
  auto nvml = Nvml::open();
  if (nvml.ok()) backend->nvml_ = *std::move(nvml);
  return std::unique_ptr<Backend>(std::move(backend));
}

Status CudaBackend::open_libraries() {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    Device& device = devices_[i];
    const int arch = 10 * device.properties.major + device.properties.minor;
    TUTTI_ASSIGN_OR_RETURN(device.blas, Blas::create(static_cast<int>(i), store_));
    auto cudnn = Cudnn::create(static_cast<int>(i), arch);
    if (cudnn.ok()) device.cudnn = *std::move(cudnn);
    cudnn_ = device.cudnn != nullptr ? str_cat("cuDNN ", device.cudnn->version())
                                     : str_cat("no cuDNN (", cudnn.status().message(), ")");
    // What is fastest holds for a card and the libraries that were compared.
    device.tuner = std::make_unique<Tuner>(store_, str_cat(device.properties.name, ", ", cudnn_),
                                           static_cast<int>(i));
  }
  return {};
}

Status CudaBackend::find_devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    return unavailable("no CUDA device: ",
                       error == cudaSuccess ? "the driver knows none" : cudaGetErrorString(error));
  }
  for (int i = 0; i < count; ++i) {
    Device device;
    TUTTI_CUDA(cudaGetDeviceProperties(&device.properties, i));
    if (device.properties.major < 8) {
      return unavailable("no CUDA device: GPU ", i, " (", device.properties.name,
                         ") has compute capability ", device.properties.major, ".",
                         device.properties.minor, ", expected 8.0 or higher");
    }
    devices_.push_back(std::move(device));
    readers_.push_back(std::make_unique<Carrier>());
    writers_.push_back(std::make_unique<Carrier>());
  }
  return {};
}

std::string CudaBackend::describe() const {
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  return str_cat(devices_.size(), " x ", devices_.front().properties.name, " (sm_",
                 10 * devices_.front().properties.major + devices_.front().properties.minor,
                 "), CUDA driver ", driver / 1000, ".", driver % 1000 / 10, ", ",
                 compiler_->version(), ", cuBLASLt ", devices_.front().blas->version(), ", ",
                 cudnn_);
}

Result<std::unique_ptr<RankDevice>> CudaBackend::create_rank(const RankDeviceOptions& options) {
  if (options.device < 0 || options.device >= device_count()) {
    return invalid_argument("cuda: device ", options.device, " of rank ", options.rank,
                            " does not exist; there are ", device_count());
  }
  Device& device = devices_[static_cast<std::size_t>(options.device)];
  DeviceServices services;
  services.compiler = compiler_.get();
  services.blas = device.blas.get();
  services.cudnn = device.cudnn.get();
  services.tuner = device.tuner.get();
  services.weights = &weights_;
  services.captures = &captures_;
  services.exchange_way = exchange_way_;
  services.pipelining = pipelining_;
  services.fuses_exchanges = fuses_exchanges_;
  services.properties = device.properties;
  return CudaRankDevice::create(options, services);
}

Status CudaBackend::check_device(int device) const {
  if (device >= 0 && device < device_count()) return {};
  return invalid_argument("it lies in the memory of device ", device, ", but there are ",
                          device_count(), " devices");
}

Status CudaBackend::check_device_memory(int device, const void* data, std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(check_device(device));
  if (bytes == 0) return {};
  TUTTI_RETURN_IF_ERROR(activate(device));
  for (const std::byte* at :
       {static_cast<const std::byte*>(data), static_cast<const std::byte*>(data) + bytes - 1}) {
    TUTTI_ASSIGN_OR_RETURN(const MemoryFacts facts, facts_of(at));
    if (facts.is_device && facts.device == device) continue;
    return invalid_argument("its ", bytes, " bytes are not in the memory of device ", device);
  }
  return {};
}

Status CudaBackend::read_device_memory(void* host, int device, const void* source,
                                       std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(check_device_memory(device, source, bytes));
  if (bytes == 0) return {};
  Carrier& reader = *readers_[static_cast<std::size_t>(device)];
  const std::lock_guard lock(reader.mutex);
  TUTTI_RETURN_IF_ERROR(reader.set_up());
  TUTTI_ASSIGN_OR_RETURN(const MemoryFacts facts, facts_of(host));
  if (!facts.is_pinned) return reader.staging->download(reader.stream, host, source, bytes);
  TUTTI_CUDA(cudaMemcpyAsync(host, source, bytes, cudaMemcpyDefault, reader.stream));
  TUTTI_CUDA(cudaEventRecord(reader.done->get(), reader.stream));
  return wait_for(reader.done->get());
}

Status CudaBackend::write_device_memory(int device, void* target, const void* host,
                                        std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(check_device_memory(device, target, bytes));
  if (bytes == 0) return {};
  Carrier& writer = *writers_[static_cast<std::size_t>(device)];
  const std::lock_guard lock(writer.mutex);
  TUTTI_RETURN_IF_ERROR(writer.set_up());
  TUTTI_ASSIGN_OR_RETURN(const MemoryFacts facts, facts_of(host));
  if (facts.is_pinned) {
    TUTTI_CUDA(cudaMemcpyAsync(target, host, bytes, cudaMemcpyDefault, writer.stream));
  } else {
    TUTTI_RETURN_IF_ERROR(writer.staging->upload(writer.stream, target, host, bytes));
  }
  TUTTI_CUDA(cudaEventRecord(writer.done->get(), writer.stream));
  return wait_for(writer.done->get());
}

Result<std::shared_ptr<std::byte>> CudaBackend::allocate_host(std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(activate(0));
  return allocate_pinned(bytes);
}

Result<std::shared_ptr<std::byte>> CudaBackend::open_device_memory(
    int device, std::span<const std::byte> handle, std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(check_device(device));
  return open_shared(device, handle, bytes);
}

Result<std::shared_ptr<std::byte>> CudaBackend::allocate_device(int device, std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(check_device(device));
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                         DeviceMemory::allocate(device, bytes));
  const std::shared_ptr<DeviceMemory> owner(std::move(memory));
  return std::shared_ptr<std::byte>(owner, static_cast<std::byte*>(owner->data()));
}

Result<DeviceLoad> CudaBackend::device_load(int device) {
  TUTTI_RETURN_IF_ERROR(check_device(device));
  if (nvml_ == nullptr) return unimplemented("cuda: libnvidia-ml.so.1 is missing");
  return nvml_->load_of(device);
}

}  // namespace tutti::cuda
