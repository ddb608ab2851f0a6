// A stand-in for libnccl.so.2, as far as the backend uses it: communicators that are made in the
// background, sends and receives in groups. It refuses what NCCL refuses.
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mail.h"

namespace tutti::cuda_emulator {
namespace {

enum Result {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kInProgress = 7
};

struct Id {
  char bytes[128];
};

// ncclConfig_t up to NCCL 2.18.
struct Config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
};

// The communicators of one id.
struct Ring {
  std::mutex mutex;
  // Under mutex.
  int ranks = 0;
  std::set<int> joined;
  // By sender, receiver and number; kept until both have taken theirs.
  std::map<std::vector<int>, std::shared_ptr<Mail>> mails;

  std::shared_ptr<Mail> take(int from, int to, int number) {
    const std::lock_guard lock(mutex);
    const std::vector<int> key = {from, to, number};
    if (const auto found = mails.find(key); found != mails.end()) {
      std::shared_ptr<Mail> mail = found->second;
      mails.erase(found);
      return mail;
    }
    return mails.emplace(key, std::make_shared<Mail>()).first->second;
  }
};

struct Comm {
  std::shared_ptr<Ring> ring;
  int rank = 0;
  std::map<int, int> sent;      // messages, by peer
  std::map<int, int> received;  // likewise
};

struct Message {
  Comm* comm;
  int peer;
  void* data;
  std::size_t bytes;
  cudaStream_t stream;
};

// What the calling thread has asked for since ncclGroupStart.
struct Group {
  int depth = 0;
  std::vector<Message> sends;
  std::vector<Message> receives;
};
Group& group() {
  thread_local Group made;
  return made;
}

std::shared_ptr<Ring> ring_of(const Id& id) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Ring>> rings;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Ring>& known = rings[std::string(id.bytes, sizeof id.bytes)];
  std::shared_ptr<Ring> ring = known.lock();
  if (ring == nullptr) known = ring = std::make_shared<Ring>();
  return ring;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22800;
  return kSuccess;
}

const char* ncclGetErrorString(int result) {
  return result == kInvalidUsage ? "invalid usage" : "an error of the emulated NCCL";
}

int ncclGetUniqueId(Id* id) {
  static std::mutex mutex;
  static int count = 0;
  const std::lock_guard lock(mutex);
  *id = {};
  ++count;
  std::memcpy(id->bytes, &count, sizeof count);
  return kSuccess;
}

// In progress until all ranks are here.
int ncclCommInitRankConfig(Comm** made, int ranks, Id id, int rank, const Config* config) {
  *made = nullptr;
  if (config->magic != 0xcafebeef || config->blocking != 0 || rank < 0 || rank >= ranks) {
    return kInvalidArgument;
  }
  auto comm = std::make_unique<Comm>();
  comm->ring = ring_of(id);
  comm->rank = rank;
  const std::lock_guard lock(comm->ring->mutex);
  comm->ring->ranks = ranks;
  if (!comm->ring->joined.insert(rank).second) return kInvalidUsage;
  *made = comm.release();
  return kInProgress;
}

int ncclCommGetAsyncError(Comm* comm, int* state) {
  const std::lock_guard lock(comm->ring->mutex);
  const bool is_whole = static_cast<int>(comm->ring->joined.size()) == comm->ring->ranks;
  *state = is_whole ? kSuccess : kInProgress;
  return kSuccess;
}

// Those who wait for its messages go on without them.
int ncclCommAbort(Comm* comm) {
  {
    const std::lock_guard lock(comm->ring->mutex);
    for (const auto& [key, mail] : comm->ring->mails) give_up(*mail);
    comm->ring->mails.clear();
  }
  delete comm;
  return kSuccess;
}

int ncclGroupStart() {
  ++group().depth;
  return kSuccess;
}

int ncclSend(const void* data, std::size_t bytes, int type, int peer, Comm* comm,
             cudaStream_t stream) {
  if (type != 0 || peer == comm->rank || group().depth == 0) return kInvalidArgument;
  group().sends.push_back({comm, peer, const_cast<void*>(data), bytes, stream});
  return kSuccess;
}

int ncclRecv(void* data, std::size_t bytes, int type, int peer, Comm* comm, cudaStream_t stream) {
  if (type != 0 || peer == comm->rank || group().depth == 0) return kInvalidArgument;
  group().receives.push_back({comm, peer, data, bytes, stream});
  return kSuccess;
}

// Sends first, so that two ranks which send to each other do not wait for each other.
int ncclGroupEnd() {
  Group& mine = group();
  if (mine.depth == 0) return kInvalidUsage;
  if (--mine.depth > 0) return kSuccess;
  cudaError_t error = cudaSuccess;
  for (const Message& m : mine.sends) {
    const auto mail = m.comm->ring->take(m.comm->rank, m.peer, m.comm->sent[m.peer]++);
    if (error == cudaSuccess) error = add_send(m.stream, mail, m.data, m.bytes);
  }
  for (const Message& m : mine.receives) {
    const auto mail = m.comm->ring->take(m.peer, m.comm->rank, m.comm->received[m.peer]++);
    if (error == cudaSuccess) error = add_receive(m.stream, mail, m.data, m.bytes);
  }
  mine.sends.clear();
  mine.receives.clear();
  return error == cudaSuccess ? kSuccess : kUnhandledCudaError;
}

}  // extern "C"

}  // namespace tutti::cuda_emulator
