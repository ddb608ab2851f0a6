// Attention through cuDNN, and what is around it: masks and lengths as it takes them, rows that see
// nothing, keys beyond a whole number of its tiles.
#include <algorithm>

#include "backends/cuda/attention.h"
#include "backends/cuda/cudnn.h"
#include "backends/cuda/workspace.h"

namespace tutti::cuda {
namespace {

// cuDNN's kernels work on 128 keys at a time, and all of their tiles pay for a ragged last one: 8%
// on an H200 (docs/measurements.md). Below so many keys a second kernel cannot pay.
constexpr std::int64_t kKeyTile = 128;
constexpr std::int64_t kMinSplitKeys = 2048;

std::array<std::int64_t, 3> strides_of(const AttentionStrides& s) {
  return {s.batch, s.head, s.token};
}

// The mask that cuDNN is given leaves out what masks nothing.
Status set_causal(const AttentionProblem& p, CudnnAttention* a) {
  if (!p.is_causal) return {};
  if (p.has_lengths) {
    a->mask = CausalMask::kBottomRight;
    return {};
  }
  if (p.causal_offset >= p.keys - 1) return {};
  if (p.causal_offset < 0) {
    return unimplemented("causal offset ", p.causal_offset, "; expected 0 or more");
  }
  a->mask = CausalMask::kTopLeft;
  a->offset = p.causal_offset;
  if (p.causal_offset == p.keys - p.queries && !p.has_mask()) {
    a->mask = CausalMask::kBottomRight;
    a->offset = 0;
  }
  return {};
}

Result<CudnnAttention> describe(const AttentionProblem& p) {
  if (p.dtype != DType::kFloat16 && p.dtype != DType::kBFloat16) {
    return unimplemented("cuDNN computes attention in 16-bit types, not in ", dtype_name(p.dtype));
  }
  if (p.softcap != 0) return unimplemented("cuDNN has no softcap");
  if (!p.places.empty()) return unimplemented("cuDNN's results go to one place");
  if (p.queries == 0 || p.keys == 0 || p.kv_heads == 0) return unimplemented("nothing to attend");
  // A bias is written once and read once: not worth it where each score has its own.
  const std::int64_t scores = p.batch * p.heads * p.queries * p.keys;
  if (p.has_mask() && (p.mask[3] != p.keys || element_count(p.mask) * 4 > scores)) {
    return unimplemented("a mask ", p.mask, " for ", scores, " scores");
  }
  CudnnAttention a;
  a.dtype = p.dtype;
  a.batch = p.batch;
  a.heads = p.heads;
  a.kv_heads = p.kv_heads;
  a.queries = p.queries;
  a.keys = p.keys;
  a.qk_size = p.qk_size;
  a.v_size = p.v_size;
  a.q = strides_of(p.q);
  a.k = strides_of(p.k);
  a.v = strides_of(p.v);
  a.out = strides_of(p.out);
  if (p.has_mask()) a.bias = p.mask;
  a.has_lengths = p.has_lengths;
  a.scale = static_cast<float>(p.scale);
  TUTTI_RETURN_IF_ERROR(set_causal(p, &a));
  return a;
}

const char* least_bias(DType dtype) { return dtype == DType::kFloat16 ? "-65504.0f" : "-1e38f"; }

KernelSource source_of(const AttentionProblem& p, const char* entry, std::string_view file) {
  KernelSource source;
  source.entry = entry;
  source.files = {file};
  define_index(true, &source);
  source.defines.emplace_back("T", type_name(p.dtype));
  source.defines.emplace_back("E", std::to_string(p.v_size));
  source.defines.emplace_back("LEAST", str_cat("(", least_bias(p.dtype), ")"));
  source.defines.emplace_back("HAS_MASK", p.has_mask() ? "1" : "0");
  source.defines.emplace_back("MASK_IS_BOOL", p.mask_dtype == DType::kBool ? "1" : "0");
  return source;
}

// The kernels around cuDNN's, where the problem needs them.
struct Helpers {
  std::vector<GeneratedKernel> bias, lengths, unseen;  // one or none
};

Result<Helpers> make_helpers(const AttentionProblem& p, RankContext& context) {
  Helpers made;
  if (p.has_mask()) {
    const std::int64_t count = element_count(p.mask);
    TUTTI_ASSIGN_OR_RETURN(
        GeneratedKernel kernel,
        GeneratedKernel::create(context, source_of(p, "attention_bias", "attention_bias.cuh"), 2,
                                {count}, grid_for(context, count)));
    made.bias.push_back(std::move(kernel));
  }
  if (p.has_lengths) {
    TUTTI_ASSIGN_OR_RETURN(
        GeneratedKernel kernel,
        GeneratedKernel::create(context, source_of(p, "attention_lengths", "attention_lengths.cuh"),
                                2, {p.batch, p.queries, p.keys}, grid_for(context, p.batch)));
    made.lengths.push_back(std::move(kernel));
  }
  if (p.has_mask() || p.has_lengths) {
    const std::int64_t rows = p.batch * p.heads * p.queries;
    std::vector<std::int64_t> numbers = {rows,        p.heads,    p.queries,  p.keys,
                                         p.out.batch, p.out.head, p.out.token};
    numbers.insert(numbers.end(), p.mask_strides.begin(), p.mask_strides.end());
    numbers.insert(numbers.end(), {p.is_causal ? 1 : 0, p.causal_offset});
    TUTTI_ASSIGN_OR_RETURN(
        GeneratedKernel kernel,
        GeneratedKernel::create(context, source_of(p, "attention_unseen", "attention_unseen.cuh"),
                                3, std::move(numbers), grid_for(context, rows * 32)));
    made.unseen.push_back(std::move(kernel));
  }
  return made;
}

using Addresses = std::array<void*, 8>;

Addresses addresses_of(const AttentionAddresses& at) {
  Addresses to{};
  to[CudnnAttention::kQ] = const_cast<void*>(at.q);
  to[CudnnAttention::kK] = const_cast<void*>(at.k);
  to[CudnnAttention::kV] = const_cast<void*>(at.v);
  to[CudnnAttention::kOut] = at.out;
  return to;
}

class WholeAttention final : public Attention {
 public:
  WholeAttention(const AttentionProblem& p, std::shared_ptr<CudnnPlan> plan, Helpers helpers,
                 cudnnContext* handle)
      : plan_(std::move(plan)),
        helpers_(std::move(helpers)),
        handle_(handle),
        batch_(p.batch),
        bias_at_(aligned(plan_->workspace_bytes())),
        lengths_at_(bias_at_ + aligned(p.has_mask()
                                           ? static_cast<std::size_t>(element_count(p.mask)) *
                                                 dtype_size(p.dtype)
                                           : 0)) {}
  std::string name() const override { return "cudnn"; }
  std::size_t workspace_bytes() const override {
    return lengths_at_ + (helpers_.lengths.empty() ? 0 : static_cast<std::size_t>(batch_) * 8);
  }
  Status run(const AttentionAddresses& at) override {
    auto* const workspace = static_cast<std::byte*>(at.workspace);
    Addresses to = addresses_of(at);
    if (!helpers_.bias.empty()) {
      to[CudnnAttention::kBias] = workspace + bias_at_;
      TUTTI_RETURN_IF_ERROR(helpers_.bias[0].run({at.mask, workspace + bias_at_}));
    }
    if (!helpers_.lengths.empty()) {
      to[CudnnAttention::kQueryLengths] = workspace + lengths_at_;
      to[CudnnAttention::kKeyLengths] = workspace + lengths_at_ + batch_ * 4;
      TUTTI_RETURN_IF_ERROR(helpers_.lengths[0].run({at.lengths, workspace + lengths_at_}));
    }
    TUTTI_RETURN_IF_ERROR(plan_->run(handle_, to, workspace));
    if (helpers_.unseen.empty()) return {};
    return helpers_.unseen[0].run({at.mask, at.lengths, at.out});
  }

