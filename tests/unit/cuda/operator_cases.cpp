#include "case_table.h"

namespace tutti::cuda {

const std::vector<OperatorCase>& operator_cases() {
  static const CaseTable table = [] {
    CaseTable made;
    add_pointwise_cases(made);
    add_movement_cases(made);
    add_reduction_cases(made);
    add_product_cases(made);
    add_norm_cases(made);
    add_attention_cases(made);
    add_fused_cases(made);
    return made;
  }();
  return table.cases;
}

}  // namespace tutti::cuda
