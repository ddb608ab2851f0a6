// Convolutions by oneDNN: slices of rows, each brought into oneDNN's channel-blocked format,
// convolved and brought back by one worker, so that no whole tensor is ever in another format.
#pragma once

#include <memory>

#include "backends/cpu/conv_slices.h"
#include "backends/cpu/onednn.h"

namespace tutti::cpu {

class SlicedConv {
 public:
  // Computes in `compute` (the tensors' type, or f32 where oneDNN lacks fast code for that).
  // Constant weights are packed once. UNIMPLEMENTED when oneDNN has no fast code.
  static Result<std::unique_ptr<SlicedConv>> create(const ConvShape& shape, DType compute,
                                                    const Tensor* constant_weights,
                                                    ThreadPool* pool);

  bool packs_weights() const { return packs_weights_; }
  std::size_t workspace_bytes() const;
  Status run(const void* x, const void* w, const void* bias, void* y, void* workspace);

 private:
  // One kind of slice on one worker.
  struct Steps {
    OneDnnCall to_blocked, conv, from_blocked;
  };
  struct Kind {
    ConvSlice slice;
    std::vector<Steps> steps;  // by worker
    std::size_t source_bytes = 0, target_bytes = 0, scratch_bytes = 0;
  };

  SlicedConv(const ConvShape& shape, DType compute, ThreadPool* pool)
      : s_(shape),
        compute_(compute),
        pool_(pool),
        failures_(static_cast<std::size_t>(pool->size())) {}
  Status prepare(const Tensor* constant_weights);
  Status add_kind(const ConvSlice& slice, const Tensor* constant_weights);
  Status prepare_weights(const dnnl::memory::desc& format, const Tensor* constant_weights);
  dnnl::memory::desc weights_as_they_lie() const;
  Status run_slice(std::int64_t item, int worker, const std::byte* x, std::byte* y,
                   const void* weights, const void* bias, std::byte* scratch);

  const ConvShape s_;
  const DType compute_;
  ThreadPool* pool_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  std::size_t axis_ = 0;
  std::vector<ConvSlice> slices_;
  std::vector<std::size_t> kind_of_slice_;
  std::vector<Kind> kinds_;
  std::vector<Status> failures_;  // by worker

  bool packs_weights_ = false;
  AlignedBuffer packed_;
  dnnl::memory::desc weight_format_;
  std::vector<OneDnnCall> pack_weights_;  // one call, for weights that are no constant
  std::vector<OneDnnCall> convert_bias_;  // one call, where bias has another type than `compute`
  std::size_t pack_scratch_bytes_ = 0;
  std::size_t worker_bytes_ = 0;
};

}  // namespace tutti::cpu
