// The communicator of ranks that are threads of one process: every rank reads its peers' buffers.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace tutti {

struct LocalCommunicatorOptions {
  // Longest wait for the other ranks inside one collective call; zero means no limit. When it runs
  // out, all ranks get DEADLINE_EXCEEDED with the names of those that did not come.
  std::chrono::milliseconds timeout{0};
  // Where there are more cores than ranks, waiting spins for some microseconds before it blocks.
  int cores = 0;  // 0: as many as the machine has
};

// One group's shared state; its communicators keep it alive.
class LocalGroup;

// One communicator a rank. Each is used by one thread at a time, abort() by any. When a call has
// returned, with or without an error, no other rank reads this rank's buffers or plan any more.
std::vector<std::shared_ptr<Communicator>> make_local_communicators(
    int size, const LocalCommunicatorOptions& options = {});

// The same with the group, for owners that renew it after an abort.
std::shared_ptr<LocalGroup> make_local_group(int size, const LocalCommunicatorOptions& options);
std::shared_ptr<Communicator> local_communicator(const std::shared_ptr<LocalGroup>& group,
                                                 int rank);
// Forgets an abort. No rank may be inside a call.
void renew(LocalGroup& group);

}  // namespace tutti
