// Attention on CUDA: what a node asks for, and the ways to compute it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/tuner.h"

namespace tutti::cuda {

struct AttentionStrides {
  std::int64_t batch, head, token;  // elements; a head's lie side by side
};

// Where the results of queries from `query` on go, up to those of the next place. Heads lie there
// as in `out`. Everything counts in elements.
struct AttentionPlace {
  std::int64_t query = 0;
  std::size_t target = 0;   // address
  std::int64_t offset = 0;  // there, of that query's first head
  std::int64_t batch_stride = 0, token_stride = 0;
};
constexpr std::size_t kMaxAttentionPlaces = 32;

struct AttentionProblem {
  DType dtype = DType::kFloat32;
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t qk_size = 0;  // of a head
  std::int64_t v_size = 0;
  AttentionStrides q{}, k{}, v{}, out{};
  DType mask_dtype = DType::kUndefined;  // none; bool, or dtype
  Dims mask;                             // 4 dims, 1 where it broadcasts
  Dims mask_strides = Dims(4, 0);        // batch, head, query, key; 0 where it broadcasts
  bool has_lengths = false;
  bool is_causal = false;
  std::int64_t causal_offset = 0;
  double scale = 1;
  double softcap = 0;
  // From query 0 on, by query; none: all results go to `out`.
  std::vector<AttentionPlace> places;

  bool has_mask() const { return mask_dtype != DType::kUndefined; }
};

// Of a node Attention, RingAttention or JoinedRingAttention. k and v are whole, also where the node
// has pieces of them.
Result<AttentionProblem> read_attention(const KernelSpec& spec, const Dims& k, const Dims& v);

struct AttentionAddresses {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* mask = nullptr;
  const void* lengths = nullptr;
  void* out = nullptr;
  void* workspace = nullptr;
  std::span<void* const> targets = {};  // of places
};

// Of the place's first query in `at.targets`, whose elements have `width` bytes.
inline void* address_of(const AttentionPlace& place, const AttentionAddresses& at,
                        std::size_t width) {
  return static_cast<std::byte*>(at.targets[place.target]) +
         static_cast<std::size_t>(place.offset) * width;
}

// A way to compute a problem, on the rank's stream.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual std::string name() const = 0;
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual Status run(const AttentionAddresses& at) = 0;
};

// Our own kernels: any type, mask and head size that fits into a block's shared memory.
Result<std::unique_ptr<Attention>> make_plain_attention(const AttentionProblem& problem,
                                                        RankContext& context);

// Our kernel for compute capability 9.0, over all keys in one pass. UNIMPLEMENTED: other cards,
// masks, lengths, heads of more than 128 elements or of no multiple of 8, other types than 16-bit
// floats.
Result<std::unique_ptr<Attention>> make_hopper_attention(const AttentionProblem& problem,
                                                         RankContext& context);

// Whether our kernel on matrix units takes heads of these sizes.
bool takes_matrix_units(DType dtype, std::int64_t qk_size, std::int64_t v_size);

// Goes on with more keys, at the addresses of k and v, where another kernel has stopped: out holds
// its result and statistics (f32 [batch, heads, queries]) the logs of its sums of exp.
class AttentionTail {
 public:
  // `keys` is at most 128. UNIMPLEMENTED for masks, lengths, and what takes_matrix_units() refuses.
  static Result<std::unique_ptr<AttentionTail>> create(const AttentionProblem& problem,
                                                       std::int64_t keys, RankContext& context);
  Status run(const AttentionAddresses& at, const void* statistics);

 private:
  explicit AttentionTail(GeneratedKernel kernel) : kernel_(std::move(kernel)) {}
  GeneratedKernel kernel_;
};

// The ways through cuDNN, the plain one first. UNIMPLEMENTED: why there is none.
Result<std::vector<std::unique_ptr<Attention>>> make_cudnn_attentions(
    const AttentionProblem& problem, RankContext& context);

using AttentionWays = FastestOf<Attention>;

// The ways among which the first run chooses: ours for Hopper and cuDNN's where there are any, the
// plain one elsewhere.
Result<AttentionWays> make_attention(const AttentionProblem& problem, RankContext& context);

}  // namespace tutti::cuda
