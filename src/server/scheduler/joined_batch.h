// Several requests as one along the batch axis, and its outputs as theirs again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "server/scheduler/pending_request.h"

namespace tutti::server {

// Requests with the same key may be joined: their inputs differ in the first dimension alone.
std::string join_key(const InferRequest& request);

// `members` are at least two requests with one join key; they outlive the batch.
class JoinedBatch {
 public:
  // Copies the inputs together. Asks for every output that a member asks for.
  explicit JoinedBatch(std::span<const PendingPtr> members);
  ~JoinedBatch();
  JoinedBatch(const JoinedBatch&) = delete;
  JoinedBatch& operator=(const JoinedBatch&) = delete;

  std::int64_t rows() const { return rows_; }
  // Stops when every member is cancelled; its deadline is the latest of theirs.
  const InferRequest& request() const { return request_; }
  const std::shared_ptr<OutputSink>& sink() const { return sink_; }

  // What the model told of its ranks, for the members that want to know. After the run.
  void share_rank_times() const;

  // One result for each member, its rows written to its sink. An output without as many rows as
  // the batch is INTERNAL for all.
  std::vector<Result<InferResult>> split(const InferResult& result) const;

 private:
  struct Memory;
  struct Sink;
  using OnCancel = std::stop_callback<std::function<void()>>;

  void join_inputs();
  void collect_outputs();
  void watch_cancellation();
  using RowOffsets = std::vector<std::size_t>;  // where each row's bytes begin, and the end
  Result<std::vector<RowOffsets>> find_rows(const InferResult& result) const;
  Result<InferResult> split_one(const PendingRequest& member, std::int64_t first_row,
                                const InferResult& result,
                                const std::vector<RowOffsets>& rows) const;

  const std::span<const PendingPtr> members_;
  std::int64_t rows_ = 0;
  InferRequest request_;
  std::vector<RankTimes> rank_times_;
  std::shared_ptr<OutputSink> sink_;
  std::shared_ptr<Sink> outputs_;  // the same
  std::stop_source cancel_;
  std::atomic<std::size_t> uncancelled_;
  std::vector<std::unique_ptr<OnCancel>> callbacks_;
};

}  // namespace tutti::server
