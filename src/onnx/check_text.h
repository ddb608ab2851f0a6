// Texts of a model are UTF-8, as ONNX says: they are names in answers, reports and errors later on,
// where a client that meets anything else fails.
#pragma once

#include "base/status.h"

namespace onnx {
class ModelProto;
}

namespace tutti {

// INVALID_ARGUMENT names the first text that is none: "graph.node[3].op_type '\xff' is no UTF-8".
Status check_text(const onnx::ModelProto& model);

}  // namespace tutti
