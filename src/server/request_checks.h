// The door: what a request must be before a model sees it.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "server/infer.h"

namespace tutti::server {

// Bytes against shape and dtype: no negative size, no overflow, exactly as many bytes, and BYTES
// elements that lie inside the data and are as many as the shape says. INVALID_ARGUMENT names the
// input, the value and what was expected.
Status check_input_data(const InferInput& input);

// The whole request against what the model takes (LoadedModel::signature): names known, complete
// and distinct, dtypes, ranks, sizes, one batch size within `max_batch_size` (0: the model does not
// batch). Puts all outputs into a request that names none. Gives the batch size, 1 without
// batching.
Result<std::int64_t> check_request(const ModelSignature& signature, std::int64_t max_batch_size,
                                   InferRequest* request);

}  // namespace tutti::server
