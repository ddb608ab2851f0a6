// The other side of the border: a Backend of a plug-in as the C table.
#pragma once

#include "runtime/backend.h"
#include "tutti/backend.h"

namespace tutti::abi {

// Makes the plug-in's backend; called for each create_backend.
using BackendFactory = Result<std::unique_ptr<Backend>> (*)();

// Makes one that needs no device, for devices of a kind.
using OfflineFactory = Result<std::unique_ptr<Backend>> (*)(const std::string& target);

// A table named `name` (a literal) around what `factory` and `offline`, if there is one, make. One
// table a plug-in: the second call returns the first one's.
const tutti_backend_api* export_backend(const char* name, BackendFactory factory,
                                        OfflineFactory offline = nullptr);

}  // namespace tutti::abi
