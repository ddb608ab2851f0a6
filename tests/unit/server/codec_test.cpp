#include "server/grpc/codec.h"

#include <gmock/gmock.h>

#include <set>

#include "fakes.h"
#include "server/grpc/status.h"
#include "server/parameters.h"

namespace tutti::server {
namespace {

using inference::InferTensorContents;
using inference::ModelInferRequest;
using test::raw;
using ::testing::HasSubstr;

ModelInferRequest request_of(const std::string& datatype) {
  ModelInferRequest message;
  message.set_model_name("m");
  auto* input = message.add_inputs();
  input->set_name("x");
  input->set_datatype(datatype);
  input->add_shape(2);
  return message;
}

std::string bytes_of(const InferInput& input) {
  return std::string(reinterpret_cast<const char*>(input.data.data()), input.data.size());
}

TEST(DecodeRequest, RawBytesAreReadWhereTheyLie) {
  ModelInferRequest message = request_of("FP16");
  message.set_id("7");
  message.add_raw_input_contents("abcd");
  message.add_outputs()->set_name("y");
  const auto request = decode_request(message, nullptr);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->id, "7");
  EXPECT_EQ(request->inputs[0].dtype, DType::kFloat16);
  EXPECT_EQ(request->inputs[0].shape, Dims{2});
  EXPECT_EQ(static_cast<const void*>(request->inputs[0].data.data()),
            message.raw_input_contents(0).data());
  EXPECT_EQ(request->outputs, std::vector<std::string>{"y"});
}

struct TypedCase {
  const char* datatype;
  void (*fill)(InferTensorContents*);
  std::string expected;
};

TEST(DecodeRequest, TypedContentsOfEveryKindBecomeTheirBytes) {
  using C = InferTensorContents;
  const TypedCase cases[] = {
      {"BOOL",
       [](C* c) {
         c->add_bool_contents(true);
         c->add_bool_contents(false);
       },
       std::string("\1\0", 2)},
      {"INT8",
       [](C* c) {
         c->add_int_contents(-128);
         c->add_int_contents(127);
       },
       raw<std::int8_t>({-128, 127})},
      {"INT16",
       [](C* c) {
         c->add_int_contents(-32768);
         c->add_int_contents(5);
       },
       raw<std::int16_t>({-32768, 5})},
      {"INT32",
       [](C* c) {
         c->add_int_contents(-7);
         c->add_int_contents(1 << 30);
       },
       raw<std::int32_t>({-7, 1 << 30})},
      {"INT64",
       [](C* c) {
         c->add_int64_contents(-7);
         c->add_int64_contents(1LL << 60);
       },
       raw<std::int64_t>({-7, 1LL << 60})},
      {"UINT8",
       [](C* c) {
         c->add_uint_contents(255);
         c->add_uint_contents(0);
       },
       raw<std::uint8_t>({255, 0})},
      {"UINT16",
       [](C* c) {
         c->add_uint_contents(65535);
         c->add_uint_contents(1);
       },
       raw<std::uint16_t>({65535, 1})},
      {"UINT32",
       [](C* c) {
         c->add_uint_contents(4000000000U);
         c->add_uint_contents(1);
       },
       raw<std::uint32_t>({4000000000U, 1})},
      {"UINT64",
       [](C* c) {
         c->add_uint64_contents(~0ULL);
         c->add_uint64_contents(1);
       },
       raw<std::uint64_t>({~0ULL, 1})},
      {"FP32",
       [](C* c) {
         c->add_fp32_contents(1.5F);
         c->add_fp32_contents(-2);
       },
       raw<float>({1.5F, -2})},
      {"FP64",
       [](C* c) {
         c->add_fp64_contents(1.5);
         c->add_fp64_contents(-2);
       },
       raw<double>({1.5, -2})},
      {"BYTES",
       [](C* c) {
         c->add_bytes_contents("ab");
         c->add_bytes_contents("");
       },
       test::bytes_tensor({"ab", ""})},
  };
  for (const TypedCase& one : cases) {
    ModelInferRequest message = request_of(one.datatype);
    one.fill(message.mutable_inputs(0)->mutable_contents());
    const auto request = decode_request(message, nullptr);
    ASSERT_TRUE(request.ok()) << one.datatype << ": " << request.status().message();
    EXPECT_EQ(bytes_of(request->inputs[0]), one.expected) << one.datatype;
  }
}

void expect_refused(const ModelInferRequest& message, const std::string& part,
                    StatusCode code = StatusCode::kInvalidArgument) {
  const auto request = decode_request(message, nullptr);
  ASSERT_FALSE(request.ok()) << part;
  EXPECT_EQ(request.status().code(), code);
  EXPECT_THAT(request.status().message(), HasSubstr(part));
}

TEST(DecodeRequest, ContentsBesideRawContentsAreRefused) {
  ModelInferRequest message = request_of("FP32");
  message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  message.add_raw_input_contents(std::string(8, '\0'));
  expect_refused(message, "input 'x': contents is set beside raw_input_contents");
}

TEST(DecodeRequest, RawBuffersMustBeOneAnInput) {
  ModelInferRequest message = request_of("FP32");
  message.add_raw_input_contents("");
  message.add_raw_input_contents("");
  expect_refused(message, "raw_input_contents has 2 buffers, expected 1");
}

TEST(DecodeRequest, ContentsOfAnotherKindAreRefused) {
  ModelInferRequest message = request_of("FP32");
  message.mutable_inputs(0)->mutable_contents()->add_fp64_contents(1);
  expect_refused(message, "contents.fp64_contents is set, expected contents.fp32_contents");
  for (const char* datatype : {"FP16", "BF16"}) {
    expect_refused(request_of(datatype), "has no typed contents, expected raw_input_contents");
  }
}

TEST(DecodeRequest, ValuesOutsideTheirTypeAreRefused) {
  for (const auto& [datatype, value] : {std::pair("INT8", 128), {"INT8", -129}, {"INT16", 32768}}) {
    ModelInferRequest message = request_of(datatype);
    message.mutable_inputs(0)->mutable_contents()->add_int_contents(value);
    expect_refused(message, str_cat("input 'x': element 0 is ", value, ", outside ", datatype));
  }
  ModelInferRequest message = request_of("UINT8");
  message.mutable_inputs(0)->mutable_contents()->add_uint_contents(256);
  expect_refused(message, "element 0 is 256, outside UINT8");
}

TEST(DecodeRequest, UnknownDatatypeIsRefused) {
  expect_refused(request_of("FLOAT\n"),
                 "input 'x': unknown datatype 'FLOAT\\x0a', expected one of");
  expect_refused(request_of(""), "unknown datatype ''");
}

TEST(DecodeRequest, TensorParametersSayWhereAndWhat) {
  ModelInferRequest message = request_of("FP32");
  auto& input = *message.mutable_inputs(0)->mutable_parameters();
  input["shared_memory_region"].set_string_param("r");
  expect_refused(message, "input 'x': shared memory needs");
  input["shared_memory_byte_size"].set_int64_param(8);
  input["shared_memory_offset"].set_uint64_param(4);
  auto* output = message.add_outputs();
  output->set_name("y");
  (*output->mutable_parameters())["classification"].set_int64_param(3);
  const auto request = decode_request(message, nullptr);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->inputs[0].shared_memory, (SharedMemoryRef{"r", 4, 8}));
  EXPECT_EQ(request->output_options.at(0).class_count, 3U);
  message.add_raw_input_contents("12345678");
  expect_refused(message, "raw_input_contents has 1 buffers, expected 0");
}

