// Certificates and keys as TLS takes them.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::server {

// The text of a PEM file. INVALID_ARGUMENT names the path, of a file that cannot be read or holds
// no PEM block.
Result<std::string> read_pem(const std::string& path);

}  // namespace tutti::server
