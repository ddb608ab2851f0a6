// Attention by our kernel for Hopper's matrix units (kernels/attention_hopper.cuh).
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cuda/attention.h"
#include "backends/cuda/check.h"
#include "backends/cuda/tensor_map.h"

namespace tutti::cuda {
namespace {

// As the kernel has them.
constexpr int kArch = 90;
constexpr std::int64_t kWarpgroups = 3;
constexpr std::int64_t kQueryTile = 64 * kWarpgroups;
constexpr std::int64_t kKeyTile = 128;
constexpr std::int64_t kBlocks = 2;  // of a cluster
constexpr std::uint32_t kColumn = 64;
constexpr std::int64_t kMaxSize = 128;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 30;
constexpr std::int64_t kMaxSlots = 12;

struct Place {
  void* out = nullptr;
  std::int64_t batch = 0, token = 0, first = 0;
};
struct Arguments {
  TensorMap q, k, v;
  std::array<Place, kMaxAttentionPlaces> places;
  std::int64_t out_head = 0;
  std::int32_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, offset = 0;
  float scale = 0;  // with log2(e)
  std::int32_t num_places = 0;
};

std::int64_t padded(std::int64_t size) { return size <= 64 ? 64 : 128; }

// The memory of a block but for the ring of keys and values, and a slot of that.
std::int64_t fixed_bytes(const AttentionProblem& p) {
  return 1024 + kQueryTile * padded(p.qk_size) * 2 + 8 * (2 + 2 * kMaxSlots);
}
std::int64_t slot_bytes(const AttentionProblem& p) {
  return kKeyTile * std::max(padded(p.qk_size), padded(p.v_size)) * 2;
}
std::int64_t slots(const AttentionProblem& p, std::size_t shared_bytes) {
  const auto room = static_cast<std::int64_t>(shared_bytes) - fixed_bytes(p);
  return std::min(room / slot_bytes(p), kMaxSlots);
}

bool is_in_words(const AttentionStrides& s) {
  return s.batch % 8 == 0 && s.head % 8 == 0 && s.token % 8 == 0;
}

bool is_size(std::int64_t size) { return size > 0 && size % 8 == 0 && size <= kMaxSize; }

Status check(const AttentionProblem& p, const RankContext& context) {
  if (context.arch != kArch) return unimplemented("a card other than compute capability 9.0");
  if (p.dtype != DType::kFloat16 && p.dtype != DType::kBFloat16) {
    return unimplemented("attention in ", dtype_name(p.dtype), ", expected 16-bit floats");
  }
  if (p.has_mask() || p.has_lengths || p.softcap != 0) {
    return unimplemented("masks, key lengths and softcaps");
  }
  if (!is_size(p.qk_size) || !is_size(p.v_size)) {
    return unimplemented("heads of ", p.qk_size, " and ", p.v_size,
                         " elements, expected multiples of 8 up to ", kMaxSize);
  }
  bool fits = is_in_words(p.q) && is_in_words(p.k) && is_in_words(p.v) && is_in_words(p.out);
  for (const AttentionPlace& place : p.places) {
    fits =
        fits && place.offset % 8 == 0 && place.batch_stride % 8 == 0 && place.token_stride % 8 == 0;
  }
  if (!fits) return unimplemented("strides that are no multiples of 8 elements");
  if (p.places.size() > kMaxAttentionPlaces) {
    return unimplemented("results that go to ", p.places.size(), " places");
  }
  for (const std::int64_t count : {p.batch, p.kv_heads, p.heads, p.queries, p.keys}) {
    if (count < 1 || count >= kMaxCount) return unimplemented("a dimension of ", count);
  }
  if (p.is_causal && p.causal_offset < 0) {
    return unimplemented("causal offset ", p.causal_offset, "; expected 0 or more");
  }
  if (!(p.scale > 0) || !std::isfinite(p.scale)) return unimplemented("scale ", p.scale);
  if (slots(p, context.shared_bytes) < 2) {
    return unimplemented("blocks of ", context.shared_bytes, " bytes of shared memory");
  }
  return {};
}

KernelSource source_of(const AttentionProblem& p, std::int64_t num_slots) {
  KernelSource source;
  source.entry = "attention_hopper";
  source.files = {"mma.cuh", "hopper.cuh", "attention_hopper.cuh"};
  source.needs_exact_arch = true;
  const auto define = [&](const char* name, const std::string& value) {
    source.defines.emplace_back(name, value);
  };
  define("NUM_POINTERS", "1");  // of the prelude's parameters, which this kernel does not have
  define("NUM_NUMBERS", "1");
  define("T", type_name(p.dtype));
  define("IS_BF16", p.dtype == DType::kBFloat16 ? "1" : "0");
  define("E", std::to_string(p.v_size));
  define("WQ", std::to_string(padded(p.qk_size)));
  define("WV", std::to_string(padded(p.v_size)));
  define("SLOTS", std::to_string(num_slots));
  define("IS_CAUSAL", p.is_causal ? "1" : "0");
  define("PLACES", std::to_string(kMaxAttentionPlaces));
  return source;
}

TiledTensor describe(const AttentionProblem& p, const AttentionStrides& strides, std::int64_t heads,
                     std::int64_t tokens, std::int64_t size, std::int64_t box) {
  TiledTensor tensor;
  tensor.dtype = p.dtype;
  tensor.dims = {size, tokens, heads, p.batch};
  tensor.strides = {strides.token, strides.head, strides.batch};
  tensor.box = {kColumn, static_cast<std::uint32_t>(box), 1, 1};
  return tensor;
}

class HopperAttention final : public Attention {
 public:
  HopperAttention(const AttentionProblem& p, const RankContext& context, cudaKernel_t kernel)
      : q_(describe(p, p.q, p.heads, p.queries, p.qk_size, 64)),
        k_(describe(p, p.k, p.kv_heads, p.keys, p.qk_size, kKeyTile / kBlocks)),
        v_(describe(p, p.v, p.kv_heads, p.keys, p.v_size, kKeyTile / kBlocks)),
        places_(p.places),
        width_(dtype_size(p.dtype)),
        stream_(context.stream),
        kernel_(kernel) {
    arguments_.out_head = p.out.head;
    arguments_.places[0] = {nullptr, p.out.batch, p.out.token, 0};
    arguments_.num_places = static_cast<std::int32_t>(std::max<std::size_t>(places_.size(), 1));
    for (std::size_t i = 0; i < places_.size(); ++i) {
      arguments_.places[i] = {nullptr, places_[i].batch_stride, places_[i].token_stride,
                              places_[i].query};
    }
    arguments_.batch = static_cast<std::int32_t>(p.batch);
    arguments_.heads = static_cast<std::int32_t>(p.heads);
    arguments_.kv_heads = static_cast<std::int32_t>(p.kv_heads);
    arguments_.queries = static_cast<std::int32_t>(p.queries);
    arguments_.keys = static_cast<std::int32_t>(p.keys);
    arguments_.offset = static_cast<std::int32_t>(std::min(p.causal_offset, p.keys));
    constexpr double kLog2E = 1.4426950408889634;
    arguments_.scale = static_cast<float>(p.scale * kLog2E);
    const std::int64_t tiles = (p.queries + kQueryTile - 1) / kQueryTile * (p.heads / p.kv_heads);
    const std::int64_t clusters = (tiles + kBlocks - 1) / kBlocks * p.kv_heads * p.batch;
    const std::int64_t most = std::max<std::int64_t>(context.multiprocessors / kBlocks, 1);
    blocks_ = static_cast<unsigned>(std::min(clusters, most) * kBlocks);
    shared_bytes_ =
        static_cast<std::size_t>(fixed_bytes(p) + slots(p, context.shared_bytes) * slot_bytes(p));
  }

