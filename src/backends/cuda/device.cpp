#include "backends/cuda/device.h"

#include <algorithm>

namespace tutti::cuda {
namespace {

// More threads copy no faster: memory is what they wait for.
constexpr int kMostCopyThreads = 8;
// Shorter rows than this go to the device faster when the host packs them.
constexpr std::size_t kShortRow = 4096;

}  // namespace

Result<std::unique_ptr<RankDevice>> CudaRankDevice::create(const RankDeviceOptions& options,
                                                           const DeviceServices& services) {
  std::unique_ptr<CudaRankDevice> device(new CudaRankDevice);
  TUTTI_RETURN_IF_ERROR(device->set_up(options, services));
  return std::unique_ptr<RankDevice>(std::move(device));
}

Status CudaRankDevice::set_up(const RankDeviceOptions& options, const DeviceServices& services) {
  const cudaDeviceProp& properties = services.properties;
  context_.device = options.device;
  context_.rank = options.rank;
  context_.arch = 10 * properties.major + properties.minor;
  context_.multiprocessors = properties.multiProcessorCount;
  context_.shared_bytes = properties.sharedMemPerBlockOptin;
  context_.compiler = services.compiler;
  context_.blas = services.blas;
  context_.cudnn = services.cudnn;
  context_.tuner = services.tuner;
  context_.communicators = options.communicators;
  context_.axes = options.axes;
  context_.exchange_way = services.exchange_way;
  context_.pipelining = services.pipelining;
  context_.fuses_exchanges = services.fuses_exchanges;
  context_.recorder = &recorder_;
  group_ = options.group;
  weights_ = services.weights;
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  TUTTI_CUDA(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking));
  TUTTI_RETURN_IF_ERROR(
      recorder_.set_up(context_.device, context_.stream, group_.get(), services.captures));
  TUTTI_ASSIGN_OR_RETURN(staging_,
                         Staging::create(std::clamp(options.threads, 1, kMostCopyThreads)));
  context_.staging = staging_.get();
  TUTTI_ASSIGN_OR_RETURN(done_, Event::create(false));
  TUTTI_ASSIGN_OR_RETURN(context_.events.ready, Event::create(false));
  TUTTI_ASSIGN_OR_RETURN(context_.events.taken, Event::create(false));
  TUTTI_ASSIGN_OR_RETURN(context_.faults,
                         DeviceMemory::allocate(context_.device, sizeof(FaultWords)));
  TUTTI_CUDA(cudaMemsetAsync(context_.faults->data(), 0, sizeof(FaultWords), context_.stream));
  void* pinned = nullptr;
  TUTTI_CUDA(cudaMallocHost(&pinned, sizeof(FaultWords)));
  seen_faults_ = new (pinned) FaultWords;
  return {};
}

CudaRankDevice::~CudaRankDevice() {
  (void)activate(context_.device);
  if (context_.stream != nullptr && done_ != nullptr &&
      cudaEventRecord(done_->get(), context_.stream) == cudaSuccess) {
    (void)wait_for(done_->get());
  }
  constants_.clear();
  context_.cudnn_handle.reset();  // before its stream
  if (seen_faults_ != nullptr) (void)cudaFreeHost(seen_faults_);
  if (context_.stream != nullptr) (void)cudaStreamDestroy(context_.stream);
}

Result<std::unique_ptr<Kernel>> CudaRankDevice::make_kernel(const KernelSpec& spec) {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  return tutti::cuda::make_kernel(spec, context_);
}

Result<std::unique_ptr<DeviceBuffer>> CudaRankDevice::allocate(std::size_t bytes) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                         DeviceMemory::allocate(context_.device, bytes));
  return std::unique_ptr<DeviceBuffer>(std::move(memory));
}

Result<const void*> CudaRankDevice::place_constant(const Tensor& tensor) {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  TUTTI_ASSIGN_OR_RETURN(auto place,
                         weights_->place(tensor, context_.device, context_.stream, *staging_));
  constants_.push_back(std::move(place));
  return static_cast<const void*>(constants_.back()->data());
}

