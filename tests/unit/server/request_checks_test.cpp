#include "server/request_checks.h"

#include <gmock/gmock.h>

#include "fakes.h"

namespace tutti::server {
namespace {

using test::as_span;
using test::bytes_tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ModelSignature kModel = {
    {{"x", DType::kFloat32, {-1, 4}}, {"s", DType::kString, {-1}}},
    {{"y", DType::kFloat32, {-1, 4}}, {"z", DType::kFloat32, {-1}}},
};

// A request that passes; tests break one thing.
struct Request {
  std::string x = std::string(2 * 4 * 4, '\0');
  std::string s = bytes_tensor({"a", ""});
  InferRequest request;

  Request() {
    request.inputs = {{"x", DType::kFloat32, {2, 4}, as_span(x)},
                      {"s", DType::kString, {2}, as_span(s)}};
  }
  Result<std::int64_t> check(std::int64_t max_batch_size = 0) {
    return check_request(kModel, max_batch_size, &request);
  }
};

void expect_refused(Request& request, const std::string& part, std::int64_t max_batch_size = 0) {
  const auto result = request.check(max_batch_size);
  ASSERT_FALSE(result.ok()) << part;
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status().message(), HasSubstr(part));
}

TEST(CheckRequest, GoodRequestPassesAndGetsAllOutputs) {
  Request request;
  const auto batch = request.check();
  ASSERT_TRUE(batch.ok()) << batch.status().message();
  EXPECT_EQ(*batch, 1);
  EXPECT_THAT(request.request.outputs, ElementsAre("y", "z"));
}

TEST(CheckRequest, OrderOfInputsIsFree) {
  Request request;
  std::swap(request.request.inputs[0], request.request.inputs[1]);
  EXPECT_TRUE(request.check().ok());
}

TEST(CheckRequest, NegativeSizeIsRefused) {
  Request request;
  request.request.inputs[0].shape = {-1, 4};
  expect_refused(request, "input 'x': shape [-1, 4] has a negative size");
}

TEST(CheckRequest, ShapeWhoseProductOverflowsIsRefused) {
  Request request;
  request.request.inputs[0].shape = {16, (std::int64_t{1} << 60) + 2};
  expect_refused(request, "input 'x': shape [16, 1152921504606846978]");
  request.request.inputs[0].shape = {std::int64_t{1} << 61, 1};  // elements fit, bytes do not
  expect_refused(request, "past 2^63 - 1 bytes");
  request.request.inputs[1].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  request.request.inputs[0].shape = {2, 4};
  expect_refused(request, "input 's'");
}

TEST(CheckRequest, EndlessShapeIsRefusedWithoutPrintingIt) {
  Request request;
  request.request.inputs[0].shape.assign(1000000, 1);
  expect_refused(request, "input 'x': rank 1000000, expected at most 64");
}

TEST(CheckRequest, BytesThatDoNotMatchTheShapeAreRefused) {
  Request request;
  request.x.resize(28);
  request.request.inputs[0].data = as_span(request.x);
  expect_refused(request, "input 'x': 28 bytes of data, expected 32 for shape [2, 4] of FP32");
}

TEST(CheckRequest, BytesElementsMustLieInTheirBuffer) {
  const std::pair<std::string, const char*> cases[] = {
      {"abc", "BYTES element 0 at byte 0 has 3 bytes left, expected a 4-byte length"},
      {bytes_tensor({"a"}) + "xy", "BYTES element 1 at byte 5 has 2 bytes left"},
      {std::string("\x05\0\0\0abcd", 8), "element 0 at byte 0 has length 5, but 4 bytes follow"},
      {std::string("\xff\xff\xff\xff", 4), "has length 4294967295, but 0 bytes follow"},
      {bytes_tensor({"a"}), "1 BYTES elements, expected 2"},
      {bytes_tensor({"a", "b", "c"}), "3 BYTES elements, expected 2"},
      {"", "0 BYTES elements, expected 2"},
  };
  for (const auto& [data, part] : cases) {
    Request request;
    request.s = data;
    request.request.inputs[1].data = as_span(request.s);
    expect_refused(request, part);
    expect_refused(request, "input 's'");
  }
}

TEST(CheckRequest, NamesMustBeKnownDistinctAndComplete) {
  Request unknown;
  unknown.request.inputs[0].name = "q\n";
  expect_refused(unknown, "unknown input 'q\\x0a': the model's inputs are 'x', 's'");
  Request twice;
  twice.request.inputs.push_back(twice.request.inputs[0]);
  expect_refused(twice, "input 'x' is given twice");
  Request missing;
  missing.request.inputs.pop_back();
  expect_refused(missing, "input 's' is missing: got 'x', expected 'x', 's'");
  Request none;
  none.request.inputs.clear();
  expect_refused(none, "input 'x' is missing: got none");
}

TEST(CheckRequest, OutputsMustBeKnownAndDistinct) {
  Request request;
  request.request.outputs = {"z", "w"};
  expect_refused(request, "unknown output 'w': the model's outputs are 'y', 'z'");
  request.request.outputs = {"z", "z"};
  expect_refused(request, "output 'z' is requested twice");
  request.request.outputs = {"z"};
  EXPECT_TRUE(request.check().ok());
  EXPECT_THAT(request.request.outputs, ElementsAre("z"));
}

TEST(CheckRequest, DatatypeAndShapeMustFitTheModel) {
  Request dtype;
  dtype.request.inputs[0].dtype = DType::kInt32;
  expect_refused(dtype, "input 'x': datatype INT32, expected FP32");
  Request rank;
  rank.request.inputs[0].shape = {2, 2, 2};
  expect_refused(rank, "input 'x': shape [2, 2, 2] has rank 3, expected rank 2 to fit [?, 4]");
  Request size;
  size.request.inputs[0].shape = {4, 2};
  expect_refused(size, "input 'x': shape [4, 2] does not fit [?, 4] at dimension 1");
}

TEST(CheckRequest, BatchSizesAreWithinTheLimitAndEqual) {
  Request good;
  const auto batch = good.check(2);
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(*batch, 2);
  Request above;
  expect_refused(above, "input 'x': batch size 2 of shape [2, 4] is outside [1, 1]", 1);
  Request differs;
  differs.s = bytes_tensor({"a"});
  differs.request.inputs[1] = {"s", DType::kString, {1}, as_span(differs.s)};
  expect_refused(differs, "input 's': batch size 1 differs from 2 of input 'x'", 8);
  Request empty;
  empty.request.inputs = {{"x", DType::kFloat32, {0, 4}, {}}, {"s", DType::kString, {0}, {}}};
  expect_refused(empty, "batch size 0", 8);
}

TEST(CheckRequest, EmptyTensorsAreLegalWhereTheModelTakesThem) {
  Request request;
  request.request.inputs = {{"x", DType::kFloat32, {0, 4}, {}}, {"s", DType::kString, {0}, {}}};
  EXPECT_TRUE(request.check().ok());
}

}  // namespace
}  // namespace tutti::server
