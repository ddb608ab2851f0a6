#include "server/scheduler/scheduler.h"

#include <gmock/gmock.h>

#include <cstring>
#include <deque>
#include <future>
#include <stdexcept>
#include <thread>

#include "fakes.h"

namespace tutti::server {
namespace {

using test::Gate;
using test::IdentityModel;

class ThrowingModel : public ServableModel {
 public:
  Result<InferResult> infer(const InferRequest&, const std::shared_ptr<OutputSink>&) override {
    throw std::runtime_error("boom");
  }
};

std::vector<std::unique_ptr<ServableModel>> gated(const std::shared_ptr<Gate>& gate,
                                                  int count = 1) {
  std::vector<std::unique_ptr<ServableModel>> models;
  for (int i = 0; i < count; ++i) models.push_back(std::make_unique<IdentityModel>(gate));
  return models;
}

struct Sent {
  PendingPtr pending;
  std::future<Status> answer;
  Status wait() { return answer.get(); }
  bool is_answered() {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
};

Sent make(std::optional<std::chrono::milliseconds> timeout = std::nullopt,
          std::stop_token cancel = {}) {
  auto promise = std::make_shared<std::promise<Status>>();
  auto pending = std::make_shared<PendingRequest>();
  pending->request.inputs.push_back({"x", DType::kFloat32, {0}, {}});
  pending->request.outputs = {"y"};
  pending->request.cancel = std::move(cancel);
  if (timeout) pending->request.deadline = std::chrono::steady_clock::now() + *timeout;
  pending->sink = std::make_shared<test::VectorSink>();
  pending->done = [promise](PendingRequest&, Result<InferResult> result) {
    promise->set_value(result.status());
  };
  return {pending, promise->get_future()};
}

TEST(Scheduler, AnswersRequestsInTheirOrder) {
  auto gate = std::make_shared<Gate>();
  Scheduler scheduler(gated(gate), 10);
  std::vector<int> order;
  std::vector<Sent> sent;
  for (int i = 0; i < 4; ++i) {
    sent.push_back(make());
    auto inner = sent.back().pending->done;
    sent.back().pending->done = [&order, i, inner](PendingRequest& p, Result<InferResult> r) {
      order.push_back(i);
      inner(p, std::move(r));
    };
    ASSERT_TRUE(scheduler.enqueue(sent.back().pending).ok());
  }
  gate->open();
  for (Sent& one : sent) EXPECT_TRUE(one.wait().ok());
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3));
}

TEST(Scheduler, InstancesWorkAtTheSameTime) {
  auto gate = std::make_shared<Gate>();
  Scheduler scheduler(gated(gate, 3), 10);
  std::vector<Sent> sent;
  for (int i = 0; i < 3; ++i) {
    sent.push_back(make());
    ASSERT_TRUE(scheduler.enqueue(sent.back().pending).ok());
  }
  gate->await_arrivals(3);  // would hang if one waited for another
  EXPECT_EQ(scheduler.running(), 3U);
  gate->open();
  for (Sent& one : sent) EXPECT_TRUE(one.wait().ok());
}

// Takes requests ahead: their turn comes one after the other.
class PreparingModel final : public ServableModel {
 public:
  PreparingModel(std::shared_ptr<Gate> gate, int most) : gate_(std::move(gate)), most_(most) {}
  int concurrency() const override { return most_; }
  Result<InferResult> infer(const InferRequest&, const std::shared_ptr<OutputSink>&) override {
    gate_->wait();
    InferResult result;
    result.started = result.inputs_ready = result.outputs_started =
        std::chrono::steady_clock::now();
    return result;
  }

