#include "backends/cpu/attention_levels.h"

#include "backends/cpu/simd.h"

namespace tutti::cpu::attention {

Result<const Functions*> functions_for(DType dtype) {
  const Functions* functions = nullptr;
  switch (simd_level()) {
    case SimdLevel::kAvx512: functions = avx512::functions(dtype); break;
    case SimdLevel::kAvx2: functions = avx2::functions(dtype); break;
    case SimdLevel::kBaseline: functions = baseline::functions(dtype); break;
  }
  if (functions != nullptr) return functions;
  return unimplemented("attention of ", dtype_name(dtype), "; expected f32, f16 or bf16");
}

}  // namespace tutti::cpu::attention
