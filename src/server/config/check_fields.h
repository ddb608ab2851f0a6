// The fields of ModelConfig that Tutti does not have, in one table.
#pragma once

#include <string>
#include <vector>

#include "server/config/config_file.h"

namespace tutti::server {

// An error for the first set field that would change what a model answers; a warning for each that
// only tunes what Tutti does in its own way.
Status check_unsupported_fields(const ConfigFile& file, std::vector<std::string>* warnings);

}  // namespace tutti::server
