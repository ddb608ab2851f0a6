#include "backends/cuda/pipeline_body.h"

#include <algorithm>

#include "runtime/storage.h"

namespace tutti::cuda {

Result<PipelineBody> PipelineBody::read(const KernelSpec& spec) {
  PipelineBody body(spec);
  TUTTI_ASSIGN_OR_RETURN(body.descs_, describe_values(*body.graph_, spec.symbols));
  for (const auto& node : body.graph_->nodes()) body.nodes_.push_back(node.get());
  const auto& nodes = body.nodes_;
  const auto arrival = std::find_if(nodes.begin(), nodes.end(),
                                    [](const Node* node) { return node->op().is_exchange; });
  if (nodes.end() - arrival < 3) return invalid_argument("the body is no pipeline");
  body.arrival_ = *arrival;
  return body;
}

bool PipelineBody::is_exchanged(const Value* value, PipelineOperand* operand) const {
  if (value->producer() != &arrival()) return false;
  operand->exchanged = static_cast<std::size_t>(value->producer_output());
  return true;
}

Result<PipelineOperand> PipelineBody::operand(std::size_t i) const {
  const Value* value = attention().input(i);
  PipelineOperand operand;
  operand.bytes = desc(value).byte_size();
  if (is_exchanged(value, &operand)) return operand;
  const Node* concat = value->producer();
  if (concat == nullptr || concat->type() != "Concat" || concat->attr_int("axis") != 1 ||
      desc(value).dims[0] != 1) {
    return unimplemented("operand ", i, " is not put together of tokens");
  }
  std::size_t offset = 0;
  std::size_t found = 0;
  for (const Value* part : concat->inputs()) {
    if (is_exchanged(part, &operand)) {
      ++found;
      operand.first_token = static_cast<std::int64_t>(offset) / token_bytes(value);
    } else if (part->is_input()) {
      const auto& inputs = graph_->inputs();
      const auto at = std::find(inputs.begin(), inputs.end(), part) - inputs.begin();
      operand.others.push_back({static_cast<std::size_t>(at), offset, desc(part).byte_size()});
    } else {
      return unimplemented("a part of operand ", i, " is computed in between");
    }
    offset += desc(part).byte_size();
  }
  if (found != 1) return unimplemented(found, " parts of operand ", i, " are exchanged");
  return operand;
}

std::int64_t PipelineBody::token_bytes(const Value* value) const {
  const TensorDesc& d = desc(value);
  return d.dims[2] * d.dims[3] * static_cast<std::int64_t>(dtype_size(d.dtype));
}

}  // namespace tutti::cuda
