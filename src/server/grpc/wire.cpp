#include "server/grpc/wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <malloc.h>

#include <string>
#include <utility>

namespace tutti::server {
namespace {

namespace io = google::protobuf::io;
using google::protobuf::internal::WireFormatLite;

// In a message of this size and above, tensors are copied so that its pieces can go: what the
// transport cut up is larger than the tensors in it.
constexpr std::size_t kLargeMessage = std::size_t{256} << 10;
constexpr std::size_t kHugeMessage = std::size_t{64} << 20;
// Outputs up to this are copied behind the fields: a piece of its own costs more.
constexpr std::size_t kSmallOutput = std::size_t{16} << 10;

constexpr std::uint32_t tag_of(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

std::string encode_tag_and_length(int field, std::size_t length) {
  std::uint8_t bytes[16];
  std::uint8_t* end = io::CodedOutputStream::WriteVarint32ToArray(tag_of(field), bytes);
  end = io::CodedOutputStream::WriteVarint64ToArray(length, end);
  return {reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes)};
}

constexpr int kInputs = inference::ModelInferRequest::kInputsFieldNumber;
constexpr int kRawInput = inference::ModelInferRequest::kRawInputContentsFieldNumber;
constexpr int kRawOutput = inference::ModelInferResponse::kRawOutputContentsFieldNumber;

Status no_message() { return invalid_argument("the request's bytes are no ModelInferRequest"); }

bool read_length(io::CodedInputStream* in, int* length) {
  std::uint32_t value = 0;
  if (!in->ReadVarint32(&value) || value > std::numeric_limits<std::int32_t>::max()) return false;
  *length = static_cast<int>(value);
  return true;
}

// Pieces of a message. Small ones gather into one.
class Pieces {
 public:
  void add(std::string_view bytes) { gathered_.append(bytes); }

  void add(std::span<const std::byte> bytes, const std::shared_ptr<const BufferSink>& owner) {
    if (bytes.size() <= kSmallOutput) {
      return add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
    flush();
    slices_.emplace_back(
        const_cast<std::byte*>(bytes.data()), bytes.size(),
        [](void* held) { delete static_cast<std::shared_ptr<const BufferSink>*>(held); },
        new std::shared_ptr<const BufferSink>(owner));
  }

  grpc::ByteBuffer finish() {
    flush();
    if (slices_.empty()) slices_.emplace_back();
    return {slices_.data(), slices_.size()};
  }

 private:
  void flush() {
    if (!gathered_.empty()) slices_.emplace_back(gathered_);
    gathered_.clear();
  }

  std::string gathered_;
  std::vector<grpc::Slice> slices_;
};

void add_response(const inference::ModelInferResponse& message, const std::string& fields,
                  const std::shared_ptr<const BufferSink>& sink, Pieces* pieces) {
  pieces->add(fields);
  for (int i = 0; i < message.outputs_size(); ++i) {
    const auto output = sink->output(static_cast<std::size_t>(i));
    pieces->add(encode_tag_and_length(kRawOutput, output.size()));
    pieces->add(output, sink);
  }
}

}  // namespace

Status WireRequest::read(grpc::ByteBuffer* bytes) {
  in_place_.Swap(bytes);
  std::string rest;
  Status status = read_fields(&rest);
  // What there is of them, in any case: they say whose request it is.
  if (!fields_.MergeFromString(rest) && status.ok()) status = no_message();
  if (has_in_place_) return status;
  const bool is_huge = in_place_.Length() >= kHugeMessage;
  in_place_.Clear();
  // Else the allocator keeps the pieces' memory, as much as the tensors have.
  if (is_huge) malloc_trim(0);
  return status;
}

Status WireRequest::read_fields(std::string* rest) {
  grpc::ProtoBufferReader reader(&in_place_);
  io::CodedInputStream in(&reader);
  io::StringOutputStream rest_stream(rest);
  io::CodedOutputStream out(&rest_stream);
  while (const std::uint32_t tag = in.ReadTag()) {
    if (tag == tag_of(kRawInput)) {
      TUTTI_RETURN_IF_ERROR(read_raw(&in));
    } else if (tag == tag_of(kInputs)) {
      int length = 0;
      if (!read_length(&in, &length)) return no_message();
      const auto limit = in.PushLimit(length);
      if (!fields_.add_inputs()->MergeFromCodedStream(&in) || in.BytesUntilLimit() != 0) {
        return no_message();
      }
      in.PopLimit(limit);
    } else if (!WireFormatLite::SkipField(&in, tag, &out)) {
      return no_message();
    }
  }
  return in.ConsumedEntireMessage() && reader.status().ok() ? Status() : no_message();
}

Status WireRequest::read_raw(io::CodedInputStream* in) {
  int length = 0;
  // A length that is not there must not take memory.
  if (!read_length(in, &length) || static_cast<std::size_t>(length) > in_place_.Length()) {
    return no_message();
  }
  const auto bytes = static_cast<std::size_t>(length);
  const void* there = nullptr;
  int contiguous = 0;
  const bool may_stay = in_place_.Length() < kLargeMessage;
  if (may_stay && in->GetDirectBufferPointer(&there, &contiguous) && contiguous >= length) {
    raw_.emplace_back(static_cast<const std::byte*>(there), bytes);
    has_in_place_ = true;
    return in->Skip(length) ? Status() : no_message();
  }
  ByteBuffer& joined = joined_.emplace_back();
  if (!joined.resize(bytes)) {
    return Status(StatusCode::kResourceExhausted,
                  str_cat("no memory left for raw contents of ", bytes, " bytes"));
  }
  if (!in->ReadRaw(joined.data(), length)) return no_message();
  raw_.push_back(joined.span());
  return {};
}

grpc::ByteBuffer write_response(const inference::ModelInferResponse& message,
                                const std::shared_ptr<const BufferSink>& sink) {
  Pieces pieces;
  add_response(message, message.SerializeAsString(), sink, &pieces);
  return pieces.finish();
}

grpc::ByteBuffer write_stream_response(const inference::ModelInferResponse& message,
                                       const std::shared_ptr<const BufferSink>& sink) {
  const std::string fields = message.SerializeAsString();
  std::size_t length = fields.size();
  for (int i = 0; i < message.outputs_size(); ++i) {
    const std::size_t bytes = sink->output(static_cast<std::size_t>(i)).size();
    length += encode_tag_and_length(kRawOutput, bytes).size() + bytes;
  }
  Pieces pieces;
  pieces.add(encode_tag_and_length(inference::ModelStreamInferResponse::kInferResponseFieldNumber,
                                   length));
  add_response(message, fields, sink, &pieces);
  return pieces.finish();
}

grpc::ByteBuffer write_message(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return {&slice, 1};
}

}  // namespace tutti::server
