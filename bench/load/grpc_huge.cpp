// One ModelInfer request with a huge tensor, made of one block that is sent again and again, so
// that the client takes little more than the answer's memory.
//
//   grpc_huge PORT MODEL BYTES    x: INT8[BYTES]; y has to be the same bytes
#include <google/protobuf/io/coded_stream.h>
#include <grpc_service.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBlock = std::size_t{16} << 20;

grpc::Slice make_block() {
  std::string block(kBlock, '\0');
  std::uint32_t state = 1;
  for (char& byte : block) byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  return grpc::Slice(block);
}

// The message's fields, then raw_input_contents by reference.
grpc::ByteBuffer make_request(const std::string& model, std::size_t bytes,
                              const grpc::Slice& block) {
  inference::ModelInferRequest fields;
  fields.set_model_name(model);
  auto* input = fields.add_inputs();
  input->set_name("x");
  input->set_datatype("INT8");
  input->add_shape(static_cast<std::int64_t>(bytes));
  fields.add_outputs()->set_name("y");
  std::string head = fields.SerializeAsString();
  std::uint8_t prefix[16];
  constexpr std::uint32_t kTag =
      inference::ModelInferRequest::kRawInputContentsFieldNumber << 3 | 2;  // length-delimited
  std::uint8_t* end = google::protobuf::io::CodedOutputStream::WriteVarint32ToArray(kTag, prefix);
  end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(bytes, end);
  head.append(prefix, end);
  std::vector<grpc::Slice> slices = {grpc::Slice(head)};
  for (std::size_t at = 0; at < bytes; at += kBlock) {
    const std::size_t size = std::min(kBlock, bytes - at);
    slices.push_back(size == kBlock ? block : block.sub(0, size));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// The tensor is the message's last field.
bool holds(const grpc::ByteBuffer& answer, std::size_t bytes, const grpc::Slice& block) {
  std::vector<grpc::Slice> slices;
  if (!answer.Dump(&slices).ok() || answer.Length() < bytes) return false;
  std::size_t skip = answer.Length() - bytes;
  std::size_t at = 0;  // of the tensor
  for (const grpc::Slice& slice : slices) {
    const std::size_t head = std::min(skip, slice.size());
    skip -= head;
    for (std::size_t i = head; i < slice.size();) {
      const std::size_t in_block = at % kBlock;
      const std::size_t count = std::min(slice.size() - i, kBlock - in_block);
      if (std::memcmp(slice.begin() + i, block.begin() + in_block, count) != 0) return false;
      i += count;
      at += count;
    }
  }
  return at == bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::size_t bytes = std::strtoull(argv[3], nullptr, 10);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(std::numeric_limits<int>::max());
  arguments.SetMaxSendMessageSize(std::numeric_limits<int>::max());
  grpc::GenericStub stub(grpc::CreateCustomChannel(std::string("127.0.0.1:") + argv[1],
                                                   grpc::InsecureChannelCredentials(), arguments));
  const grpc::Slice block = make_block();
  const grpc::ByteBuffer request = make_request(argv[2], bytes, block);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  grpc::ByteBuffer answer;
  grpc::Status status;
  const auto began = std::chrono::steady_clock::now();
  auto reader = stub.PrepareUnaryCall(&context, "/inference.GRPCInferenceService/ModelInfer",
                                      request, &queue);
  reader->StartCall();
  reader->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool is_ok = false;
  queue.Next(&tag, &is_ok);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (!status.ok()) {
    std::printf("%d: %s\n", status.error_code(), status.error_message().c_str());
    return 1;
  }
  const bool is_right = holds(answer, bytes, block);
  std::printf("%s after %.2f s\n", is_right ? "right" : "wrong", took.count());
  return is_right ? 0 : 1;
}