 private:
  const std::shared_ptr<Gate> gate_;
  const int most_;
};

TEST(Scheduler, ModelsGetAsManyRequestsAtATimeAsTheyAskFor) {
  auto gate = std::make_shared<Gate>();
  std::vector<std::unique_ptr<ServableModel>> models;
  models.push_back(std::make_unique<PreparingModel>(gate, 2));
  Scheduler scheduler(std::move(models), 10);
  std::vector<Sent> sent;
  for (int i = 0; i < 3; ++i) {
    sent.push_back(make());
    ASSERT_TRUE(scheduler.enqueue(sent.back().pending).ok());
  }
  gate->await_arrivals(2);
  EXPECT_EQ(scheduler.running(), 2U);
  EXPECT_EQ(scheduler.waiting(), 1U);
  const auto opened = std::chrono::steady_clock::now();
  gate->open();
  for (Sent& one : sent) EXPECT_TRUE(one.wait().ok());
  scheduler.stop();
  // What waited inside of the model has waited for its turn.
  EXPECT_GE(sent[0].pending->times.started, opened);
  EXPECT_GE(sent[1].pending->times.started, opened);
}

TEST(Scheduler, ModelsThatBatchGetOneAtATime) {
  auto gate = std::make_shared<Gate>();
  std::vector<ScheduledInstance> instances;
  instances.push_back({std::make_unique<PreparingModel>(gate, 2), nullptr});
  SchedulingOptions options;
  options.capacity = 10;
  options.batching.max_batch_size = 2;
  Scheduler scheduler(std::move(instances), options);
  Sent first = make(), second = make();
  first.pending->join_key = "a";
  second.pending->join_key = "b";
  ASSERT_TRUE(scheduler.enqueue(first.pending).ok());
  gate->await_arrivals(1);
  ASSERT_TRUE(scheduler.enqueue(second.pending).ok());
  EXPECT_EQ(scheduler.running(), 1U);
  EXPECT_EQ(scheduler.waiting(), 1U);
  gate->open();
  EXPECT_TRUE(first.wait().ok());
  EXPECT_TRUE(second.wait().ok());
}

// The next request is made ready under the claims of the one that runs, unless somebody waits.
TEST(Scheduler, RequestsAheadShareWhatTheirInstanceHoldsAndPassNobody) {
  RateLimiter limiter;
  const auto instance_of = [&](const std::shared_ptr<Gate>& gate) {
    std::vector<ScheduledInstance> instances;
    instances.push_back(
        {std::make_unique<PreparingModel>(gate, 2), *limiter.join({{"rank 0", 1, 1}}, 1)});
    return instances;
  };
  SchedulingOptions options;
  options.capacity = 10;
  const auto gate = std::make_shared<Gate>();
  const auto other_gate = std::make_shared<Gate>();
  Scheduler scheduler(instance_of(gate), options);
  Scheduler other(instance_of(other_gate), options);
  Sent first = make(), second = make(), third = make(), elsewhere = make();
  ASSERT_TRUE(scheduler.enqueue(first.pending).ok());
  gate->await_arrivals(1);
  ASSERT_TRUE(scheduler.enqueue(second.pending).ok());
  gate->await_arrivals(2);  // would hang if the claims were only for one of them
  ASSERT_TRUE(other.enqueue(elsewhere.pending).ok());
  while (limiter.waiting() == 0) std::this_thread::yield();
  ASSERT_TRUE(scheduler.enqueue(third.pending).ok());
  gate->open();
  EXPECT_TRUE(first.wait().ok());
  EXPECT_TRUE(second.wait().ok());
  other_gate->await_arrivals(1);  // it has the rank now
  EXPECT_FALSE(third.is_answered());
  other_gate->open();
  EXPECT_TRUE(elsewhere.wait().ok());
  EXPECT_TRUE(third.wait().ok());
}

TEST(Scheduler, TimesAreInOrder) {
  auto gate = std::make_shared<Gate>();
  gate->open();
  Scheduler scheduler(gated(gate), 10);
  Sent one = make();
  ASSERT_TRUE(scheduler.enqueue(one.pending).ok());
  ASSERT_TRUE(one.wait().ok());
  scheduler.stop();
  const RequestTimes& times = one.pending->times;
  EXPECT_LE(times.queued, times.started);
  EXPECT_LE(times.started, times.inputs_ready);
  EXPECT_LE(times.inputs_ready, times.outputs_started);
  EXPECT_LE(times.outputs_started, times.finished);
}

TEST(Scheduler, FullQueueRefusesAtOnce) {
  auto gate = std::make_shared<Gate>();
  Scheduler scheduler(gated(gate), 1);
  Sent running = make(), waiting = make(), refused = make();
  ASSERT_TRUE(scheduler.enqueue(running.pending).ok());
  gate->await_arrivals(1);
  ASSERT_TRUE(scheduler.enqueue(waiting.pending).ok());
  EXPECT_EQ(scheduler.enqueue(refused.pending).code(), StatusCode::kUnavailable);
  EXPECT_FALSE(refused.is_answered());
  EXPECT_EQ(scheduler.waiting(), 1U);
  gate->open();
  EXPECT_TRUE(running.wait().ok());
  EXPECT_TRUE(waiting.wait().ok());
}

TEST(Scheduler, QueuedRequestFailsWhenItsTimeIsUpEvenBehindALongRun) {
  auto gate = std::make_shared<Gate>();
  Scheduler scheduler(gated(gate), 10);
  Sent running = make();
  ASSERT_TRUE(scheduler.enqueue(running.pending).ok());
  gate->await_arrivals(1);
  Sent patient = make(), hasty = make(std::chrono::milliseconds(20));
  ASSERT_TRUE(scheduler.enqueue(patient.pending).ok());
  ASSERT_TRUE(scheduler.enqueue(hasty.pending).ok());
  EXPECT_EQ(hasty.wait().code(), StatusCode::kDeadlineExceeded);  // while the gate is shut
  EXPECT_GE(hasty.pending->times.finished, *hasty.pending->request.deadline);
  EXPECT_FALSE(patient.is_answered());
  gate->open();
  EXPECT_TRUE(patient.wait().ok());
}

TEST(Scheduler, CancelledRequestLeavesTheQueueAtOnce) {
  auto gate = std::make_shared<Gate>();
  Scheduler scheduler(gated(gate), 10);
  Sent running = make();
  ASSERT_TRUE(scheduler.enqueue(running.pending).ok());
  gate->await_arrivals(1);
  std::stop_source source;
  Sent cancelled = make(std::nullopt, source.get_token());
  ASSERT_TRUE(scheduler.enqueue(cancelled.pending).ok());
  source.request_stop();
  EXPECT_EQ(cancelled.wait().code(), StatusCode::kCancelled);
  EXPECT_EQ(scheduler.waiting(), 0U);
  gate->open();
  EXPECT_TRUE(running.wait().ok());
}

TEST(Scheduler, RequestThatIsCancelledBeforeItComesIsNotRun) {
  auto gate = std::make_shared<Gate>();
  gate->open();
  Scheduler scheduler(gated(gate), 10);
  std::stop_source source;
  source.request_stop();
  Sent cancelled = make(std::nullopt, source.get_token());
  ASSERT_TRUE(scheduler.enqueue(cancelled.pending).ok());
  EXPECT_EQ(cancelled.wait().code(), StatusCode::kCancelled);
}

TEST(Scheduler, CancelAndCompletionMayRace) {
  auto gate = std::make_shared<Gate>();
  gate->open();
  Scheduler scheduler(gated(gate, 2), 1000);
  for (int i = 0; i < 200; ++i) {
    std::stop_source source;
    Sent sent = make(std::nullopt, source.get_token());
    ASSERT_TRUE(scheduler.enqueue(sent.pending).ok());
    sent.pending.reset();
    std::thread canceller([&source] { source.request_stop(); });
    const Status status = sent.wait();
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kCancelled);
    canceller.join();
  }
}