TEST(Parameters, TimeoutAndPriorityAreWholeNumbers) {
  InferRequest request;
  request.parameters["timeout"] = std::int64_t{250};
  request.parameters["priority"] = std::uint64_t{3};
  ASSERT_TRUE(apply_parameters(&request).ok());
  EXPECT_EQ(request.timeout, std::chrono::microseconds(250));
  EXPECT_EQ(request.priority, 3U);
  InferRequest none;
  none.parameters["timeout"] = std::int64_t{0};
  ASSERT_TRUE(apply_parameters(&none).ok());
  EXPECT_FALSE(none.timeout);
  EXPECT_EQ(none.priority, 0U);
  none.parameters["timeout"] = std::string("soon");
  EXPECT_EQ(apply_parameters(&none).code(), StatusCode::kInvalidArgument);
  none.parameters["timeout"] = std::int64_t{-5};
  EXPECT_EQ(apply_parameters(&none).code(), StatusCode::kInvalidArgument);
  none.parameters["timeout"] = ~std::uint64_t{0};
  EXPECT_TRUE(apply_parameters(&none).ok());
  EXPECT_FALSE(none.timeout);
  none.parameters["priority"] = std::string("high");
  EXPECT_EQ(apply_parameters(&none).code(), StatusCode::kInvalidArgument);
}

TEST(Parameters, SequencesAreUnimplemented) {
  InferRequest request;
  request.parameters["sequence_id"] = std::int64_t{0};
  EXPECT_TRUE(apply_parameters(&request).ok());
  request.parameters["sequence_id"] = std::int64_t{4};
  EXPECT_EQ(apply_parameters(&request).code(), StatusCode::kUnimplemented);
  request.parameters["sequence_id"] = std::string("four");
  EXPECT_EQ(apply_parameters(&request).code(), StatusCode::kUnimplemented);
}

TEST(ResponseSink, OutputsLieInTheResponseInTheOrderAskedFor) {
  auto response = std::make_shared<inference::ModelInferResponse>();
  ResponseSink sink(response);
  const auto second = sink.allocate(1, {"b", DType::kFloat32, {2}}, 8);
  const auto first = sink.allocate(0, {"a", DType::kFloat32, {1}}, 4);
  ASSERT_TRUE(second.ok() && first.ok());
  EXPECT_EQ(static_cast<const void*>(*first), response->raw_output_contents(0).data());
  EXPECT_EQ(static_cast<const void*>(*second), response->raw_output_contents(1).data());
  EXPECT_EQ(response->raw_output_contents(1).size(), 8U);
}

TEST(ResponseSink, RefusesWhatNoMessageHolds) {
  auto response = std::make_shared<inference::ModelInferResponse>();
  ResponseSink sink(response);
  ASSERT_TRUE(sink.allocate(0, {"a", DType::kUInt8, {16}}, 16).ok());
  const auto big = sink.allocate(1, {"b", DType::kUInt8, {1LL << 31}}, std::size_t{1} << 31);
  EXPECT_EQ(big.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(big.status().message(), HasSubstr("output 'b' of 2147483648 bytes"));
}

TEST(ToGrpc, EveryCodeHasItsOwn) {
  std::set<int> seen;
  for (int code = 0; code <= static_cast<int>(StatusCode::kResourceExhausted); ++code) {
    const grpc::Status status = to_grpc(Status(static_cast<StatusCode>(code), "m"));
    EXPECT_NE(status.error_code(), grpc::StatusCode::UNKNOWN);
    EXPECT_TRUE(seen.insert(status.error_code()).second);
  }
  EXPECT_EQ(to_grpc(internal_error(std::string(100000, 'x'))).error_message().size(), 2051U);
}

}  // namespace
}  // namespace tutti::server
