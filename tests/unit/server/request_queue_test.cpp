#include "server/scheduler/request_queue.h"

#include <gmock/gmock.h>

namespace tutti::server {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TimePoint at(int ms) { return TimePoint() + milliseconds(ms); }

PendingPtr request(std::optional<TimePoint> deadline = std::nullopt, std::uint64_t priority = 0) {
  auto pending = std::make_shared<PendingRequest>();
  pending->request.deadline = deadline;
  pending->request.priority = priority;
  return pending;
}

PendingPtr urgent(std::uint64_t priority) { return request(std::nullopt, priority); }

PendingPtr hasty(int ms) {
  PendingPtr pending = request();
  pending->request.timeout = milliseconds(ms);
  return pending;
}

RequestQueue make(std::size_t capacity = 10) {
  SchedulingOptions options;
  options.capacity = capacity;
  return RequestQueue(options);
}

RequestQueue with_policy(const QueuePolicy& policy) {
  SchedulingOptions options;
  options.has_policies = true;
  options.default_policy = policy;
  return RequestQueue(options);
}

void push(RequestQueue& queue, const std::vector<PendingPtr>& requests, TimePoint now = at(0)) {
  for (const PendingPtr& one : requests) ASSERT_TRUE(queue.push(one, now).ok());
}

std::vector<PendingPtr> expired(RequestQueue& queue, TimePoint now) {
  std::vector<PendingPtr> requests;
  for (auto& one : queue.expire(now)) requests.push_back(one.request);
  return requests;
}

TEST(RequestQueue, IsFirstInFirstOut) {
  RequestQueue queue = make();
  const auto a = request(), b = request(), c = request();
  push(queue, {a, b, c});
  EXPECT_EQ(queue.pop(), a);
  EXPECT_THAT(queue.pop(5), ElementsAre(b, c));
  EXPECT_EQ(queue.pop(), nullptr);
}

TEST(RequestQueue, RefusesWhatIsAboveItsCapacityAndTakesAgainAfterwards) {
  RequestQueue queue = make(2);
  push(queue, {request(), request()});
  for (int i = 0; i < 136; ++i) {
    const Status status = queue.push(request(), at(0));
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("Exceeds maximum queue size"));
  }
  EXPECT_EQ(queue.size(), 2U);
  queue.pop();
  queue.pop();
  EXPECT_EQ(queue.size(), 0U);
  push(queue, {request()});
}

TEST(RequestQueue, GivesUpWhatIsPastItsDeadlineEarliestFirst) {
  RequestQueue queue = make();
  const auto late = request(at(30)), early = request(at(10)), never = request(),
             mid = request(at(20));
  push(queue, {late, early, never, mid});
  EXPECT_EQ(queue.next_expiry(), at(10));
  EXPECT_THAT(expired(queue, at(9)), IsEmpty());
  EXPECT_THAT(expired(queue, at(20)), ElementsAre(early, mid));
  EXPECT_EQ(queue.next_expiry(), at(30));
  EXPECT_EQ(queue.pop(), late);
  EXPECT_EQ(queue.next_expiry(), std::nullopt);
  EXPECT_EQ(queue.pop(), never);
}

TEST(RequestQueue, RemovesFromTheMiddle) {
  RequestQueue queue = make();
  const auto a = request(at(1)), b = request(at(2)), c = request(at(3));
  push(queue, {a, b, c});
  EXPECT_EQ(queue.remove(b.get()), b);
  EXPECT_EQ(queue.remove(b.get()), nullptr);
  EXPECT_THAT(expired(queue, at(5)), ElementsAre(a, c));
  EXPECT_TRUE(queue.empty());
}

TEST(RequestQueue, TakesAllInOrder) {
  RequestQueue queue = make();
  const auto a = request(at(2)), b = request();
  push(queue, {a, b});
  EXPECT_THAT(queue.take_all(), ElementsAre(a, b));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.next_expiry(), std::nullopt);
}