class GatedByIdModel : public IdentityModel {
 public:
  explicit GatedByIdModel(std::map<std::string, std::shared_ptr<Gate>> gates)
      : gates_(std::move(gates)) {}
  Result<InferResult> infer(const InferRequest& request,
                            const std::shared_ptr<OutputSink>& sink) override {
    gates_.at(request.id)->wait();
    return IdentityModel::infer(request, sink);
  }

 private:
  const std::map<std::string, std::shared_ptr<Gate>> gates_;
};

// One instance behind a gate whose requests [rows, 2] of `first` and up may be joined.
struct Batched {
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::vector<std::int64_t> executions;  // rows of each
  std::unique_ptr<Scheduler> scheduler;

  explicit Batched(BatchingOptions batching) {
    SchedulingOptions options;
    options.batching = std::move(batching);
    std::vector<ScheduledInstance> instances;
    instances.push_back({std::make_unique<IdentityModel>(gate), nullptr});
    scheduler = std::make_unique<Scheduler>(
        std::move(instances), options,
        [this](std::int64_t rows, const RequestTimes&) { executions.push_back(rows); });
  }

  Sent send(std::int64_t rows, float first, std::int64_t width = 2) {
    Sent sent = make();
    values.push_back(std::vector<float>(static_cast<std::size_t>(rows * width), first));
    sent.pending->batch_size = rows;
    sent.pending->request.inputs = {
        {"x", DType::kFloat32, {rows, width}, std::as_bytes(std::span(values.back()))}};
    sent.pending->join_key = std::to_string(width);
    EXPECT_TRUE(scheduler->enqueue(sent.pending).ok());
    return sent;
  }

  std::deque<std::vector<float>> values;
};

