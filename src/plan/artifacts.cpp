#include "plan/artifacts.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "artifacts.pb.h"
#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "plan/plan_seal.h"

namespace tutti {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

constexpr std::uint32_t kFormat = 1;
// Far from ONNX's own fields, so that its readers leave it aside.
constexpr std::uint32_t kField = 7001;
constexpr std::size_t kKeyBytes = 16;

auto identity(const Artifact& a) { return std::tie(a.backend, a.kind, a.key.high, a.key.low); }
auto order(const Artifact& a) {
  return std::tie(a.backend, a.kind, a.target, a.name, a.key.high, a.key.low);
}

std::string key_bytes(const Hash128& key) {
  std::string bytes;
  for (const std::uint64_t word : {key.high, key.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(word >> shift));
  }
  return bytes;
}

Hash128 key_from(std::string_view bytes) {
  std::uint64_t words[2] = {0, 0};
  for (std::size_t i = 0; i < kKeyBytes; ++i) {
    words[i / 8] = words[i / 8] << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return {words[0], words[1]};
}

// What protobuf reads.
Status check_size(std::size_t bytes) {
  constexpr std::size_t kLimit = (std::size_t{1} << 31) - 1;
  if (bytes <= kLimit) return {};
  return invalid_argument("has ", bytes, " bytes, at most ", kLimit, " are possible");
}

// A range of the file.
struct Extent {
  std::size_t first = 0;  // of the field's tag
  std::size_t data = 0;
  std::size_t last = 0;
};

// Past one field of a message, whose tag has been read. False: there is no such field.
bool skip_field(std::uint32_t tag, CodedInputStream* stream) {
  std::uint64_t number = 0;
  switch (tag & 7U) {
    case 0: return stream->ReadVarint64(&number);
    case 1: return stream->Skip(8);
    case 2: {
      std::uint32_t size = 0;
      return stream->ReadVarint32(&size) && size <= (1U << 31) - 1 &&
             stream->Skip(static_cast<int>(size));
    }
    case 5: return stream->Skip(4);
    default: return false;
  }
}

Result<std::optional<Extent>> find_section(std::span<const std::byte> body) {
  CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(body.data()),
                          static_cast<int>(body.size()));
  std::optional<Extent> found;
  for (;;) {
    Extent field;
    field.first = static_cast<std::size_t>(stream.CurrentPosition());
    const std::uint32_t tag = stream.ReadTag();
    if (tag == 0) break;
    const bool is_section = tag == (kField << 3 | 2U);
    if (is_section && found) return invalid_argument("has two sections of artifacts");
    std::uint32_t size = 0;
    if (is_section ? !stream.ReadVarint32(&size) : !skip_field(tag, &stream)) {
      return invalid_argument("is no ONNX model");
    }
    if (!is_section) continue;
    field.data = static_cast<std::size_t>(stream.CurrentPosition());
    field.last = field.data + size;
    if (field.last > body.size() || !stream.Skip(static_cast<int>(size))) {
      return invalid_argument("is no ONNX model");
    }
    found = field;
  }
  if (static_cast<std::size_t>(stream.CurrentPosition()) != body.size()) {
    return invalid_argument("is no ONNX model");
  }
  return found;
}

Result<Artifact> from_proto(const plan::ArtifactProto& proto) {
  if (proto.backend().empty() || proto.kind().empty()) {
    return invalid_argument("artifact '", proto.name(), "' has no backend or no kind");
  }
  if (proto.key().size() != kKeyBytes) {
    return invalid_argument("artifact '", proto.name(), "' has a key of ", proto.key().size(),
                            " bytes, expected ", kKeyBytes);
  }
  return Artifact{proto.backend(), proto.kind(),          proto.target(), proto.made_by(),
                  proto.name(),    key_from(proto.key()), proto.content()};
}

}  // namespace

void merge_artifacts(std::vector<Artifact> more, std::vector<Artifact>* artifacts) {
  // The later one of those that stand for each other stays.
  artifacts->insert(artifacts->end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  std::stable_sort(artifacts->begin(), artifacts->end(),
                   [](const Artifact& a, const Artifact& b) { return identity(a) < identity(b); });
  const auto same = [](const Artifact& a, const Artifact& b) { return identity(a) == identity(b); };
  const auto first = std::unique(artifacts->rbegin(), artifacts->rend(), same).base();
  artifacts->erase(artifacts->begin(), first);
  std::sort(artifacts->begin(), artifacts->end(),
            [](const Artifact& a, const Artifact& b) { return order(a) < order(b); });
}

std::string write_artifacts(const std::vector<Artifact>& artifacts) {
  if (artifacts.empty()) return "";
  plan::ArtifactsProto section;
  section.set_format(kFormat);
  for (const Artifact& artifact : artifacts) {
    plan::ArtifactProto* proto = section.add_artifact();
    proto->set_backend(artifact.backend);
    proto->set_kind(artifact.kind);
    proto->set_target(artifact.target);
    proto->set_made_by(artifact.made_by);
    proto->set_name(artifact.name);
    proto->set_key(key_bytes(artifact.key));
    proto->set_content(artifact.content);
  }
  const std::string content = section.SerializeAsString();
  std::uint8_t header[10];
  std::uint8_t* end = CodedOutputStream::WriteTagToArray(kField << 3 | 2U, header);
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<std::uint32_t>(content.size()), end);
  return std::string(reinterpret_cast<const char*>(header),
                     static_cast<std::size_t>(end - header)) +
         content;
}

Result<std::vector<Artifact>> read_artifacts(std::span<const std::byte> body) {
  TUTTI_ASSIGN_OR_RETURN(const std::optional<Extent> section, find_section(body));
  std::vector<Artifact> artifacts;
  if (!section) return artifacts;
  plan::ArtifactsProto proto;
  if (!proto.ParseFromArray(body.data() + section->data,
                            static_cast<int>(section->last - section->data))) {
    return invalid_argument("has a section of artifacts that does not parse");
  }
  if (proto.format() != kFormat) {
    return invalid_argument("has artifacts of format ", proto.format(), ", expected ", kFormat,
                            "; compile the model again");
  }
  for (const plan::ArtifactProto& each : proto.artifact()) {
    TUTTI_ASSIGN_OR_RETURN(Artifact artifact, from_proto(each));
    artifacts.push_back(std::move(artifact));
  }
  const std::size_t given = artifacts.size();
  merge_artifacts({}, &artifacts);
  if (artifacts.size() != given) return invalid_argument("has an artifact twice");
  return artifacts;
}

Status replace_artifacts(const std::string& path, const std::vector<Artifact>& artifacts) {
  const auto replace = [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<MappedFile> old, MappedFile::open(path));
    TUTTI_RETURN_IF_ERROR(check_size(old->bytes().size()));
    TUTTI_ASSIGN_OR_RETURN(const std::span<const std::byte> body, unseal(old->bytes()));
    TUTTI_ASSIGN_OR_RETURN(const std::optional<Extent> section, find_section(body));
    std::string bytes(reinterpret_cast<const char*>(body.data()), body.size());
    if (section) bytes.erase(section->first, section->last - section->first);
    bytes += write_artifacts(artifacts);
    seal(&bytes);
    TUTTI_RETURN_IF_ERROR(check_size(bytes.size()));
    TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::create(path));
    TUTTI_RETURN_IF_ERROR(file->write(std::as_bytes(std::span(bytes))));
    return file->commit();
  };
  return replace().with_context(str_cat("plan '", path, "'"));
}

}  // namespace tutti
