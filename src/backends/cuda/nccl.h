// NCCL, found at run time: the way for ranks whose cards do not reach each other's memory, and what
// our own exchanges are measured against. NVLink multicast stays off.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "backends/cuda/dynamic_library.h"
#include "comm/communicator.h"

namespace tutti::cuda {

// libnccl.so.2, as far as it is used here. Types and numbers are those of its nccl.h.
struct NcclLibrary {
  static Result<std::shared_ptr<const NcclLibrary>> open();

  struct Id {
    char bytes[128];
  };
  struct Config;
  using Comm = struct ncclComm*;

  std::shared_ptr<DynamicLibrary> library;
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(Id*) = nullptr;
  int (*init_rank)(Comm*, int ranks, Id, int rank, Config*) = nullptr;
  int (*abort)(Comm) = nullptr;
  int (*async_error)(Comm, int*) = nullptr;
  int (*send)(const void*, std::size_t, int type, int peer, Comm, cudaStream_t) = nullptr;
  int (*receive)(void*, std::size_t, int type, int peer, Comm, cudaStream_t) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*error_string)(int) = nullptr;
};

// This rank's end of NCCL's communicator along one mesh axis. Used by the rank's thread.
class NcclComm {
 public:
  // Collective over `communicator`, whose ranks must be on different cards. Errors: NOT_FOUND for a
  // missing library; INVALID_ARGUMENT for ranks that share a card, which NCCL refuses; what NCCL
  // says.
  static Result<std::shared_ptr<NcclComm>> create(Communicator& communicator, int device);
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  // Of all ranks in one step. By rank: bytes and where they lie; those to itself do not travel.
  struct Piece {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  Status exchange(const std::vector<Piece>& send, const std::vector<Piece>& receive,
                  cudaStream_t stream);

 private:
  explicit NcclComm(std::shared_ptr<const NcclLibrary> nccl) : nccl_(std::move(nccl)) {}
  Status check(int result, const char* call) const;
  Status settle(const char* call);  // waits for what goes on in the background

  const std::shared_ptr<const NcclLibrary> nccl_;
  NcclLibrary::Comm comm_ = nullptr;
  int rank_ = 0;
};

}  // namespace tutti::cuda
