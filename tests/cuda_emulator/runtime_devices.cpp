// CUDA's run time for devices, errors and peers.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "kernels.h"
#include "thread_state.h"

namespace tutti::cuda_emulator {
namespace {

bool is_device(int device) { return device >= 0 && device < Machine::get().devices(); }

// As the driver's cuMemGetAddressRange.
int address_range(unsigned long long* base, std::size_t* size, unsigned long long address) {
  const auto found = Machine::get().memory().find(reinterpret_cast<const void*>(address));
  if (!found) return 1;
  *base = found->begin;
  *size = found->size;
  return 0;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Machine::get().devices();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return finish(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Emulated device");
  properties->major = 9;
  properties->minor = 0;
  // Few, so that loops over the grid go round.
  properties->multiProcessorCount = 4;
  properties->sharedMemPerBlock = std::size_t{48} << 10;
  properties->sharedMemPerBlockOptin = std::size_t{227} << 10;
  properties->totalGlobalMem = Machine::get().memory().capacity();
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return finish(cudaErrorInvalidDevice);
  thread_state().device = device;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (!is_device(device)) return finish(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return finish(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  const int device = thread_state().device;
  if (!is_device(peer) || peer == device || flags != 0) return finish(cudaErrorInvalidDevice);
  return Peers::get().enable(device, peer) ? cudaSuccess
                                           : finish(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool is_known = std::strcmp(name, "cuMemGetAddressRange") == 0;
  *function = is_known ? reinterpret_cast<void*>(&address_range) : nullptr;
  *result = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  // What has gone wrong on a device stays.
  const cudaError_t failure = [] {
    const auto lock = Machine::get().lock();
    return Machine::get().failure();
  }();
  const cudaError_t last = failure != cudaSuccess ? failure : thread_state().last_error;
  thread_state().last_error = cudaSuccess;
  return last;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorIllegalState: return "the operation cannot be performed in the present state";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled: return "peer access is already enabled";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge:
      return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched:
      return "capture was not ended in the same stream as it began";
    case cudaErrorStreamCaptureUnjoined: return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorDeviceUninitialized: return "invalid device context";
    default: return "an error of CUDA";
  }
}

}  // extern "C"

}  // namespace tutti::cuda_emulator
