// Bodies of inferences over HTTP: JSON, tensors behind it, one raw tensor, generate; and their
// content codings.
#include <cstring>
#include <vector>

#include "fuzz/request_model.h"
#include "server/http/compression.h"
#include "server/http/generate.h"
#include "server/http/infer_codec.h"

namespace tutti::fuzz {
namespace {

using namespace tutti::server;  // NOLINT: the whole file is about it

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

void decode_all(HttpRequest& http) {
  if (auto infer = decode_infer(http); check_result(infer)) {
    require(infer->is_binary.size() == infer->request.outputs.size(), "a flag for each output");
    pass_checks(&infer->request);
    std::string json;
    append_parameters_json(infer->request.parameters, &json);
    JsonReader reader(json.insert(0, "{").append("}"));
    check_result(read_parameters(reader));
  }
  if (auto request = decode_generate(http, request_model()); check_result(request)) {
    pass_checks(&*request);
  }
  for (const DType dtype : {DType::kFloat32, DType::kString}) {
    const ModelSignature one = {{{"x", dtype, {-1, 4}}}, {{"y", dtype, {-1, 4}}}};
    if (auto raw = decode_raw_infer(http, one, false); check_result(raw)) {
      check_error(check_request(one, 0, &raw->request).status());
    }
  }
}

// The value of Inference-Header-Content-Length up to the first line's end ("gzip" and "deflate":
// the body is in that coding), then the body.
void run(std::string_view input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string_view first = input.substr(0, end);
  std::string_view body = input.substr(std::min(end + 1, input.size()));
  ByteBuffer plain;
  HttpRequest http;
  if (first == "gzip" || first == "deflate") {
    const Coding coding = first == "gzip" ? Coding::kGzip : Coding::kDeflate;
    auto bytes = decompress(std::as_bytes(std::span(body)), coding, kMostBytes);
    if (!check_result(bytes)) return;
    require(bytes->span().size() <= kMostBytes, "a body is no larger than its limit");
    plain = *std::move(bytes);
  } else {
    if (!first.empty()) http.headers = {{"inference-header-content-length", std::string(first)}};
    require(plain.append(body.data(), body.size()), "there is memory for the body");
  }
  http.method = "POST";
  http.body = plain.span();
  decode_all(http);
}

std::string gzip(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  const auto coded = compress(std::span(&bytes, 1), Coding::kGzip);
  require(coded.ok(), "a small body is compressed");
  return "gzip\n" + std::string(reinterpret_cast<const char*>(coded->data()), coded->size());
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  const std::string json =
      R"({"id":"7","parameters":{"priority":1,"timeout":1000,"binary_data_output":true},"inputs":[)"
      R"({"name":"x","datatype":"FP32","shape":[1,4],"data":[1,2.5,-3e2,NaN]},)"
      R"({"name":"s","datatype":"BYTES","shape":[2,1],"data":[["a\u00e9"],["\ud83d\ude00"]]},)"
      R"({"name":"i","datatype":"INT64","shape":[1],"data":[9007199254740993]}],)"
      R"("outputs":[{"name":"y","parameters":{"classification":2}}]})";
  const std::string binary =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{)"
      R"("binary_data_size":16}},{"name":"s","datatype":"BYTES","shape":[1,1],"parameters":{)"
      R"("binary_data_size":7}},{"name":"i","datatype":"INT64","shape":[1],"data":[1]}]})";
  const std::string shared =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{)"
      R"("shared_memory_region":"r","shared_memory_offset":4,"shared_memory_byte_size":16}}],)"
      R"("outputs":[{"name":"y","parameters":{"binary_data":false}}]})";
  return {"\n" + json,
          str_cat(binary.size(), "\n") + binary + "0123456789abcdef\x03\0\0\0abc"s,
          "\n" + shared,
          "0\n0123456789abcdef",
          gzip(json),
          std::string("\n") +
              R"({"x":[1,2,3,4],"s":"text","i":5,"temperature":0.5,"parameters":{"a":true}})"};
}

const Registration registration({"http", run, seeds});

}  // namespace
}  // namespace tutti::fuzz
