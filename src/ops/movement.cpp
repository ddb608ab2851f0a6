#include "ops/movement.h"

#include "ops/families.h"

namespace tutti {

void add_lowering(LoweringRegistry* lowerings, std::string_view type,
                  Status (*rule)(LoweringContext&), std::vector<std::string> attributes) {
  Lowering lowering;
  lowering.op_type = type;
  lowering.attributes = std::move(attributes);
  lowering.lower = rule;
  lowerings->add(std::move(lowering));
}

void register_movement_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  register_shape_ops(ops, lowerings);
  register_slice_ops(ops, lowerings);
  register_gather_ops(ops, lowerings);
  register_scatter_ops(ops, lowerings);
  register_generate_ops(ops, lowerings);
  register_scan_ops(ops, lowerings);
  register_constant_only_ops(lowerings);
}

}  // namespace tutti
