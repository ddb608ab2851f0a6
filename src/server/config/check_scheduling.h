// Whether dynamic_batching and its queue policies say something that can be done.
#pragma once

#include "base/status.h"
#include "server/config/config_file.h"

namespace tutti::server {

// Triton's rules: preferred sizes within max_batch_size, priorities within the levels, and no
// preserved order where a level or a delay would break it.
Status check_scheduling(const ConfigFile& file);

}  // namespace tutti::server
