#include "server/scheduler/scheduler.h"

#include <gmock/gmock.h>

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

}  // namespace
}  // namespace tutti::server
