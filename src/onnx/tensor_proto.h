// TensorProto to Tensor and back.
#pragma once

#include "base/status.h"
#include "base/tensor.h"
#include "onnx/external_data.h"

namespace onnx {
class TensorProto;
}

namespace tutti {

// The element type, or an error that names the ONNX type.
Result<DType> dtype_from_proto(int data_type);

// The tensor with its content, whichever field holds it. External data is mapped, not read, save
// where it is not aligned for its type. Nothing is allocated before the content is known to be as
// large as the sizes say. Errors begin with "tensor 'NAME': ".
Result<Tensor> tensor_from_proto(const onnx::TensorProto& proto, ExternalFiles* files);

// Name is left to the caller; the content goes to raw_data.
void tensor_to_proto(const Tensor& tensor, onnx::TensorProto* proto);

}  // namespace tutti
