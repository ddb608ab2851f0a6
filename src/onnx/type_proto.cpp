#include "onnx/type_proto.h"

#include <cctype>

#include "onnx.pb.h"
#include "onnx/tensor_proto.h"

namespace tutti {
namespace {

const char* kind_name(const onnx::TypeProto& proto) {
  switch (proto.value_case()) {
    case onnx::TypeProto::kTensorType: return "tensor";
    case onnx::TypeProto::kSequenceType: return "sequence";
    case onnx::TypeProto::kMapType: return "map";
    case onnx::TypeProto::kOptionalType: return "optional";
    case onnx::TypeProto::kSparseTensorType: return "sparse tensor";
    case onnx::TypeProto::kOpaqueType: return "opaque";
    case onnx::TypeProto::VALUE_NOT_SET: break;
  }
  return "missing";
}

}  // namespace

Result<DType> element_type_from_proto(const onnx::TypeProto& proto) {
  if (!proto.has_tensor_type()) {
    return unimplemented("type is ", kind_name(proto), "; only dense tensors are supported");
  }
  return dtype_from_proto(proto.tensor_type().elem_type());
}

Result<Shape> shape_from_proto(const onnx::TypeProto& proto, std::string_view name) {
  if (!proto.tensor_type().has_shape()) return invalid_argument("has no shape");
  Shape shape;
  for (const onnx::TensorShapeProto::Dimension& dim : proto.tensor_type().shape().dim()) {
    const std::size_t axis = shape.size();
    if (dim.has_dim_value()) {
      if (dim.dim_value() < 0 || dim.dim_value() > kMaxDimSize) {
        return invalid_argument("dimension ", axis, " is ", dim.dim_value(),
                                "; expected a size in [0, ", kMaxDimSize, "]");
      }
      shape.emplace_back(dim.dim_value());
    } else if (dim.has_dim_param() && !dim.dim_param().empty()) {
      Result<Dim> formula = parse_dim(dim.dim_param());
      shape.push_back(formula.ok() ? *std::move(formula)
                                   : Dim::symbol(symbol_text(dim.dim_param())));
    } else {
      shape.push_back(Dim::symbol(str_cat(symbol_text(name), ".", axis)));
    }
  }
  if (shape.size() > static_cast<std::size_t>(kMaxRank)) {
    return invalid_argument("has ", shape.size(), " dimensions; at most ", kMaxRank,
                            " are supported");
  }
  return shape;
}

std::string symbol_text(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.') c = '_';
  }
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) text.insert(0, "_");
  return text;
}

void type_to_proto(const TensorType& type, onnx::TypeProto* proto) {
  onnx::TypeProto::Tensor* tensor = proto->mutable_tensor_type();
  tensor->set_elem_type(dtype_to_onnx(type.dtype));
  onnx::TensorShapeProto* shape = tensor->mutable_shape();
  for (const Dim& dim : type.shape) {
    onnx::TensorShapeProto::Dimension* out = shape->add_dim();
    if (dim.is_constant()) {
      out->set_dim_value(dim.constant());
    } else {
      out->set_dim_param(dim.to_string());
    }
  }
}

}  // namespace tutti
