// The config.pbtxt that `tutti compile` puts beside a plan.
#pragma once

#include <string>

#include "plan/plan.h"

namespace tutti::cli {

// Writes FOLDER/config.pbtxt in Triton's schema; the model's name is the folder's. A plan of
// several ranks gets a KIND_MODEL group with enable_multi_device and the devices 0 to n-1.
Status write_model_config(const Plan& plan, const std::string& folder);

}  // namespace tutti::cli