TEST(RequestQueue, UrgentLevelsComeFirstAndUnknownOnesAreTheDefault) {
  SchedulingOptions options;
  options.priority_levels = 3;
  options.default_priority = 2;
  RequestQueue queue(options);
  const auto low = urgent(3), none = urgent(0), first = urgent(1), beyond = urgent(9),
             again = urgent(1);
  push(queue, {low, none, first, beyond, again});
  EXPECT_THAT(queue.take_all(), ElementsAre(first, again, none, beyond, low));
}

TEST(RequestQueue, PrioritiesWithoutLevelsAreIgnored) {
  RequestQueue queue = make();
  const auto a = urgent(5), b = urgent(1);
  push(queue, {a, b});
  EXPECT_THAT(queue.take_all(), ElementsAre(a, b));
}

TEST(RequestQueue, TimeoutOfThePolicyRejects) {
  RequestQueue queue = with_policy({TimeoutAction::kReject, milliseconds(10), false, 0});
  const auto a = request(), b = hasty(1);  // which may not override it
  push(queue, {a}, at(0));
  push(queue, {b}, at(5));
  EXPECT_EQ(queue.next_expiry(), at(10));
  auto gone = queue.expire(at(10));
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].request, a);
  EXPECT_EQ(gone[0].why.code(), StatusCode::kUnavailable);
  EXPECT_THAT(gone[0].why.message(), HasSubstr("Request timeout expired"));
  EXPECT_EQ(queue.next_expiry(), at(15));
}

TEST(RequestQueue, OverrideMayOnlyShortenTheTimeout) {
  RequestQueue queue = with_policy({TimeoutAction::kReject, milliseconds(10), true, 0});
  const auto longer = hasty(50), shorter = hasty(3), plain = request();
  push(queue, {longer, shorter, plain});
  EXPECT_THAT(expired(queue, at(3)), ElementsAre(shorter));
  EXPECT_THAT(expired(queue, at(10)), ElementsAre(longer, plain));
  RequestQueue unlimited = with_policy({TimeoutAction::kReject, milliseconds(0), true, 0});
  push(unlimited, {shorter, plain});
  EXPECT_THAT(expired(unlimited, at(1000)), ElementsAre(shorter));
}

TEST(RequestQueue, DelayedRequestsGoBehindTheirLevelAndStay) {
  SchedulingOptions options;
  options.priority_levels = 2;
  options.default_priority = 1;
  options.policies[1] = {TimeoutAction::kDelay, milliseconds(10), false, 0};
  RequestQueue queue(options);
  const auto slow = urgent(1), fresh = urgent(1), low = urgent(2);
  push(queue, {slow}, at(0));
  push(queue, {low}, at(1));
  EXPECT_THAT(expired(queue, at(10)), IsEmpty());
  push(queue, {fresh}, at(11));
  EXPECT_THAT(expired(queue, at(12)), IsEmpty());
  EXPECT_THAT(queue.take_all(), ElementsAre(fresh, slow, low));
  EXPECT_EQ(queue.next_expiry(), std::nullopt);
}

TEST(RequestQueue, DelayedRequestKeepsItsOwnDeadline) {
  RequestQueue queue = with_policy({TimeoutAction::kDelay, milliseconds(10), false, 0});
  const auto one = request(at(20));
  push(queue, {one});
  EXPECT_THAT(expired(queue, at(10)), IsEmpty());
  EXPECT_EQ(queue.next_expiry(), at(20));
  auto gone = queue.expire(at(20));
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone[0].why.code(), StatusCode::kDeadlineExceeded);
}

TEST(RequestQueue, LevelsHaveTheirOwnSizes) {
  SchedulingOptions options;
  options.priority_levels = 2;
  options.default_priority = 2;
  options.default_policy.max_queue_size = 3;
  options.policies[1].max_queue_size = 1;
  RequestQueue queue(options);
  push(queue, {urgent(1), urgent(2), urgent(2)});
  EXPECT_EQ(queue.push(urgent(1), at(0)).code(), StatusCode::kUnavailable);
  push(queue, {urgent(2)});
  EXPECT_THAT(queue.push(urgent(2), at(0)).message(), HasSubstr("the limit is 3"));
  queue.pop();  // of level 1
  push(queue, {urgent(1)});
}

}  // namespace
}  // namespace tutti::server
