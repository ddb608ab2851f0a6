// NVIDIA's cuDNN 9, found at run time: attention and convolutions as graphs of its C++ front end
// (https://docs.nvidia.com/deeplearning/cudnn/frontend). Where it is missing or refuses a case, our
// own kernels serve.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/rank_context.h"
#include "base/dtype.h"
#include "base/tensor.h"

struct cudnnContext;

namespace tutti::cuda {

enum class CausalMask {
  kNone,
  kTopLeft,      // query i sees key j iff j <= i + offset
  kBottomRight,  // ... iff j <= i + keys - queries, with lengths those of the batch element
};

// softmax(scale q k^T + bias) v. Strides are in elements: batch, head, token; the last dimension
// lies side by side.
struct CudnnAttention {
  DType dtype = DType::kBFloat16;  // f16, bf16
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t qk_size = 0;  // of a head
  std::int64_t v_size = 0;
  std::array<std::int64_t, 3> q{}, k{}, v{}, out{};
  Dims bias;  // [batch or 1, heads or 1, queries or 1, keys], of dtype, dense; empty for none
  bool has_lengths = false;
  CausalMask mask = CausalMask::kNone;
  std::int64_t offset = 0;  // of kTopLeft, not negative
  float scale = 1;
  bool has_statistics = false;  // f32 [batch, heads, queries]: log of the sum of exp of the scores

  auto operator<=>(const CudnnAttention&) const = default;

  // Places of addresses. Lengths are i32 [batch].
  enum Address { kQ, kK, kV, kOut, kBias, kQueryLengths, kKeyLengths, kStatistics };
};

// Two or three spatial dimensions. Tensors are dense: [n, c, ..], or with the channels last in
// memory (their dims are written in the same order).
struct CudnnConvolution {
  DType dtype = DType::kFloat32;  // f32 (never in TF32), f16, bf16; accumulates in f32
  bool is_transposed = false;
  bool is_channels_last = false;
  bool has_bias = false;
  Dims x, w, y;  // as ONNX has them: w is [o, c / group, ..], transposed [c, o / group, ..]
  Dims strides, dilations, before, after;

  auto operator<=>(const CudnnConvolution&) const = default;

  enum Address { kX, kW, kY, kBias };
};

// A graph with the engine that computes it. Thread-safe.
class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;
  virtual std::size_t workspace_bytes() const = 0;
  virtual std::string name() const = 0;  // of the engine with its settings
  // `addresses` by the graph's enum, null where the graph has no such tensor; 16-byte aligned. On
  // the stream of `handle`; may be captured.
  virtual Status run(cudnnContext* handle, std::span<void* const> addresses, void* workspace) = 0;
};

class CudnnHandle;

// The library on one device. Thread-safe; outlives its plans.
class Cudnn {
 public:
  // NOT_FOUND names what is missing. UNIMPLEMENTED in a build without cuDNN's headers.
  static Result<std::unique_ptr<Cudnn>> create(int device, int arch);
  virtual ~Cudnn() = default;
  virtual std::string version() const = 0;  // "9.19.0"
  virtual Result<std::shared_ptr<CudnnHandle>> create_handle(cudaStream_t stream) = 0;

  // Equal ones share a plan. UNIMPLEMENTED with the library's reason.
  virtual Result<std::shared_ptr<CudnnPlan>> attention(const CudnnAttention& attention) = 0;

  // Engines that promise the same result at each run, the library's favourites first; only the one
  // of that name if it is not empty. May be none.
  virtual std::vector<std::shared_ptr<CudnnPlan>> convolution(const CudnnConvolution& convolution,
                                                              const std::string& name) = 0;
};

// What a thread calls the library with, on one stream.
class CudnnHandle {
 public:
  virtual ~CudnnHandle() = default;
  virtual cudnnContext* get() const = 0;
};

// The rank's handle, made when first asked for. The rank has cuDNN.
Result<cudnnContext*> cudnn_handle(RankContext& context);

}  // namespace tutti::cuda
