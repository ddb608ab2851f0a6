#include "server/grpc/codec.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "fakes.h"
#include "server/grpc/status.h"
#include "server/grpc/wire.h"
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

// As it comes over the wire.
Result<InferRequest> decode(const ModelInferRequest& message) {
  auto wire = std::make_shared<WireRequest>();
  grpc::ByteBuffer bytes = write_message(message);
  const Status status = wire->read(&bytes);
  if (!status.ok()) return status;
  return decode_request(wire);
}

// The same bytes in slices of `size`, as a transport cuts them.
grpc::ByteBuffer cut_up(const std::string& bytes, std::size_t size) {
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    slices.emplace_back(bytes.substr(at, size));
  }
  return {slices.data(), slices.size()};
}

std::string text_of(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string bytes_of(const InferInput& input) {
  return std::string(reinterpret_cast<const char*>(input.data.data()), input.data.size());
}

TEST(DecodeRequest, RawBytesAreTheInputs) {
  ModelInferRequest message = request_of("FP16");
  message.set_id("7");
  message.add_raw_input_contents("abcd");
  message.add_outputs()->set_name("y");
  const auto request = decode(message);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->id, "7");
  EXPECT_EQ(request->inputs[0].dtype, DType::kFloat16);
  EXPECT_EQ(request->inputs[0].shape, Dims{2});
  EXPECT_EQ(bytes_of(request->inputs[0]), "abcd");
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
    const auto request = decode(message);
    ASSERT_TRUE(request.ok()) << one.datatype << ": " << request.status().message();
    EXPECT_EQ(bytes_of(request->inputs[0]), one.expected) << one.datatype;
  }
}

void expect_refused(const ModelInferRequest& message, const std::string& part,
                    StatusCode code = StatusCode::kInvalidArgument) {
  const auto request = decode(message);
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
  const auto request = decode(message);
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

TEST(WireRequest, SmallContentsAreReadWhereTheyLieAndOthersOnce) {
  ModelInferRequest message = request_of("INT8");
  message.set_id("7");
  (*message.mutable_parameters())["priority"].set_int64_param(2);
  message.add_raw_input_contents(std::string(300, 'a'));
  message.add_raw_input_contents("");
  message.add_raw_input_contents(std::string(1 << 20, 'b') + "end");
  message.add_raw_input_contents("last");
  const std::string whole = message.SerializeAsString();
  for (const std::size_t size : {std::size_t{1000}, std::size_t{16384}, whole.size()}) {
    WireRequest request;
    grpc::ByteBuffer bytes = cut_up(whole, size);
    ASSERT_TRUE(request.read(&bytes).ok());
    ModelInferRequest again = request.fields();
    EXPECT_EQ(again.raw_input_contents_size(), 0);
    for (const auto& raw : request.raw_contents()) again.add_raw_input_contents(text_of(raw));
    EXPECT_EQ(again.SerializeAsString(), whole);
  }
  message.mutable_raw_input_contents(2)->resize(8);
  const grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer bytes(&slice, 1);
  WireRequest request;
  ASSERT_TRUE(request.read(&bytes).ok());
  for (const auto& raw : request.raw_contents()) {
    if (raw.empty()) continue;
    const auto* there = reinterpret_cast<const std::uint8_t*>(raw.data());
    EXPECT_TRUE(there >= slice.begin() && there + raw.size() <= slice.end());
  }
}

TEST(WireRequest, WhatIsNoMessageIsRefusedWhereverItEnds) {
  ModelInferRequest message = request_of("INT8");
  message.mutable_inputs(0)->mutable_contents()->add_int_contents(3);
  message.add_raw_input_contents("abcdefgh");
  message.add_outputs()->set_name("y");
  const std::string whole = message.SerializeAsString();
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    grpc::ByteBuffer bytes = cut_up(whole.substr(0, size), 7);
    ModelInferRequest part;
    // protobuf's own reading is right.
    const bool is_message = part.ParseFromString(whole.substr(0, size));
    WireRequest request;
    const Status status = request.read(&bytes);
    EXPECT_EQ(status.ok(), is_message) << size << ": " << status.message();
    if (is_message) continue;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    if (size > 3) {
      EXPECT_EQ(request.fields().model_name(), "m") << size;
    }
  }
  for (const std::string& text : {std::string("\x3a\xff\xff\xff\xff\x07"),  // 2^31 - 1 bytes
                                  std::string("\x3a\xff\xff\xff\xff\xff\xff\x01"),  // 2^49
                                  std::string("\x2a\x05\x0a"), std::string("\x3b"),
                                  std::string("\x0a\x01"), std::string("\0", 1)}) {
    grpc::ByteBuffer bytes = cut_up(text, 3);
    EXPECT_EQ(WireRequest().read(&bytes).code(), StatusCode::kInvalidArgument);
  }
}

TEST(WriteResponse, IsTheMessageWithItsOutputsByReference) {
  const std::string large(1 << 20, 'z');
  const InferResponse response{
      "m",
      "3",
      "id",
      {{"a", DType::kUInt8, {1 << 20}}, {"b", DType::kInt8, {3}}, {"shared", DType::kInt8, {3}}},
      {{"p", true}}};
  auto sink = std::make_shared<BufferSink>(kMostOutputBytes);
  const auto b = sink->allocate(1, response.outputs[1], 3);
  const auto a = sink->allocate(0, response.outputs[0], large.size());
  ASSERT_TRUE(a.ok() && b.ok());
  std::memcpy(*a, large.data(), large.size());
  std::memcpy(*b, "xyz", 3);
  inference::ModelInferResponse expected = encode_response(response);
  for (const std::string& output : {large, std::string("xyz"), std::string()}) {
    expected.add_raw_output_contents(output);
  }
  const grpc::ByteBuffer bytes = write_response(encode_response(response), sink);
  EXPECT_EQ(text_of(bytes), expected.SerializeAsString());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(bytes.Dump(&slices).ok());
  EXPECT_TRUE(std::any_of(slices.begin(), slices.end(), [&](const grpc::Slice& slice) {
    return static_cast<const void*>(slice.begin()) == *a;
  }));
  inference::ModelStreamInferResponse streamed;
  *streamed.mutable_infer_response() = expected;
  EXPECT_EQ(text_of(write_stream_response(encode_response(response), sink)),
            streamed.SerializeAsString());
  sink.reset();
  EXPECT_EQ(text_of(bytes), expected.SerializeAsString()) << "the bytes hold the outputs";
}

TEST(BufferSink, RefusesWhatNoAnswerHolds) {
  BufferSink sink(kMostOutputBytes);
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