 private:
  std::shared_ptr<CudnnPlan> plan_;
  Helpers helpers_;
  cudnnContext* handle_;
  std::int64_t batch_;
  std::size_t bias_at_;
  std::size_t lengths_at_;
};

// Whole tiles of keys through cuDNN, the others by a kernel of ours that goes on with its result.
class SplitAttention final : public Attention {
 public:
  SplitAttention(const AttentionProblem& p, std::shared_ptr<CudnnPlan> plan,
                 std::unique_ptr<AttentionTail> tail, cudnnContext* handle)
      : plan_(std::move(plan)),
        tail_(std::move(tail)),
        handle_(handle),
        statistics_at_(aligned(plan_->workspace_bytes())),
        statistics_bytes_(static_cast<std::size_t>(p.batch * p.heads * p.queries) * 4) {
    const std::int64_t whole = p.keys / kKeyTile * kKeyTile;
    k_offset_ = whole * p.k.token * static_cast<std::int64_t>(dtype_size(p.dtype));
    v_offset_ = whole * p.v.token * static_cast<std::int64_t>(dtype_size(p.dtype));
  }
  std::string name() const override { return "cudnn and a tail"; }
  std::size_t workspace_bytes() const override { return statistics_at_ + statistics_bytes_; }
  Status run(const AttentionAddresses& at) override {
    auto* const workspace = static_cast<std::byte*>(at.workspace);
    void* statistics = workspace + statistics_at_;
    Addresses to = addresses_of(at);
    to[CudnnAttention::kStatistics] = statistics;
    TUTTI_RETURN_IF_ERROR(plan_->run(handle_, to, workspace));
    AttentionAddresses rest = at;
    rest.k = static_cast<const std::byte*>(at.k) + k_offset_;
    rest.v = static_cast<const std::byte*>(at.v) + v_offset_;
    return tail_->run(rest, statistics);
  }