Status CudaRankDevice::upload(void* target, const void* host, std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  return staging_->upload(context_.stream, target, host, bytes);
}

Status CudaRankDevice::download(void* host, const void* source, std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  return staging_->download(context_.stream, host, source, bytes);
}

Status CudaRankDevice::copy(void* target, const void* source, std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  TUTTI_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, context_.stream));
  return {};
}

Status CudaRankDevice::read_input(const RowCopy& rows) {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  if (rows.rows == 0 || rows.row_bytes == 0) return {};
  TUTTI_ASSIGN_OR_RETURN(const MemoryFacts source, facts_of(rows.source));
  const bool is_one = rows.rows == 1 || (rows.row_bytes == rows.source_stride &&
                                         rows.row_bytes == rows.target_stride);
  const bool is_direct =
      source.is_device || (source.is_pinned && (is_one || rows.row_bytes >= kShortRow));
  if (!is_direct) return staging_->upload_rows(context_.stream, rows);
  if (is_one) {
    TUTTI_CUDA(cudaMemcpyAsync(rows.target, rows.source, rows.rows * rows.row_bytes,
                               cudaMemcpyDefault, context_.stream));
    return {};
  }
  TUTTI_CUDA(cudaMemcpy2DAsync(rows.target, rows.target_stride, rows.source, rows.source_stride,
                               rows.row_bytes, rows.rows, cudaMemcpyDefault, context_.stream));
  return {};
}

Status CudaRankDevice::write_output(void* target, const void* source, std::size_t bytes) {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  TUTTI_ASSIGN_OR_RETURN(const MemoryFacts facts, facts_of(target));
  if (!facts.is_device && !facts.is_pinned) {
    return staging_->download(context_.stream, target, source, bytes);
  }
  TUTTI_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, context_.stream));
  return {};
}

Status CudaRankDevice::finish() {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  TUTTI_CUDA(cudaMemcpyAsync(seen_faults_, context_.faults->data(), sizeof(FaultWords),
                             cudaMemcpyDeviceToHost, context_.stream));
  TUTTI_CUDA(cudaEventRecord(done_->get(), context_.stream));
  TUTTI_RETURN_IF_ERROR(wait_for(done_->get()));
  return check_faults();
}

Status CudaRankDevice::check_faults() {
  if (seen_faults_->count == 0) return {};
  const FaultWords fault = *seen_faults_;
  TUTTI_CUDA(cudaMemsetAsync(context_.faults->data(), 0, sizeof(FaultWords), context_.stream));
  const bool is_known = fault.kernel < context_.fault_names.size();
  const std::string name = is_known ? context_.fault_names[fault.kernel] : "a kernel";
  const std::int64_t size = fault.size;
  return name.ends_with("length")
             ? invalid_argument(name, " ", fault.index, " is not in [0, ", size, "]")
             : invalid_argument(name, ": index ", fault.index, " is not in [-", size, ", ", size,
                                ")");
}

Status CudaRankDevice::begin_recording() {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  return recorder_.begin();
}

Result<std::unique_ptr<Recording>> CudaRankDevice::end_recording() { return recorder_.end(); }

void CudaRankDevice::drop_recording() { recorder_.drop(); }

Status CudaRankDevice::mark(std::size_t i) {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  while (marks_.size() <= i) {
    TUTTI_ASSIGN_OR_RETURN(auto event, Event::create(true));
    marks_.push_back(std::move(event));
  }
  TUTTI_CUDA(cudaEventRecord(marks_[i]->get(), context_.stream));
  return {};
}

Result<double> CudaRankDevice::seconds_between(std::size_t from, std::size_t to) {
  float milliseconds = 0;
  TUTTI_CUDA(cudaEventElapsedTime(&milliseconds, marks_[from]->get(), marks_[to]->get()));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace tutti::cuda
