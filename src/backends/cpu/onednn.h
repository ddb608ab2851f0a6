// Our use of oneDNN: always one thread a call (we split the work ourselves), scratch memory ours,
// errors as Status. oneDNN's wheel runs on OpenMP, whose thread count belongs to the calling
// thread.
#pragma once

#include <omp.h>

#include <string_view>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "base/status.h"
#include "base/tensor.h"

namespace tutti::cpu {

// Makes oneDNN create and run primitives on this thread alone. Cheap; call it in every worker.
inline void use_one_onednn_thread() { omp_set_num_threads(1); }

// dnnl.hpp throws; nothing of that leaves this function. f returns Status.
template <class F>
Status guard_onednn(F&& f) {
  try {
    use_one_onednn_thread();
    return f();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return unimplemented("[onednn] ", error.what());
    return internal_error("[onednn] ", error.what());
  }
}

// Only f32, bf16, f16 and i32 have one; others are undef.
dnnl::memory::data_type onednn_type(DType dtype);

// False for oneDNN's reference loops, which are slower than ours.
bool is_fast_implementation(std::string_view implementation_name);

// A primitive with its arguments for one thread: memory objects are made once, pointers are set at
// each run, and nothing is allocated by us.
class OneDnnCall {
 public:
  OneDnnCall(dnnl::primitive primitive, const dnnl::engine& engine)
      : primitive_(std::move(primitive)), stream_(engine), engine_(engine) {}

  // Returns the position for set().
  std::size_t add(int argument, const dnnl::memory::desc& desc);
  void set(std::size_t position, const void* data) {
    memories_[position].set_data_handle(const_cast<void*>(data));
  }
  // The error names oneDNN's code. The calling thread must have called use_one_onednn_thread().
  Status run();

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  dnnl::engine engine_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// 64-byte aligned memory that a kernel owns: packed weights.
class AlignedBuffer {
 public:
  static Result<AlignedBuffer> allocate(std::size_t bytes);
  std::byte* data() { return tensor_.mutable_data(); }
  const std::byte* data() const { return tensor_.data(); }

 private:
  Tensor tensor_;
};

// `source` in the format `desc`, in memory of its own.
Result<AlignedBuffer> reorder_onednn(const dnnl::engine& engine, const dnnl::memory::desc& from,
                                     const void* source, const dnnl::memory::desc& to);

inline std::size_t align64(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace tutti::cpu
