// How ranks of this process read each other's memory in order, without waiting for the device.
#pragma once

#include <vector>

#include "backends/cuda/generated_kernel.h"
#include "comm/transfer_plan.h"

namespace tutti::cuda {

// One exchange along a mesh axis. Between open() and close() the rank's stream may read and write
// what every rank gave to open(); what ranks write there must not overlap. Both are collective.
// Hosts meet for the order of events; no one waits for a device, and no kernel waits for another.
// In a recording, the events become edges of the graph.
class Meeting {
 public:
  // `buffers`: how many addresses every rank gives.
  Meeting(RankContext& context, std::shared_ptr<Communicator> communicator, std::size_t buffers);

  int size() const { return communicator_ == nullptr ? 1 : communicator_->size(); }
  int rank() const { return communicator_ == nullptr ? 0 : communicator_->rank(); }

  // Errors: an abort of the group; a rank whose memory this device cannot reach.
  Status open(std::span<const void* const> mine);
  // Rank r's buffer i, after open().
  const void* buffer(int rank, std::size_t i) const {
    return reinterpret_cast<const void*>(
        all_[static_cast<std::size_t>(rank) * words_ + kFirstBuffer + i]);
  }
  // After this, the others have read and written what the rank gave to open().
  Status close();
  void add_sent(std::int64_t bytes);

 private:
  static constexpr std::size_t kFirstBuffer = 2;  // after the device and the event
  RankContext& context_;
  std::shared_ptr<Communicator> communicator_;  // null for one rank
  std::size_t words_;
  std::vector<std::uint64_t> mine_;
  std::vector<std::uint64_t> all_;
  std::vector<std::uint64_t> taken_;
};

// Lets kernels of the rank's device address the memory of `device`. UNIMPLEMENTED where they
// cannot.
Status reach_device(RankContext& context, int device);

// Copies between `buffers` buffers. Addresses: the buffers.
class BoxCopies {
 public:
  struct Box {
    Region from;
    int source = 0;  // buffer
    Region to;
    int target = 0;
  };
  static Result<BoxCopies> create(RankContext& context, const std::vector<Box>& boxes,
                                  std::size_t buffers);
  // `addresses` has a place more than buffers, for this class.
  Status run(std::span<const void*> addresses);

 private:
  std::vector<GeneratedKernel> kernel_;  // one or none
  std::shared_ptr<DeviceMemory> boxes_;
};

}  // namespace tutti::cuda