std::vector<float> output_of(const Sent& sent) {
  const auto& bytes = static_cast<test::VectorSink&>(*sent.pending->sink).outputs[0];
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(Scheduler, JoinsWhatWaitsAndGivesEachItsRows) {
  BatchingOptions batching;
  batching.max_batch_size = 22;
  Batched batched(batching);
  Sent running = batched.send(1, -1);
  batched.gate->await_arrivals(1);
  std::vector<Sent> sent;
  int first = 0;
  for (const std::int64_t rows : {10, 2, 10, 1}) {
    sent.push_back(batched.send(rows, static_cast<float>(++first)));
  }
  sent.push_back(batched.send(1, 9, 5));  // of another width: never joined
  batched.gate->open();
  EXPECT_TRUE(running.wait().ok());
  for (Sent& one : sent) ASSERT_TRUE(one.wait().ok());
  batched.scheduler->stop();
  EXPECT_THAT(batched.executions, ::testing::ElementsAre(1, 22, 1, 1));
  EXPECT_EQ(output_of(sent[0]), std::vector<float>(20, 1));
  EXPECT_EQ(output_of(sent[1]), std::vector<float>(4, 2));
  EXPECT_EQ(output_of(sent[2]), std::vector<float>(20, 3));
  EXPECT_EQ(output_of(sent[3]), std::vector<float>(2, 4));
  EXPECT_EQ(output_of(sent[4]), std::vector<float>(5, 9));
}

TEST(Scheduler, StopEndsTheWaitForAFullerBatch) {
  BatchingOptions batching;
  batching.max_batch_size = 8;
  batching.max_queue_delay = std::chrono::hours(1);
  Batched batched(batching);
  batched.gate->open();
  Sent one = batched.send(1, 1);
  EXPECT_FALSE(one.is_answered());
  batched.scheduler->stop();
  EXPECT_TRUE(one.wait().ok());
}

TEST(Scheduler, AnswersKeepTheOrderOfTheQueueWhereAsked) {
  BatchingOptions batching;
  batching.preserves_ordering = true;
  SchedulingOptions options;
  options.batching = batching;
  std::map<std::string, std::shared_ptr<Gate>> gates = {{"a", std::make_shared<Gate>()},
                                                        {"b", std::make_shared<Gate>()}};
  std::promise<void> executed;  // the first, which is b
  std::atomic<int> executions{0};
  std::vector<ScheduledInstance> instances;
  for (int i = 0; i < 2; ++i) {
    instances.push_back({std::make_unique<GatedByIdModel>(gates), nullptr});
  }
  Scheduler scheduler(std::move(instances), options, [&](std::int64_t, const RequestTimes&) {
    if (executions++ == 0) executed.set_value();
  });
  Sent a = make(), b = make();
  a.pending->request.id = "a";
  b.pending->request.id = "b";
  ASSERT_TRUE(scheduler.enqueue(a.pending).ok());
  gates["a"]->await_arrivals(1);
  ASSERT_TRUE(scheduler.enqueue(b.pending).ok());
  gates["b"]->open();
  executed.get_future().wait();
  EXPECT_FALSE(b.is_answered());  // it ran, but a is before it
  gates["a"]->open();
  EXPECT_TRUE(b.wait().ok());
  EXPECT_TRUE(a.is_answered());
}

TEST(Scheduler, InstancesThatShareRanksTakeTurnsAndOthersGoOn) {
  RateLimiter limiter;
  const auto join = [&](const char* pool) { return *limiter.join({{pool, 1, 1}}, 1); };
  const auto holder = join("rank 0");
  ASSERT_TRUE(holder->try_acquire());
  const auto gate = std::make_shared<Gate>();
  gate->open();
  std::vector<ScheduledInstance> blocked, both;
  blocked.push_back({std::make_unique<IdentityModel>(gate), join("rank 0")});
  both.push_back({std::make_unique<IdentityModel>(gate), join("rank 0")});
  both.push_back({std::make_unique<IdentityModel>(gate), join("rank 1")});
  Scheduler waits(std::move(blocked), SchedulingOptions{});
  Scheduler works(std::move(both), SchedulingOptions{});
  Sent held = make();
  ASSERT_TRUE(waits.enqueue(held.pending).ok());
  for (int i = 0; i < 20; ++i) {  // by the instance whose rank is free
    Sent one = make();
    ASSERT_TRUE(works.enqueue(one.pending).ok());
    EXPECT_TRUE(one.wait().ok());
  }
  EXPECT_FALSE(held.is_answered());
  EXPECT_EQ(waits.waiting(), 1U);  // and may still be cancelled or time out
  holder->release();
  EXPECT_TRUE(held.wait().ok());
}

class FussyModel : public IdentityModel {
 public:
  Result<InferResult> infer(const InferRequest& request,
                            const std::shared_ptr<OutputSink>& sink) override {
    for (const std::byte byte : request.inputs[0].data) {
      if (byte != std::byte{0}) return invalid_argument("index out of range");
    }
    return IdentityModel::infer(request, sink);
  }
};

TEST(Scheduler, OneBadRequestDoesNotSpoilTheBatchItIsIn) {
  SchedulingOptions options;
  options.batching.max_batch_size = 8;
  options.batching.max_queue_delay = std::chrono::hours(1);
  options.batching.preferred = {3};
  std::vector<ScheduledInstance> instances;
  instances.push_back({std::make_unique<FussyModel>(), nullptr});
  Scheduler scheduler(std::move(instances), options);
  std::vector<Sent> sent;
  const std::vector<std::vector<std::byte>> data = {{std::byte{0}}, {std::byte{7}}, {std::byte{0}}};
  for (const auto& one : data) {
    sent.push_back(make());
    sent.back().pending->request.inputs = {{"x", DType::kUInt8, {1}, one}};
    ASSERT_TRUE(scheduler.enqueue(sent.back().pending).ok());
  }
  EXPECT_TRUE(sent[0].wait().ok());
  EXPECT_EQ(sent[1].wait().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(sent[2].wait().ok());
}

TEST(Scheduler, ModelThatThrowsFailsItsRequestOnly) {
  std::vector<std::unique_ptr<ServableModel>> models;
  models.push_back(std::make_unique<ThrowingModel>());
  Scheduler scheduler(std::move(models), 10);
  for (int i = 0; i < 2; ++i) {
    Sent one = make();
    ASSERT_TRUE(scheduler.enqueue(one.pending).ok());
    const Status status = one.wait();
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_THAT(status.message(), ::testing::HasSubstr("boom"));
  }
}

TEST(Scheduler, StopAnswersWhatItHasAndRefusesMore) {
  auto gate = std::make_shared<Gate>();
  Scheduler scheduler(gated(gate), 10);
  Sent running = make(), waiting = make();
  ASSERT_TRUE(scheduler.enqueue(running.pending).ok());
  ASSERT_TRUE(scheduler.enqueue(waiting.pending).ok());
  gate->await_arrivals(1);
  std::thread stopper([&] { scheduler.stop(); });
  bool is_stopped = false;
  while (!is_stopped) {  // until the other thread is inside stop()
    Sent late = make();
    if (scheduler.enqueue(late.pending, &is_stopped).ok()) std::this_thread::yield();
  }
  gate->open();
  stopper.join();
  EXPECT_TRUE(running.wait().ok());
  EXPECT_TRUE(waiting.wait().ok());
}

TEST(Scheduler, StopWithADeadlineTellsThoseWhoseTurnDidNotCome) {
  auto gate = std::make_shared<Gate>();
  Scheduler scheduler(gated(gate), 10);
  Sent running = make(), waiting = make();
  ASSERT_TRUE(scheduler.enqueue(running.pending).ok());
  gate->await_arrivals(1);
  ASSERT_TRUE(scheduler.enqueue(waiting.pending).ok());
  std::thread stopper([&] { scheduler.stop(std::chrono::steady_clock::now()); });
  EXPECT_EQ(waiting.wait().code(), StatusCode::kUnavailable);
  gate->open();
  stopper.join();
  EXPECT_TRUE(running.wait().ok());
}

// A request waits for its cancellation before it goes, and a cancellation for the queue.
TEST(Scheduler, StopWithADeadlineAndCancellationsMayRace) {
  constexpr int kWaiting = 200;
  for (int round = 0; round < 10; ++round) {
    auto gate = std::make_shared<Gate>();
    Scheduler scheduler(gated(gate), kWaiting);
    Sent running = make();
    ASSERT_TRUE(scheduler.enqueue(running.pending).ok());
    gate->await_arrivals(1);
    std::vector<std::stop_source> sources(kWaiting);
    std::vector<Sent> waiting;
    for (std::stop_source& source : sources) {
      waiting.push_back(make(std::nullopt, source.get_token()));
      ASSERT_TRUE(scheduler.enqueue(waiting.back().pending).ok());
      waiting.back().pending.reset();  // the scheduler's alone
    }
    std::thread stopper([&] { scheduler.stop(std::chrono::steady_clock::now()); });
    waiting.front().answer.wait();
    for (std::stop_source& source : sources) source.request_stop();
    gate->open();
    stopper.join();
    EXPECT_TRUE(running.wait().ok());
    for (Sent& one : waiting) {
      const StatusCode code = one.wait().code();
      EXPECT_TRUE(code == StatusCode::kUnavailable || code == StatusCode::kCancelled);
    }
  }
}

}  // namespace
}  // namespace tutti::server
