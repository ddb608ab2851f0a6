#include "server/config/request_signature.h"

#include "server/datatype.h"

namespace tutti::server {
namespace {

template <class Tensors>
std::vector<TensorSpec> request_specs(const Tensors& tensors, bool is_batched) {
  std::vector<TensorSpec> specs;
  for (const auto& tensor : tensors) {
    TensorSpec spec{tensor.name(), DType::kUndefined, {}};
    if (const auto dtype = from_config_type(tensor.data_type()); dtype.ok()) spec.dtype = *dtype;
    if (is_batched) spec.dims.push_back(-1);
    spec.dims.insert(spec.dims.end(), tensor.dims().begin(), tensor.dims().end());
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

ModelSignature request_signature(const inference::ModelConfig& config) {
  const bool is_batched = config.max_batch_size() > 0;
  return {request_specs(config.input(), is_batched), request_specs(config.output(), is_batched)};
}

}  // namespace tutti::server
