// What a plan says of itself besides its graphs: metadata entries of the ONNX model, readable in
// any viewer. Keys begin with "tutti.".
#pragma once

#include "base/status.h"
#include "plan/plan.h"

namespace onnx {
class ModelProto;
}

namespace tutti {

struct DataFileInfo {
  std::uint64_t bytes = 0;  // 0: there is no data file
  std::string digest;       // of its whole content, as Hash128::to_hex
};

void metadata_to_proto(const Plan& plan, const DataFileInfo& data, onnx::ModelProto* model);

// Fills everything of the plan but graphs and inputs. Errors: an entry that is missing, given twice
// or does not parse; another format or compiler version, with both versions.
Status metadata_from_proto(const onnx::ModelProto& model, Plan* plan, DataFileInfo* data,
                           std::vector<std::string>* main_inputs);

}  // namespace tutti
