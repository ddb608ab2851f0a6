#include <gmock/gmock.h>

#include <numeric>

#include "fakes.h"
#include "server/scheduler/batch_decision.h"
#include "server/scheduler/joined_batch.h"

namespace tutti::server {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TimePoint at(int ms) { return TimePoint() + milliseconds(ms); }

PendingPtr rows(std::int64_t count, std::string key = "", int queued_ms = 0) {
  auto pending = std::make_shared<PendingRequest>();
  pending->batch_size = count;
  pending->join_key = std::move(key);
  pending->times.queued = at(queued_ms);
  return pending;
}

RequestQueue queue_of(const std::vector<PendingPtr>& requests) {
  RequestQueue queue{SchedulingOptions{}};
  for (const PendingPtr& one : requests) EXPECT_TRUE(queue.push(one, at(0)).ok());
  return queue;
}

BatchingOptions batches(std::int64_t max, std::vector<std::int64_t> preferred = {},
                        int delay_ms = 0) {
  BatchingOptions options;
  options.max_batch_size = max;
  options.preferred = std::move(preferred);
  options.max_queue_delay = milliseconds(delay_ms);
  return options;
}

BatchDecision take(std::size_t count) { return {count, std::nullopt}; }
BatchDecision wait_until(TimePoint time) { return {0, time}; }

TEST(DecideBatch, NothingWaitsForNothing) {
  EXPECT_EQ(decide_batch(queue_of({}), batches(8), at(0)), take(0));
}

TEST(DecideBatch, ModelsThatDoNotBatchTakeOne) {
  EXPECT_EQ(decide_batch(queue_of({rows(1), rows(1)}), batches(0), at(0)), take(1));
  EXPECT_EQ(decide_batch(queue_of({rows(1), rows(1)}), batches(1), at(0)), take(1));
}

TEST(DecideBatch, TakesAllThatFitWithoutADelay) {
  EXPECT_EQ(decide_batch(queue_of({rows(1), rows(2), rows(3)}), batches(8), at(0)), take(3));
}

TEST(DecideBatch, StopsAtTheLargestBatch) {
  EXPECT_EQ(decide_batch(queue_of({rows(10), rows(2), rows(10)}), batches(12), at(0)), take(2));
  EXPECT_EQ(decide_batch(queue_of({rows(10), rows(10), rows(2)}), batches(12), at(0)), take(1));
  EXPECT_EQ(decide_batch(queue_of({rows(12), rows(1)}), batches(12), at(0)), take(1));
}

TEST(DecideBatch, NeverJoinsDifferentSizesNorPassesARequest) {
  const auto queue = queue_of({rows(1, "a"), rows(1, "b"), rows(1, "a")});
  EXPECT_EQ(decide_batch(queue, batches(8, {}, 100), at(0)), take(1));
}

TEST(DecideBatch, SomeRequestsRunAlone) {
  const auto alone = rows(1);
  alone->joins = false;
  EXPECT_EQ(decide_batch(queue_of({alone, rows(1)}), batches(8, {}, 100), at(0)), take(1));
  EXPECT_EQ(decide_batch(queue_of({rows(1), alone, rows(1)}), batches(8, {}, 100), at(0)), take(1));
}

TEST(DecideBatch, WaitsForMoreUntilTheOldestHasWaitedLongEnough) {
  const auto queue = queue_of({rows(2, "", 5), rows(1, "", 8)});
  EXPECT_EQ(decide_batch(queue, batches(8, {}, 10), at(9)), wait_until(at(15)));
  EXPECT_EQ(decide_batch(queue, batches(8, {}, 10), at(15)), take(2));
  EXPECT_EQ(decide_batch(queue, batches(8, {}, 10), at(9), false), take(2));
}

TEST(DecideBatch, MakesAPreferredSizeAtOnce) {
  const auto queue = queue_of({rows(1), rows(1), rows(1), rows(2)});
  EXPECT_EQ(decide_batch(queue, batches(16, {2, 3}, 10), at(0)), take(3));
  EXPECT_EQ(decide_batch(queue, batches(16, {4}, 10), at(0)), wait_until(at(10)));
  EXPECT_EQ(decide_batch(queue, batches(16, {4}, 10), at(10)), take(4));
  EXPECT_EQ(decide_batch(queue, batches(5, {}, 10), at(0)), take(4));
}

// An input x: [n, width] FP32 counting from `first`, and maybe BYTES s: [n, 1].
struct Member {
  PendingPtr pending = std::make_shared<PendingRequest>();
  std::shared_ptr<test::VectorSink> sink = std::make_shared<test::VectorSink>();
  std::vector<float> values;
  std::string text;
};

Member member(std::int64_t n, float first, std::vector<std::string> outputs,
              std::vector<std::string> strings = {}) {
  Member one;
  one.values.resize(static_cast<std::size_t>(n) * 3);
  std::iota(one.values.begin(), one.values.end(), first);
  one.pending->batch_size = n;
  InferRequest& request = one.pending->request;
  request.inputs.push_back({"x", DType::kFloat32, {n, 3}, std::as_bytes(std::span(one.values))});
  if (!strings.empty()) {
    one.text = test::bytes_tensor(strings);
    // In front: the order of inputs is the client's business.
    request.inputs.insert(request.inputs.begin(),
                          {"s", DType::kString, {n, 1}, test::as_span(one.text)});
  }
  request.outputs = std::move(outputs);
  one.pending->sink = one.sink;
  return one;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Every output is the input of the same name.
InferResult echo(const JoinedBatch& batch) {
  InferResult result;
  for (std::size_t i = 0; i < batch.request().outputs.size(); ++i) {
    for (const InferInput& input : batch.request().inputs) {
      if (input.name != batch.request().outputs[i]) continue;
      OutputDesc output{input.name, input.dtype, input.shape};
      std::byte* data = *batch.sink()->allocate(i, output, input.data.size());
      std::memcpy(data, input.data.data(), input.data.size());
      result.outputs.push_back(std::move(output));
    }
  }
  return result;
}

TEST(JoinedBatch, EveryRowReturnsToItsOwner) {
  std::vector<Member> members;
  members.push_back(member(10, 0, {"x"}));
  members.push_back(member(2, 100, {"x"}));
  members.push_back(member(10, 200, {"x"}));
  std::vector<PendingPtr> requests;
  for (const Member& one : members) requests.push_back(one.pending);
  const JoinedBatch batch(requests);
  EXPECT_EQ(batch.rows(), 22);
  EXPECT_THAT(batch.request().inputs[0].shape, ElementsAre(22, 3));
  const auto results = batch.split(echo(batch));
  for (std::size_t i = 0; i < members.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status().message();
    EXPECT_THAT(results[i]->outputs[0].shape, ElementsAre(members[i].pending->batch_size, 3));
    EXPECT_EQ(floats(members[i].sink->outputs[0]), members[i].values);
  }
}

TEST(JoinedBatch, StringsAreSplitByElements) {
  const Member a = member(2, 0, {"s"}, {"", "four"}), b = member(1, 9, {"x", "s"}, {"a\0b"});
  const std::vector<PendingPtr> requests = {a.pending, b.pending};
  const JoinedBatch batch(requests);
  EXPECT_THAT(batch.request().outputs, ElementsAre("s", "x"));
  const auto results = batch.split(echo(batch));
  ASSERT_TRUE(results[0].ok() && results[1].ok());
  const auto text = [](const std::vector<std::byte>& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(text(a.sink->outputs[0]), a.text);
  EXPECT_EQ(floats(b.sink->outputs[0]), b.values);
  EXPECT_EQ(text(b.sink->outputs[1]), b.text);
}

TEST(JoinedBatch, OutputsWithoutTheBatchAreAnError) {
  const Member a = member(2, 0, {"x"}), b = member(1, 9, {"x"});
  const std::vector<PendingPtr> requests = {a.pending, b.pending};
  const JoinedBatch batch(requests);
  InferResult result;
  result.outputs.push_back({"x", DType::kFloat32, {1, 9}});
  ASSERT_TRUE(batch.sink()->allocate(0, result.outputs[0], 36).ok());
  for (const auto& one : batch.split(result)) {
    EXPECT_EQ(one.status().code(), StatusCode::kInternal);
    EXPECT_THAT(one.status().message(), HasSubstr("output 'x' of a batch of 3 has shape [1, 9]"));
  }
}

TEST(JoinedBatch, StopsWhenAllMembersAreCancelled) {
  std::stop_source first, second;
  const Member a = member(1, 0, {"x"}), b = member(1, 9, {"x"});
  a.pending->request.cancel = first.get_token();
  b.pending->request.cancel = second.get_token();
  const std::vector<PendingPtr> requests = {a.pending, b.pending};
  const JoinedBatch batch(requests);
  first.request_stop();
  EXPECT_FALSE(batch.request().cancel.stop_requested());
  second.request_stop();
  EXPECT_TRUE(batch.request().cancel.stop_requested());
}

TEST(JoinKey, TellsOtherSizesApartButNeitherBatchesNorTheOrderOfInputs) {
  const auto key = [](Dims x, Dims y, bool is_swapped = false) {
    InferRequest request;
    request.inputs = {{"x", DType::kFloat32, std::move(x), {}},
                      {"y", DType::kFloat32, std::move(y), {}}};
    if (is_swapped) std::swap(request.inputs[0], request.inputs[1]);
    return join_key(request);
  };
  EXPECT_EQ(key({1, 4}, {1}), key({9, 4}, {9}));
  EXPECT_EQ(key({1, 4}, {1, 5}), key({1, 4}, {1, 5}, true));
  EXPECT_NE(key({1, 4}, {1, 5}), key({1, 5}, {1, 4}));
  EXPECT_NE(key({1, 4}, {1}), key({1, 5}, {1}));
}

}  // namespace
}  // namespace tutti::server
