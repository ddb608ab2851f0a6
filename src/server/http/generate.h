// The bodies of `generate`: one JSON object whose members are the model's tensors.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "server/http/exchange.h"
#include "server/http/infer_codec.h"

namespace tutti::server {

// Members named as inputs become tensors: a value, or an array of them, whose elements are spread
// over the declared sizes; the last open size takes what is left, other open ones are 1. `id` is
// the request's id; members of `parameters` and all others become parameters. INVALID_ARGUMENT
// names a member of the wrong kind and elements that do not fit the sizes.
Result<InferRequest> decode_generate(const HttpRequest& http, const ModelSignature& signature);

// {"model_name": .., "model_version": .., "OUTPUT": value or [values]}.
Result<std::string> encode_generate(const InferResponse& response, const BufferSink& sink);

}  // namespace tutti::server
