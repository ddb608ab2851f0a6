// ModelInferRequest as bytes: what is read must be what protobuf reads, however the transport cut
// the message up.
#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz/request_model.h"
#include "server/grpc/codec.h"
#include "server/grpc/wire.h"

namespace tutti::fuzz {
namespace {

using namespace tutti::server;  // NOLINT: the whole file is about it
using inference::ModelInferRequest;

grpc::ByteBuffer in_pieces(std::string_view bytes, std::size_t length) {
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < bytes.size(); at += length) {
    const std::string_view piece = bytes.substr(at, length);
    slices.emplace_back(piece.data(), piece.size());
  }
  if (slices.empty()) slices.emplace_back();
  return {slices.data(), slices.size()};
}

void check(const ModelInferRequest* expected, std::string_view bytes, std::size_t length) {
  grpc::ByteBuffer buffer = in_pieces(bytes, length);
  auto wire = std::make_shared<WireRequest>();
  const Status status = wire->read(&buffer);
  require(status.ok() == (expected != nullptr), "a message reads when protobuf reads it");
  if (!status.ok()) return check_error(status);
  ModelInferRequest whole = wire->fields();
  for (const auto raw : wire->raw_contents()) {
    whole.add_raw_input_contents(raw.data(), raw.size());
  }
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_field_comparator(&comparator);
  require(differencer.Compare(whole, *expected), "and reads the same");
  auto request = decode_request(std::move(wire));
  if (check_result(request)) pass_checks(&*request);
}

void run(std::string_view input) {
  ModelInferRequest message;
  const bool is_message = message.ParseFromArray(input.data(), static_cast<int>(input.size()));
  for (const std::size_t length : {std::max<std::size_t>(1, input.size()), std::size_t{7}}) {
    check(is_message ? &message : nullptr, input, length);
  }
}

ModelInferRequest with_inputs() {
  ModelInferRequest request;
  request.set_model_name("m");
  request.set_id("7");
  (*request.mutable_parameters())["timeout"].set_int64_param(1000);
  (*request.mutable_parameters())["priority"].set_uint64_param(1);
  const auto add = [&](const char* name, const char* type, std::initializer_list<int> shape) {
    auto* input = request.add_inputs();
    input->set_name(name);
    input->set_datatype(type);
    for (const int size : shape) input->add_shape(size);
  };
  add("x", "FP32", {1, 4});
  add("s", "BYTES", {2, 1});
  add("i", "INT64", {1});
  auto* output = request.add_outputs();
  output->set_name("y");
  (*output->mutable_parameters())["classification"].set_int64_param(2);
  return request;
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  ModelInferRequest raw = with_inputs();
  raw.add_raw_input_contents("0123456789abcdef");
  raw.add_raw_input_contents("\x03\0\0\0abc\0\0\0\0"s);
  raw.add_raw_input_contents("01234567");

  ModelInferRequest typed = with_inputs();
  for (const float value : {1.F, 2.5F, -3.F, 1e30F}) {
    typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(value);
  }
  typed.mutable_inputs(1)->mutable_contents()->add_bytes_contents("abc");
  typed.mutable_inputs(1)->mutable_contents()->add_bytes_contents("");
  typed.mutable_inputs(2)->mutable_contents()->add_int64_contents(-1);

  ModelInferRequest shared = with_inputs();
  auto& parameters = *shared.mutable_inputs(0)->mutable_parameters();
  parameters["shared_memory_region"].set_string_param("r");
  parameters["shared_memory_offset"].set_int64_param(4);
  parameters["shared_memory_byte_size"].set_int64_param(16);
  shared.add_raw_input_contents("\x03\0\0\0abc\0\0\0\0"s);
  shared.add_raw_input_contents("01234567");
  return {raw.SerializeAsString(), typed.SerializeAsString(), shared.SerializeAsString()};
}

const Registration registration({"grpc", run, seeds, &ModelInferRequest::default_instance()});

}  // namespace
}  // namespace tutti::fuzz
