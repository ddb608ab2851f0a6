#include "backends/cuda/nccl.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <thread>

#include "backends/cuda/memory.h"

namespace tutti::cuda {

// ncclConfig_t up to NCCL 2.18; later fields keep their defaults.
struct NcclLibrary::Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // INT_MIN: NCCL's default
  int min_blocks = INT_MIN;
  int max_blocks = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

namespace {

constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int kBytes = 0;  // ncclInt8
// Making a communicator takes seconds; whoever waits longer waits for a rank that is not there.
constexpr std::chrono::seconds kPatience{60};

}  // namespace

Result<std::shared_ptr<const NcclLibrary>> NcclLibrary::open() {
  // Before NCCL reads it.
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  auto nccl = std::make_shared<NcclLibrary>();
  TUTTI_ASSIGN_OR_RETURN(nccl->library, DynamicLibrary::open("libnccl.so.2"));
  const DynamicLibrary& library = *nccl->library;
  TUTTI_RETURN_IF_ERROR(library.find("ncclGetVersion", &nccl->get_version));
  TUTTI_RETURN_IF_ERROR(library.find("ncclGetUniqueId", &nccl->get_unique_id));
  TUTTI_RETURN_IF_ERROR(library.find("ncclCommInitRankConfig", &nccl->init_rank));
  TUTTI_RETURN_IF_ERROR(library.find("ncclCommAbort", &nccl->abort));
  TUTTI_RETURN_IF_ERROR(library.find("ncclCommGetAsyncError", &nccl->async_error));
  TUTTI_RETURN_IF_ERROR(library.find("ncclSend", &nccl->send));
  TUTTI_RETURN_IF_ERROR(library.find("ncclRecv", &nccl->receive));
  TUTTI_RETURN_IF_ERROR(library.find("ncclGroupStart", &nccl->group_start));
  TUTTI_RETURN_IF_ERROR(library.find("ncclGroupEnd", &nccl->group_end));
  TUTTI_RETURN_IF_ERROR(library.find("ncclGetErrorString", &nccl->error_string));
  int version = 0;
  if (nccl->get_version(&version) != kSuccess || version < 21800) {
    return unimplemented("cuda: ", library.path(), " is NCCL ", version / 10000, ".",
                         version / 100 % 100, ", expected 2.18 or later");
  }
  return std::shared_ptr<const NcclLibrary>(std::move(nccl));
}

Status NcclComm::check(int result, const char* call) const {
  if (result == kSuccess || result == kInProgress) return {};
  return internal_error("cuda: ", call, ": ", nccl_->error_string(result));
}

Status NcclComm::settle(const char* call) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    int state = kSuccess;
    TUTTI_RETURN_IF_ERROR(check(nccl_->async_error(comm_, &state), "ncclCommGetAsyncError"));
    if (state != kInProgress) return check(state, call);
    if (std::chrono::steady_clock::now() > until) {
      return Status(StatusCode::kDeadlineExceeded, str_cat("cuda: ", call, " does not come back"));
    }
    std::this_thread::yield();
  }
}

Result<std::shared_ptr<NcclComm>> NcclComm::create(Communicator& communicator, int device) {
  struct Card {
    NcclLibrary::Id id;
    int device;
  };
  TUTTI_ASSIGN_OR_RETURN(auto nccl, NcclLibrary::open());
  std::shared_ptr<NcclComm> made(new NcclComm(nccl));
  made->rank_ = communicator.rank();
  Card mine{};
  mine.device = device;
  if (made->rank_ == 0) {
    TUTTI_RETURN_IF_ERROR(made->check(nccl->get_unique_id(&mine.id), "ncclGetUniqueId"));
  }
  std::vector<Card> all(static_cast<std::size_t>(communicator.size()));
  TUTTI_RETURN_IF_ERROR(communicator.gather(&mine, all.data(), sizeof mine));
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (all[a].device != all[b].device) continue;
      return invalid_argument("cuda: ranks ", b, " and ", a, " share GPU ", all[a].device,
                              ", which NCCL refuses; TUTTI_CUDA_EXCHANGE=push does not");
    }
  }
  TUTTI_RETURN_IF_ERROR(activate(device));
  NcclLibrary::Config config;
  TUTTI_RETURN_IF_ERROR(made->check(
      nccl->init_rank(&made->comm_, communicator.size(), all[0].id, made->rank_, &config),
      "ncclCommInitRankConfig"));
  TUTTI_RETURN_IF_ERROR(made->settle("ncclCommInitRankConfig"));
  return made;
}

NcclComm::~NcclComm() {
  if (comm_ != nullptr) (void)nccl_->abort(comm_);
}

Status NcclComm::exchange(const std::vector<Piece>& send, const std::vector<Piece>& receive,
                          cudaStream_t stream) {
  TUTTI_RETURN_IF_ERROR(check(nccl_->group_start(), "ncclGroupStart"));
  Status status;
  for (std::size_t peer = 0; peer < send.size() && status.ok(); ++peer) {
    if (static_cast<int>(peer) == rank_) continue;
    const auto number = static_cast<int>(peer);
    if (send[peer].bytes > 0) {
      status = check(nccl_->send(send[peer].data, send[peer].bytes, kBytes, number, comm_, stream),
                     "ncclSend");
    }
    if (status.ok() && receive[peer].bytes > 0) {
      status = check(
          nccl_->receive(receive[peer].data, receive[peer].bytes, kBytes, number, comm_, stream),
          "ncclRecv");
    }
  }
  const Status ended = check(nccl_->group_end(), "ncclGroupEnd");
  TUTTI_RETURN_IF_ERROR(status);
  TUTTI_RETURN_IF_ERROR(ended);
  return settle("ncclGroupEnd");
}

}  // namespace tutti::cuda
