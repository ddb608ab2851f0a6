// Names of classes, from the files that outputs name with label_filename.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/config/config_file.h"

namespace tutti::server {

// By output; the class's index is the line's.
using OutputLabels = std::map<std::string, std::vector<std::string>>;

// The files lie in the model's folder. Errors name the field: a name that is no plain file name
// there, a file that is not there.
Result<OutputLabels> read_labels(const ConfigFile& file, const std::filesystem::path& folder);

}  // namespace tutti::server
