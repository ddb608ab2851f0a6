// Keys that restricted calls need.
#pragma once

#include <grpcpp/server_context.h>

#include "base/status.h"
#include "server/restrictions.h"

namespace tutti::server {

// UNAVAILABLE, as Triton has it, when the call is restricted and its metadata lack the key.
Status check_access(const grpc::CallbackServerContext& context, const Restrictions& restrictions,
                    CallGroup group);

}  // namespace tutti::server
