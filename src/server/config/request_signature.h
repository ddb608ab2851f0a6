// What requests look like to a model with this configuration.
#pragma once

#include <model_config.pb.h>

#include "server/infer.h"

namespace tutti::server {

// Of a complete configuration. The batch dimension, where the model batches, is there as -1.
ModelSignature request_signature(const inference::ModelConfig& config);

}  // namespace tutti::server
