// C = activation(A B + bias) + residual over row blocks, by oneDNN, one thread a call.
//
// A Gemm knows one B format and up to two block heights (the last block of rows may be shorter).
// B may be packed into oneDNN's preferred format once, when it is constant.
#pragma once

#include <memory>
#include <string>

#include "backends/cpu/onednn.h"

namespace tutti::cpu {

struct GemmSpec {
  DType dtype = DType::kFloat32;  // of A, B, bias, residual and C
  std::int64_t rows = 0;          // of A and C
  std::int64_t block_rows = 0;    // rows of one call; the last block has what is left
  std::int64_t k = 0;
  std::int64_t columns = 0;
  bool transpose_b = false;          // B is [columns, k] in memory
  std::int64_t b_stride = 0;         // elements between rows of B as it lies in memory
  std::int64_t c_stride = 0;         // elements between rows of C
  const void* constant_b = nullptr;  // packed when given
  bool has_bias = false;
  bool has_residual = false;  // laid out as C
  std::string activation;     // of the operator Linear
  int workers = 1;
};

class Gemm {
 public:
  // Errors: UNIMPLEMENTED when oneDNN has no fast code for the types on this machine.
  static Result<std::unique_ptr<Gemm>> create(const GemmSpec& spec);

  std::size_t scratch_bytes() const { return scratch_bytes_; }  // for each worker
  bool packs_b() const { return spec_.constant_b != nullptr; }
  std::int64_t blocks() const { return (spec_.rows + spec_.block_rows - 1) / spec_.block_rows; }

  // Block number `block` of the rows. Pointers are to the whole matrices; b is ignored when packed.
  // Different workers may run at the same time; `scratch` has scratch_bytes().
  Status run(int worker, std::int64_t block, const void* a, const void* b, const void* bias,
             const void* residual, void* c, void* scratch);

 private:
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
  struct Call {
    explicit Call(OneDnnCall c) : call(std::move(c)) {}
    OneDnnCall call;
    std::size_t a = 0, b = 0, c = 0, scratch = 0, bias = kAbsent, residual = kAbsent;
  };

  explicit Gemm(GemmSpec spec) : spec_(std::move(spec)) {}
  Status add_height(std::int64_t rows);

  GemmSpec spec_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::vector<std::vector<Call>> calls_;  // [0: full blocks, 1: the last][worker]
  std::vector<AlignedBuffer> packed_;     // by height; the last may share the first
  std::vector<dnnl::memory::desc> packed_format_;
  std::vector<std::size_t> packed_of_height_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace tutti::cpu