 private:
  std::shared_ptr<CudnnPlan> plan_;
  std::unique_ptr<AttentionTail> tail_;
  cudnnContext* handle_;
  std::size_t statistics_at_;
  std::size_t statistics_bytes_;
  std::int64_t k_offset_ = 0;
  std::int64_t v_offset_ = 0;
};

// UNIMPLEMENTED where it cannot pay or is not possible.
Result<std::unique_ptr<Attention>> make_split(const AttentionProblem& p, CudnnAttention asked,
                                              RankContext& context, cudnnContext* handle) {
  const std::int64_t rest = p.keys % kKeyTile;
  if (rest == 0 || p.keys < kMinSplitKeys) return unimplemented("nothing to split");
  TUTTI_ASSIGN_OR_RETURN(auto tail, AttentionTail::create(p, rest, context));
  if (context.is_dry) return unimplemented("no device");
  asked.keys -= rest;
  asked.has_statistics = true;
  TUTTI_ASSIGN_OR_RETURN(auto plan, context.cudnn->attention(asked));
  return std::unique_ptr<Attention>(
      std::make_unique<SplitAttention>(p, std::move(plan), std::move(tail), handle));
}

}  // namespace

Result<std::vector<std::unique_ptr<Attention>>> make_cudnn_attentions(
    const AttentionProblem& problem, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const CudnnAttention asked, describe(problem));
  if (context.cudnn == nullptr && !context.is_dry) return unimplemented("no cuDNN");
  std::shared_ptr<CudnnPlan> plan;
  cudnnContext* handle = nullptr;
  if (!context.is_dry) {
    auto made = context.cudnn->attention(asked);
    if (!made.ok()) return unimplemented(made.status().message());
    plan = *std::move(made);
    TUTTI_ASSIGN_OR_RETURN(handle, cudnn_handle(context));
  }
  TUTTI_ASSIGN_OR_RETURN(Helpers helpers, make_helpers(problem, context));
  std::vector<std::unique_ptr<Attention>> ways;
  if (plan != nullptr) {
    ways.push_back(
        std::make_unique<WholeAttention>(problem, std::move(plan), std::move(helpers), handle));
  }
  auto split = make_split(problem, asked, context, handle);
  if (split.ok()) {
    ways.push_back(*std::move(split));
  } else if (split.status().code() != StatusCode::kUnimplemented) {
    return split.status();
  }
  if (ways.empty()) return unimplemented("no device");
  return ways;
}

}  // namespace tutti::cuda
