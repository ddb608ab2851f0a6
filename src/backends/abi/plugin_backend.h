// A plug-in's C table (include/tutti/backend.h) as a Backend of the run time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "tutti/backend.h"

namespace tutti::abi {

// The table lives as long as the process. With a `target` ("sm_90"), a backend without devices that
// makes kernels for it. Errors: UNIMPLEMENTED for another ABI version or a plug-in that knows no
// targets, and why the plug-in cannot run on this machine.
Result<std::unique_ptr<Backend>> make_plugin_backend(const tutti_backend_api* api,
                                                     const std::string& target = "");

// Opens the library and makes its backend; the library stays loaded for ever. Errors: NOT_FOUND
// when there is no such file, UNAVAILABLE when it does not load (the loader's own words), and those
// of make_plugin_backend.
Result<std::unique_ptr<Backend>> open_plugin(const std::string& path,
                                             const std::string& target = "");

// Where libtutti_NAME.so may lie: `directory` alone when it is given, else beside the program and
// in ../lib from there.
std::vector<std::string> plugin_paths(const std::string& name, const std::string& directory);

// The first of plugin_paths that exists. NOT_FOUND names the places.
Result<std::unique_ptr<Backend>> find_plugin(const std::string& name, const std::string& directory,
                                             const std::string& target = "");

}  // namespace tutti::abi
