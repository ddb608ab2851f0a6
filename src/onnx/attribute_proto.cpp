#include "onnx/attribute_proto.h"

#include "onnx.pb.h"
#include "onnx/tensor_proto.h"

namespace tutti {

Result<Attribute> attribute_from_proto(const onnx::AttributeProto& proto, ExternalFiles* files) {
  using onnx::AttributeProto;
  switch (proto.type()) {
    case AttributeProto::INT: return Attribute(std::int64_t{proto.i()});
    case AttributeProto::FLOAT: return Attribute(double{proto.f()});
    case AttributeProto::STRING: return Attribute(proto.s());
    case AttributeProto::INTS:
      return Attribute(std::vector<std::int64_t>(proto.ints().begin(), proto.ints().end()));
    case AttributeProto::FLOATS:
      return Attribute(std::vector<double>(proto.floats().begin(), proto.floats().end()));
    case AttributeProto::STRINGS:
      return Attribute(std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case AttributeProto::TENSOR: {
      Result<Tensor> tensor = tensor_from_proto(proto.t(), files);
      if (tensor.ok()) return Attribute(*std::move(tensor));
      return tensor.status().with_context(str_cat("attribute '", proto.name(), "'"));
    }
    default: break;
  }
  return unimplemented("attribute '", proto.name(), "' of kind ",
                       AttributeProto::AttributeType_Name(proto.type()), " is not supported");
}

}  // namespace tutti
