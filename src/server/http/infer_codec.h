// The bodies of `infer`: JSON, with tensors in it or behind it (the binary data extension).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/buffer_sink.h"
#include "server/http/exchange.h"
#include "server/infer.h"
#include "server/json/reader.h"
#include "server/parameters.h"

namespace tutti::server {

struct HttpInfer {
  InferRequest request;
  // Which outputs go behind the JSON: one flag for each that the request names, and the default,
  // which is all there is when it names none.
  std::vector<bool> is_binary;
  bool is_binary_by_default = false;
};

// Tensors behind the JSON are read where they lie in the body, which the request keeps alive.
// INVALID_ARGUMENT names the field, the value and what was expected: JSON that is none or of other
// kinds, Inference-Header-Content-Length outside the body, binary sizes that are not the body's.
Result<HttpInfer> decode_infer(const HttpRequest& http);

// A body that is one tensor and nothing else (Inference-Header-Content-Length: 0), for a model of
// one input: its one open size, if any, follows from the length; a batch has one element. The
// answer is binary.
Result<HttpInfer> decode_raw_infer(const HttpRequest& http, const ModelSignature& signature,
                                   bool is_batched);

Result<ParameterMap> read_parameters(JsonReader& reader);
Result<ParameterValue> read_parameter(JsonReader& reader);

// `infer` says which outputs are binary. INVALID_ARGUMENT for outputs that JSON cannot hold.
Result<HttpResponse> encode_infer(const HttpInfer& infer, const InferResponse& response,
                                  std::shared_ptr<const BufferSink> sink);

// "name":value of JSON for each parameter, separated by commas.
void append_parameters_json(const ParameterMap& parameters, std::string* out);

}  // namespace tutti::server
