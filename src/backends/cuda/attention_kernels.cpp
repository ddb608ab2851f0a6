// The nodes Attention, RingAttention and JoinedRingAttention: what they ask for, and which way is
// taken.
#include <optional>

#include "backends/cuda/attention.h"
#include "backends/cuda/exchange_kernels.h"
#include "backends/cuda/workspace.h"

namespace tutti::cuda {
namespace {

AttentionStrides strides_of(const Dims& dims, std::size_t heads, std::size_t tokens) {
  const Dims strides = contiguous_strides(dims);
  return {strides[0], strides[heads], strides[tokens]};
}

Status read_mask(const TensorDesc& mask, AttentionProblem* p) {
  const Dims scores{p->batch, p->heads, p->queries, p->keys};
  const Dims strides = contiguous_strides(mask.dims);
  p->mask_dtype = mask.dtype;
  p->mask.assign(4, 1);
  for (std::size_t i = 0; i < mask.dims.size(); ++i) {
    const std::size_t axis = 4 - mask.dims.size() + i;
    if (mask.dims[i] != 1 && mask.dims[i] != scores[axis]) {
      return invalid_argument("mask ", mask.dims, " does not broadcast to ", scores);
    }
    p->mask[axis] = mask.dims[i];
    p->mask_strides[axis] = mask.dims[i] == 1 ? 0 : strides[i];
  }
  return {};
}

// What a choice hangs on: among other ways it says nothing.
std::string key_of(const AttentionProblem& p, std::span<const std::unique_ptr<Attention>> ways) {
  std::string names;
  for (const auto& way : ways) names += str_cat("; ", way->name());
  const auto strides = [](const AttentionStrides& s) {
    return str_cat("[", s.batch, ",", s.head, ",", s.token, "]");
  };
  return str_cat("attention ", dtype_name(p.dtype), " ", p.batch, "x", p.heads, "/", p.kv_heads,
                 " ", p.queries, "x", p.keys, " ", p.qk_size, "/", p.v_size, " q", strides(p.q),
                 " k", strides(p.k), " v", strides(p.v), " out", strides(p.out),
                 p.is_causal ? str_cat(" causal ", p.causal_offset) : "", names);
}

KernelResult make_attention_kernel(const KernelSpec& spec, RankContext& context) {
  if (spec.outputs[0].element_count() == 0) return make_empty_kernel();
  TUTTI_ASSIGN_OR_RETURN(const AttentionProblem problem,
                         read_attention(spec, spec.inputs[1].dims, spec.inputs[2].dims));
  TUTTI_ASSIGN_OR_RETURN(AttentionWays attention, make_attention(problem, context));
  const std::size_t workspace = attention.workspace_bytes();
  return make_lambda_kernel(
      [attention = std::move(attention)](const KernelArgs& args) mutable {
        return attention.run(AttentionAddresses{args.inputs[0], args.inputs[1], args.inputs[2],
                                                optional_input(args, 3), optional_input(args, 4),
                                                args.outputs[0], args.workspace});
      },
      workspace);
}

// Keys and values of all ranks are gathered first, so every rank has room for all of them.
KernelResult make_ring_attention(const KernelSpec& spec, RankContext& context) {
  const int tokens = spec.node.attr_string("layout") == "bshd" ? 1 : 2;
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t size,
                         spec.node.attr_dims("size")[0].evaluate(spec.symbols));
  TensorDesc k = spec.inputs[1];
  TensorDesc v = spec.inputs[2];
  TUTTI_ASSIGN_OR_RETURN(const Dims segments,
                         evaluate(spec.node.attr_dims("segments"), spec.symbols));
  TUTTI_ASSIGN_OR_RETURN(
      std::shared_ptr<PieceGather> gather,
      make_piece_gather(spec.node, context, spec.inputs.subspan(1, 2), tokens, size, segments));
  k.dims[static_cast<std::size_t>(tokens)] = size;
  v.dims[static_cast<std::size_t>(tokens)] = size;
  std::optional<AttentionWays> attention;  // none where this rank has no queries
  if (spec.outputs[0].element_count() > 0) {
    TUTTI_ASSIGN_OR_RETURN(const AttentionProblem problem, read_attention(spec, k.dims, v.dims));
    TUTTI_ASSIGN_OR_RETURN(attention, make_attention(problem, context));
  }
  const std::size_t workspace = attention ? attention->workspace_bytes() : 0;
  const std::size_t key_bytes = aligned(k.byte_size());
  const std::size_t gathered_bytes = key_bytes + aligned(v.byte_size());
  return make_lambda_kernel(
      [gather = std::move(gather), attention = std::move(attention), key_bytes,
       gathered_bytes](const KernelArgs& args) mutable {
        auto* workspace = static_cast<std::byte*>(args.workspace);
        void* const targets[] = {workspace, workspace + key_bytes};
        TUTTI_RETURN_IF_ERROR(gather->run(args.inputs.subspan(1, 2), targets));
        if (!attention) return Status();
        return attention->run(AttentionAddresses{args.inputs[0], targets[0], targets[1],
                                                 optional_input(args, 3), optional_input(args, 4),
                                                 args.outputs[0], workspace + gathered_bytes});
      },
      gathered_bytes + workspace);
}

}  // namespace

