// The classification extension: the largest elements of an output as texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tutti::server {

// "value:index" of the `count` largest elements of `scores`, largest first, equal ones in their
// order; fewer where there are fewer. `labels`, where one is there for the index, follows:
// ":label". INVALID_ARGUMENT for types without an order here (BOOL, BYTES) and above a million
// elements.
Result<std::vector<std::string>> top_classes(std::span<const std::byte> scores, DType dtype,
                                             std::uint32_t count,
                                             std::span<const std::string> labels = {});

}  // namespace tutti::server
