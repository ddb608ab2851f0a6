// Runs a function on one thread a rank and gathers what the ranks return.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/communicator.h"

namespace tutti {

using Ranks = std::vector<std::shared_ptr<Communicator>>;

inline std::vector<Status> on_all_ranks(const Ranks& ranks,
                                        const std::function<Status(Communicator&)>& body) {
  std::vector<Status> statuses(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] { statuses[i] = body(*ranks[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

inline void expect_all_ok(const std::vector<Status>& statuses) {
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    EXPECT_TRUE(statuses[i].ok()) << "rank " << i << ": " << statuses[i].to_string();
  }
}

}  // namespace tutti
