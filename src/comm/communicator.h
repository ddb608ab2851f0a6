// Data moving between the ranks of one group. Backends: local (threads of one process, here),
// nccl and mpi (later), each behind this interface.
//
// Every function is collective: all ranks of the communicator call it, in the same order, with
// plans that agree. A call returns an error on all ranks once any rank has called abort().
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tutti {

// A box of bytes inside a buffer: `sizes` counts (outermost first), `strides` in bytes, and
// `run` contiguous bytes at each position. An empty box has a 0 among its sizes or run == 0.
struct Region {
  int buffer = 0;          // index into the pointers given to exchange()
  std::size_t offset = 0;  // bytes
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t run = 0;

  std::int64_t byte_size() const;
};

// What one rank sends and receives in one exchange. For ranks p and q, the regions that p sends to
// q and those that q receives from p are as many, with equal sizes and runs, in the same order.
// A rank's own piece is a region sent to itself.
struct ExchangePlan {
  std::vector<std::vector<Region>> send;     // by destination rank
  std::vector<std::vector<Region>> receive;  // by source rank

  std::int64_t sent_bytes(int self) const;  // to other ranks
};

enum class ReduceOp { kSum, kMax, kMin };

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Moves the plan's regions. `sources` and `targets` are what Region::buffer indexes on each side;
  // they do not overlap. Returns when this rank's targets are filled and its sources may be reused.
  virtual Status exchange(const ExchangePlan& plan, std::span<const void* const> sources,
                          std::span<void* const> targets) = 0;

  // target = op over all ranks' source, element by element, in rank order on every rank, so that
  // all ranks get the same bits. source and target may be the same.
  virtual Status all_reduce(const void* source, void* target, std::int64_t count, DType dtype,
                            ReduceOp op) = 0;

  virtual Status barrier() = 0;

  // all[r * bytes ..] = the `bytes` bytes at rank r's `mine`, in host memory: for backends whose
  // ranks tell each other addresses and events and then move data themselves.
  virtual Status gather(const void* mine, void* all, std::size_t bytes) = 0;
  // Counts bytes that a backend sent itself.
  virtual void add_sent(std::int64_t bytes) = 0;

  // From any thread, any number of times: every pending and later call on any rank of the group
  // returns this error (the first one given wins). Not collective.
  virtual void abort(const Status& reason) = 0;

  // Bytes that exchange() and add_sent() count for other ranks since the start, for reports.
  virtual std::int64_t sent_bytes() const { return 0; }
};

}  // namespace tutti
