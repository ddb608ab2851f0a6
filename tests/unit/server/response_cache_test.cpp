#include "server/cache/response_cache.h"

#include <gmock/gmock.h>

#include "fakes.h"

namespace tutti::server {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const CachedResponse> response(std::size_t bytes) {
  auto made = std::make_shared<CachedResponse>();
  made->outputs.push_back(
      {{"y", DType::kUInt8, {static_cast<std::int64_t>(bytes)}}, std::vector<std::byte>(bytes)});
  return made;
}

Hash128 key(std::uint64_t number) { return {0, number}; }

TEST(ResponseCache, LeastRecentlyUsedGoFirst) {
  const std::size_t one = response(1000)->byte_size();
  ResponseCache cache(3 * one);
  for (int i = 1; i <= 3; ++i) cache.insert(key(i), response(1000));
  EXPECT_EQ(cache.used(), 3 * one);
  EXPECT_NE(cache.find(key(1)), nullptr);  // used again
  cache.insert(key(4), response(1000));
  EXPECT_EQ(cache.find(key(2)), nullptr);
  for (const int kept : {1, 3, 4}) EXPECT_NE(cache.find(key(kept)), nullptr) << kept;
  EXPECT_EQ(cache.used(), 3 * one);
}

TEST(ResponseCache, LargeAnswersTakeSeveralPlacesOrNone) {
  const std::size_t one = response(1000)->byte_size();
  ResponseCache cache(3 * one);
  for (int i = 1; i <= 3; ++i) cache.insert(key(i), response(1000));
  cache.insert(key(9), response(100000));  // more than there is: nothing goes for it
  EXPECT_EQ(cache.find(key(9)), nullptr);
  EXPECT_NE(cache.find(key(1)), nullptr);
  cache.insert(key(5), response(2000));
  EXPECT_NE(cache.find(key(5)), nullptr);
  EXPECT_NE(cache.find(key(1)), nullptr);
  EXPECT_EQ(cache.find(key(2)), nullptr);
  EXPECT_LE(cache.used(), cache.capacity());
}

TEST(ResponseCache, KeptAnswerOutlivesItsPlace) {
  ResponseCache cache(response(10)->byte_size());
  cache.insert(key(1), response(10));
  const auto held = cache.find(key(1));
  cache.insert(key(2), response(10));
  EXPECT_EQ(cache.find(key(1)), nullptr);
  EXPECT_EQ(held->outputs[0].data.size(), 10U);
}

TEST(ResponseKey, IsOfContentAndNotOfOrder) {
  const std::string a(8, 'a'), b(8, 'b');
  const auto request = [](const std::string& x, const std::string& y, bool is_swapped = false) {
    InferRequest made;
    made.inputs = {{"x", DType::kFloat32, {2}, test::as_span(x)},
                   {"y", DType::kFloat32, {2}, test::as_span(y)}};
    if (is_swapped) std::swap(made.inputs[0], made.inputs[1]);
    made.outputs = {"z"};
    return made;
  };
  const Hash128 first = response_key(1, request(a, b));
  EXPECT_EQ(first, response_key(1, request(a, b, true)));
  EXPECT_FALSE(first == response_key(2, request(a, b)));
  EXPECT_FALSE(first == response_key(1, request(b, a)));
  InferRequest other = request(a, b);
  other.outputs = {"w"};
  EXPECT_FALSE(first == response_key(1, other));
  other = request(a, b);
  other.inputs[0].shape = {2, 1};
  EXPECT_FALSE(first == response_key(1, other));
  other = request(a, b);
  other.inputs[0].dtype = DType::kInt32;
  EXPECT_FALSE(first == response_key(1, other));
}

TEST(CacheConfig, OnlyALocalCacheOfSomeSize) {
  EXPECT_EQ(*parse_cache_config("local,size=1048576"), 1048576U);
  for (const char* bad : {"", "local", "local,size=", "local,size=0", "local,size=1k",
                          "redis,host=localhost", "local,size=-1"}) {
    EXPECT_EQ(parse_cache_config(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace tutti::server
