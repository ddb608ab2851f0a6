#include "server/scheduler/request_queue.h"

#include <gmock/gmock.h>

namespace tutti::server {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TimePoint at(int ms) { return TimePoint() + milliseconds(ms); }

PendingPtr request(std::optional<TimePoint> deadline = std::nullopt) {
  auto pending = std::make_shared<PendingRequest>();
  pending->request.deadline = deadline;
  return pending;
}

TEST(RequestQueue, IsFirstInFirstOut) {
  RequestQueue queue(10);
  const auto a = request(), b = request(), c = request();
  for (const auto& one : {a, b, c}) ASSERT_TRUE(queue.push(one).ok());
  EXPECT_EQ(queue.pop(), a);
  EXPECT_EQ(queue.pop(), b);
  EXPECT_EQ(queue.pop(), c);
  EXPECT_EQ(queue.pop(), nullptr);
}

TEST(RequestQueue, RefusesWhatIsAboveItsCapacityAndTakesAgainAfterwards) {
  RequestQueue queue(2);
  ASSERT_TRUE(queue.push(request()).ok());
  ASSERT_TRUE(queue.push(request()).ok());
  for (int i = 0; i < 136; ++i) {
    EXPECT_EQ(queue.push(request()).code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(queue.size(), 2U);
  queue.pop();
  queue.pop();
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_TRUE(queue.push(request()).ok());
}

TEST(RequestQueue, GivesUpWhatIsPastItsDeadlineEarliestFirst) {
  RequestQueue queue(10);
  const auto late = request(at(30)), early = request(at(10)), never = request(),
             mid = request(at(20));
  for (const auto& one : {late, early, never, mid}) ASSERT_TRUE(queue.push(one).ok());
  EXPECT_EQ(queue.next_deadline(), at(10));
  EXPECT_THAT(queue.take_expired(at(9)), IsEmpty());
  EXPECT_THAT(queue.take_expired(at(20)), ElementsAre(early, mid));
  EXPECT_EQ(queue.next_deadline(), at(30));
  EXPECT_EQ(queue.pop(), late);
  EXPECT_EQ(queue.next_deadline(), std::nullopt);
  EXPECT_EQ(queue.pop(), never);
}

TEST(RequestQueue, RemovesFromTheMiddle) {
  RequestQueue queue(10);
  const auto a = request(at(1)), b = request(at(2)), c = request(at(3));
  for (const auto& one : {a, b, c}) ASSERT_TRUE(queue.push(one).ok());
  EXPECT_EQ(queue.remove(b.get()), b);
  EXPECT_EQ(queue.remove(b.get()), nullptr);
  EXPECT_THAT(queue.take_expired(at(5)), ElementsAre(a, c));
  EXPECT_TRUE(queue.empty());
}

TEST(RequestQueue, TakesAllInOrder) {
  RequestQueue queue(10);
  const auto a = request(at(2)), b = request();
  for (const auto& one : {a, b}) ASSERT_TRUE(queue.push(one).ok());
  EXPECT_THAT(queue.take_all(), ElementsAre(a, b));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace tutti::server