  std::string name() const override { return "ours for hopper"; }

  // What a block needs is allowed on the context's device.
  Status set_up(int device) const {
    TUTTI_CUDA(cudaKernelSetAttributeForDevice(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               static_cast<int>(shared_bytes_), device));
    return {};
  }

  Status run(const AttentionAddresses& at) override {
    TUTTI_ASSIGN_OR_RETURN(arguments_.q, make_tensor_map(q_, at.q));
    TUTTI_ASSIGN_OR_RETURN(arguments_.k, make_tensor_map(k_, at.k));
    TUTTI_ASSIGN_OR_RETURN(arguments_.v, make_tensor_map(v_, at.v));
    arguments_.places[0].out = at.out;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      arguments_.places[i].out = address_of(places_[i], at, width_);
    }
    void* arguments[] = {&arguments_};
    return to_status(
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), dim3(blocks_),
                         dim3(128 * (kWarpgroups + 1)), arguments, shared_bytes_, stream_),
        "cudaLaunchKernel");
  }

 private:
  TiledTensor q_, k_, v_;
  std::vector<AttentionPlace> places_;
  std::size_t width_;
  Arguments arguments_;
  cudaStream_t stream_;
  cudaKernel_t kernel_;
  unsigned blocks_ = 0;
  std::size_t shared_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<Attention>> make_hopper_attention(const AttentionProblem& problem,
                                                         RankContext& context) {
  TUTTI_RETURN_IF_ERROR(check(problem, context));
  const KernelSource source = source_of(problem, slots(problem, context.shared_bytes));
  if (context.is_dry) {
    TUTTI_RETURN_IF_ERROR(context.compiler->compile(source, context.arch).status());
    return unimplemented("no device");
  }
  TUTTI_ASSIGN_OR_RETURN(const cudaKernel_t kernel, context.compiler->load(source, context.arch));
  auto attention = std::make_unique<HopperAttention>(problem, context, kernel);
  TUTTI_RETURN_IF_ERROR(attention->set_up(context.device));
  return std::unique_ptr<Attention>(std::move(attention));
}

}  // namespace tutti::cuda
