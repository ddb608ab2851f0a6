#include "backends/cuda/backend.h"

namespace tutti::cuda {

Result<std::unique_ptr<Backend>> CudaBackend::create() {
  std::unique_ptr<CudaBackend> backend(new CudaBackend);
  TUTTI_RETURN_IF_ERROR(backend->find_devices());
  TUTTI_ASSIGN_OR_RETURN(backend->compiler_, KernelCompiler::create());
  TUTTI_RETURN_IF_ERROR(backend->open_libraries());
  return std::unique_ptr<Backend>(std::move(backend));
}

Status CudaBackend::open_libraries() {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    Device& device = devices_[i];
    const int arch = 10 * device.properties.major + device.properties.minor;
    TUTTI_ASSIGN_OR_RETURN(device.blas, Blas::create(static_cast<int>(i)));
    auto cudnn = Cudnn::create(static_cast<int>(i), arch);
    if (cudnn.ok()) device.cudnn = *std::move(cudnn);
    cudnn_ = device.cudnn != nullptr ? str_cat("cuDNN ", device.cudnn->version())
                                     : str_cat("no cuDNN (", cudnn.status().message(), ")");
    // What is fastest holds for a card and the libraries that were compared.
    device.tuner = std::make_unique<Tuner>(
        cache_folder(), str_cat(device.properties.name, ", ", cudnn_), static_cast<int>(i));
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
  }
  return {};
}

std::string CudaBackend::describe() const {
  int driver = 0;
  (void)cudaDriverGetVersion(&driver);
  return str_cat(devices_.size(), " x ", devices_.front().properties.name, " (sm_",
                 10 * devices_.front().properties.major + devices_.front().properties.minor,
                 "), CUDA driver ", driver / 1000, ".", driver % 1000 / 10, ", NVRTC ",
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
  services.properties = device.properties;
  return CudaRankDevice::create(options, services);
}

}  // namespace tutti::cuda
