#include "backends/cuda/device.h"

namespace tutti::cuda {
namespace {

// A captured CUDA graph.
class GraphRecording final : public Recording {
 public:
  static Result<std::unique_ptr<Recording>> create(cudaGraph_t graph, cudaStream_t stream) {
    cudaGraphExec_t executable = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
    (void)cudaGraphDestroy(graph);
    TUTTI_RETURN_IF_ERROR(to_status(made, "cudaGraphInstantiate"));
    std::unique_ptr<Recording> recording(new GraphRecording(executable, stream));
    TUTTI_CUDA(cudaGraphUpload(executable, stream));
    return recording;
  }
  ~GraphRecording() override { (void)cudaGraphExecDestroy(executable_); }
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;
  Status replay() override {
    return to_status(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
  }

 private:
  GraphRecording(cudaGraphExec_t executable, cudaStream_t stream)
      : executable_(executable), stream_(stream) {}
  cudaGraphExec_t executable_;
  cudaStream_t stream_;
};

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
  weights_ = services.weights;
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  TUTTI_CUDA(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking));
  TUTTI_ASSIGN_OR_RETURN(staging_, Staging::create());
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
  const KernelFactory factory = kernel_table().find(spec.node.type());
  if (factory == nullptr) {
    return unimplemented("the cuda backend has no kernel for ", spec.node.type());
  }
  return factory(spec, context_);
}

Result<std::unique_ptr<DeviceBuffer>> CudaRankDevice::allocate(std::size_t bytes) {
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                         DeviceMemory::allocate(context_.device, bytes));
  return std::unique_ptr<DeviceBuffer>(std::move(memory));
}

Result<const void*> CudaRankDevice::place_constant(const Tensor& tensor) {
  TUTTI_RETURN_IF_ERROR(activate(context_.device));
  std::shared_ptr<DeviceMemory>& place = constants_[tensor.data()];
  if (place == nullptr || place->size() != tensor.byte_size()) {
    TUTTI_ASSIGN_OR_RETURN(place,
                           weights_->place(tensor, context_.device, context_.stream, *staging_));
  }
  return static_cast<const void*>(place->data());
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
  // Other ranks' threads go on calling CUDA meanwhile.
  TUTTI_CUDA(cudaStreamBeginCapture(context_.stream, cudaStreamCaptureModeThreadLocal));
  return {};
}

Result<std::unique_ptr<Recording>> CudaRankDevice::end_recording() {
  cudaGraph_t graph = nullptr;
  TUTTI_CUDA(cudaStreamEndCapture(context_.stream, &graph));
  return GraphRecording::create(graph, context_.stream);
}

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
