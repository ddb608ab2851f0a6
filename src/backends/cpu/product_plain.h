// Matrix products without oneDNN: f64 and integers, and shapes that it does not take.
#pragma once

#include "base/half.h"
#include "base/status.h"
#include "base/thread_pool.h"

namespace tutti::cpu {

// C[rows, columns] = A[rows, k] B for one matrix; B is [k, columns], or [columns, k] when
// transposed. 16-bit floats sum in float. Rows are shared out over `pool`.
Status plain_product(DType dtype, std::int64_t rows, std::int64_t k, std::int64_t columns,
                     bool transpose_b, const void* a, const void* b, void* c, ThreadPool* pool);

// c = activation(c + bias) + residual for floats of any width; bias and residual may be null.
Status plain_epilogue(DType dtype, std::int64_t rows, std::int64_t columns,
                      std::string_view activation, const void* bias, const void* residual, void* c,
                      ThreadPool* pool);

// Between f16 or bf16 and f32, shared out over `pool`.
void to_floats(DType dtype, const void* source, float* target, std::int64_t count,
               ThreadPool* pool);
void from_floats(DType dtype, const float* source, void* target, std::int64_t count,
                 ThreadPool* pool);

}  // namespace tutti::cpu
