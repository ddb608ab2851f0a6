// The section of a plan file for what backends have made, without the plan around it.
#include <google/protobuf/io/coded_stream.h>

#include "artifacts.pb.h"
#include "fuzz/surface.h"
#include "plan/artifacts.h"

namespace tutti::fuzz {
namespace {

constexpr std::uint32_t kTag = 7001 << 3 | 2;

void run(std::string_view input) {
  using google::protobuf::io::CodedOutputStream;
  std::uint8_t header[10];
  std::uint8_t* end = CodedOutputStream::WriteTagToArray(kTag, header);
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<std::uint32_t>(input.size()), end);
  const std::string body =
      std::string(reinterpret_cast<const char*>(header), end - header) + std::string(input);
  const auto artifacts = read_artifacts(std::as_bytes(std::span(body)));
  if (!check_result(artifacts)) return;
  const std::string again = write_artifacts(*artifacts);
  const auto read = read_artifacts(std::as_bytes(std::span(again)));
  require(read.ok() && *read == *artifacts, "artifacts that read are written as they are");
}

std::vector<std::string> seeds() {
  plan::ArtifactsProto section;
  section.set_format(1);
  std::vector<std::string> all = {section.SerializeAsString()};
  for (const char* kind : {"cubin", "choice"}) {
    plan::ArtifactProto* artifact = section.add_artifact();
    artifact->set_backend("cuda");
    artifact->set_kind(kind);
    artifact->set_target("sm_90");
    artifact->set_made_by("NVRTC 13.0");
    artifact->set_key(std::string(16, kind[0]));
    artifact->set_content(std::string(40, '\x7f'));
    all.push_back(section.SerializeAsString());
  }
  return all;
}

const Registration registration({"plan_artifacts", run, seeds,
                                 &plan::ArtifactsProto::default_instance()});

}  // namespace
}  // namespace tutti::fuzz
