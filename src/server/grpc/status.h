// Our Status as gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include "base/status.h"

namespace tutti::server {

// The codes map one to one. Long messages are cut: they travel in a header that gRPC limits.
grpc::Status to_grpc(const Status& status);

}  // namespace tutti::server