Result<AttentionProblem> read_attention(const KernelSpec& spec, const Dims& k, const Dims& v) {
  const bool is_token_major = spec.node.attr_string("layout") == "bshd";
  const std::size_t heads = is_token_major ? 2 : 1;
  const std::size_t tokens = is_token_major ? 1 : 2;
  const Dims& q = spec.inputs[0].dims;
  AttentionProblem p;
  p.dtype = spec.inputs[0].dtype;
  p.batch = q[0];
  p.heads = q[heads];
  p.kv_heads = k[heads];
  p.queries = q[tokens];
  p.keys = k[tokens];
  p.qk_size = q[3];
  p.v_size = v[3];
  if (p.kv_heads > 0 && p.heads % p.kv_heads != 0) {
    return invalid_argument(p.heads, " query heads are no multiple of ", p.kv_heads,
                            " key/value heads");
  }
  if (k[0] != p.batch || v[0] != p.batch || v[heads] != p.kv_heads || v[tokens] != p.keys ||
      k[3] != p.qk_size) {
    return invalid_argument("q ", q, ", k ", k, " and v ", v, " do not fit each other");
  }
  p.q = strides_of(q, heads, tokens);
  p.k = strides_of(k, heads, tokens);
  p.v = strides_of(v, heads, tokens);
  p.out = strides_of(spec.outputs[0].dims, heads, tokens);
  if (has_input(spec, 3)) TUTTI_RETURN_IF_ERROR(read_mask(spec.inputs[3], &p));
  p.has_lengths = has_input(spec, 4);
  p.is_causal = spec.node.attr_int("is_causal") != 0;
  if (const Shape offset = spec.node.attr_dims("causal_offset"); !offset.empty()) {
    TUTTI_ASSIGN_OR_RETURN(p.causal_offset, offset[0].evaluate(spec.symbols));
  }
  p.scale = spec.node.attr_float("scale", 1.0);
  p.softcap = spec.node.attr_float("softcap");
  return p;
}

Result<AttentionWays> make_attention(const AttentionProblem& problem, RankContext& context) {
  std::vector<std::unique_ptr<Attention>> ways;
  auto found = make_cudnn_attentions(problem, context);
  if (!found.ok() && found.status().code() != StatusCode::kUnimplemented) return found.status();
  if (found.ok()) ways = *std::move(found);
  auto ours = make_hopper_attention(problem, context);
  if (!ours.ok() && ours.status().code() != StatusCode::kUnimplemented) return ours.status();
  if (ours.ok()) ways.push_back(*std::move(ours));
  if (ways.empty()) {
    TUTTI_ASSIGN_OR_RETURN(auto plain, make_plain_attention(problem, context));
    ways.push_back(std::move(plain));
  }
  std::string key = key_of(problem, ways);
  return AttentionWays(std::move(ways), std::move(key), context.tuner, context.stream);
}

void register_attention_kernels(KernelTable* table) {
  table->add("Attention", make_attention_kernel);
  table->add("RingAttention", make_ring_attention);
  table->add("JoinedRingAttention", make_ring_attention);
}

}  // namespace tutti::cuda
