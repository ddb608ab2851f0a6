// KServe's protobuf messages to and from the service's types.
#pragma once

#include <grpc_service.pb.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/grpc/wire.h"
#include "server/infer.h"
#include "server/service.h"

namespace tutti::server {

// Raw bytes and most numeric `contents` stay where they are: the inputs point there, and the
// request holds `wire`. INVALID_ARGUMENT: `contents` beside `raw_input_contents`, raw buffers that
// are not one an input, contents of another kind than the datatype's, values that do not fit.
Result<InferRequest> decode_request(std::shared_ptr<const WireRequest> wire);

// All but the raw contents.
inference::ModelInferResponse encode_response(const InferResponse& response);

}  // namespace tutti::server
