// CUDA's run time for streams, events, graphs and kernels.
#include <cuda_runtime_api.h>

#include "capture.h"
#include "kernels.h"
#include "thread_state.h"

namespace tutti::cuda_emulator {
namespace {

// f(machine, lock, stream) -> cudaError_t, under the machine's lock.
template <class F>
cudaError_t with_stream(cudaStream_t handle, F&& f) {
  Machine& machine = Machine::get();
  auto lock = machine.lock();
  Stream* stream = machine.stream(handle, thread_state().device);
  if (stream == nullptr) return finish(cudaErrorInvalidResourceHandle);
  if (machine.failure() != cudaSuccess) return finish(machine.failure());
  return finish(f(machine, lock, *stream));
}

template <class F>
cudaError_t with_event(cudaEvent_t handle, F&& f) {
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  Event* event = machine.event(handle);
  if (event == nullptr) return finish(cudaErrorInvalidResourceHandle);
  if (machine.failure() != cudaSuccess) return finish(machine.failure());
  return finish(f(machine, *event));
}

GraphNodes* to_nodes(void* handle) { return static_cast<GraphNodes*>(handle); }

}  // namespace

extern "C" {

// --- Streams ------------------------------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const auto lock = Machine::get().lock();
  *stream = Machine::get().add_stream(thread_state().device);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreate(stream);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return cudaStreamCreate(stream);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Machine& machine = Machine::get();
  const auto lock = machine.lock();
  Stream* stream = handle == nullptr ? nullptr : machine.stream(handle, 0);
  if (stream == nullptr) return finish(cudaErrorInvalidResourceHandle);
  leave_capture(*stream);
  machine.remove_stream(handle);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream(handle, [](Machine& machine, auto& lock, Stream& stream) {
    if (stream.capture != nullptr) {
      stream.capture->broken = cudaErrorStreamCaptureInvalidated;
      return cudaErrorStreamCaptureUnsupported;
    }
    machine.wait(lock, [&] { return machine.is_idle(stream); });
    return machine.failure();
  });
}
cudaError_t cudaDeviceSynchronize() {
  Machine& machine = Machine::get();
  auto lock = machine.lock();
  machine.wait(lock, [&] { return machine.is_device_idle(thread_state().device); });
  return finish(machine.failure());
}

// --- Events -------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const auto lock = Machine::get().lock();
  *event = Machine::get().add_event(thread_state().device, (flags & cudaEventDisableTiming) == 0);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto lock = Machine::get().lock();
  return Machine::get().remove_event(event) ? cudaSuccess : finish(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return with_stream(stream_handle, [&](Machine& machine, auto&, Stream& stream) {
    Event* event = machine.event(handle);
    return event == nullptr ? cudaErrorInvalidResourceHandle : record_event(stream, *event);
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags) {
  return with_stream(stream_handle, [&](Machine& machine, auto&, Stream& stream) {
    Event* event = machine.event(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    return flags != 0 ? cudaErrorInvalidValue : wait_for_event(stream, *event);
  });
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return with_event(handle, [](Machine& machine, Event& event) {
    if (event.capture != nullptr) {
      event.capture->broken = cudaErrorStreamCaptureInvalidated;
      return cudaErrorCapturedEvent;
    }
    if (event.marker == nullptr || event.marker->is_done) return cudaSuccess;
    machine.demand();
    return cudaErrorNotReady;
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return with_event(from, [&](Machine& machine, Event& first) {
    Event* last = machine.event(to);
    if (last == nullptr || !first.has_time || !last->has_time || first.marker == nullptr ||
        last->marker == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!first.marker->is_done || !last->marker->is_done) return cudaErrorNotReady;
    *milliseconds = static_cast<float>((last->marker->seconds - first.marker->seconds) * 1e3);
    return cudaSuccess;
  });
}

// --- Graphs -------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  return with_stream(handle, [&](Machine&, auto&, Stream& stream) {
    return handle == nullptr ? cudaErrorStreamCaptureUnsupported : begin_capture(stream);
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  return with_stream(handle, [&](Machine&, auto&, Stream& stream) {
    auto nodes = std::make_unique<GraphNodes>();
    const cudaError_t error = end_capture(stream, nodes.get());
    if (error == cudaSuccess) *graph = reinterpret_cast<cudaGraph_t>(nodes.release());
    return error;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new GraphNodes(*to_nodes(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete to_nodes(graph);
  return cudaSuccess;
}
// It may be under way.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  Machine& machine = Machine::get();
  auto lock = machine.lock();
  for (int device = 0; device < machine.devices(); ++device) {
    machine.wait(lock, [&] { return machine.is_device_idle(device); });
  }
  delete to_nodes(executable);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return with_stream(handle, [&](Machine&, auto&, Stream& stream) {
    if (stream.capture != nullptr) return cudaErrorStreamCaptureUnsupported;
    const GraphNodes* nodes = to_nodes(executable);
    Step step{"a graph", [nodes] { return run_graph(*nodes, Machine::get()); }, 0, nullptr,
              nullptr};
    for (const GraphNode& node : *nodes) step.seconds += node.step.seconds;
    add_work(stream, std::move(step));
    return cudaSuccess;
  });
}

// --- Kernels ------------------------------------------------------------------------------------

// A library is the machine code itself.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  *library = reinterpret_cast<cudaLibrary_t>(new std::string(static_cast<const char*>(code)));
  return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  auto loaded = load_kernel(reinterpret_cast<std::string*>(library)->c_str(), name, Machine::get());
  if (loaded == nullptr) return finish(cudaErrorInvalidKernelImage);
  *kernel = reinterpret_cast<cudaKernel_t>(loaded.release());
  return cudaSuccess;
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t handle, cudaFuncAttribute attribute,
                                            int value, int device) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value > 227 << 10) {
    return finish(cudaErrorInvalidValue);
  }
  const auto lock = Machine::get().lock();
  reinterpret_cast<LoadedKernel*>(handle)->most_shared[device] = static_cast<std::size_t>(value);
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* handle, dim3 blocks, dim3 threads, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream_handle) {
  return with_stream(stream_handle, [&](Machine&, auto&, Stream& stream) {
    const auto& kernel = *static_cast<const LoadedKernel*>(handle);
    const GridShape shape{
        {blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z}, shared_bytes};
    if (stream.device != thread_state().device) return cudaErrorInvalidResourceHandle;
    const cudaError_t refused = check_launch(kernel, shape, stream.device);
    if (refused != cudaSuccess) return refused;
    add_work(stream, launch_step(kernel, shape, stream.device, arguments[0]));
    return cudaSuccess;
  });
}

}  // extern "C"

}  // namespace tutti::cuda_emulator
