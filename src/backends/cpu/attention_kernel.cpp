// The kernel of Attention: memory and threads. The loops are in
// attention_tile.h; f64, which only tests use, has plain ones here.
#include "backends/cpu/attention_kernel.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/cpu/kernels.h"

namespace tutti::cpu {
namespace {

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const AttentionShape& shape, const attention::Functions& functions,
                  ThreadPool* pool)
      : s_(shape), f_(functions), pool_(pool) {}

  std::size_t workspace_bytes() const override { return attend_workspace_bytes(s_, f_, *pool_); }

  Status run(const KernelArgs& args) override {
    attend(s_, attention_data(args), f_, pool_, static_cast<std::byte*>(args.workspace));
    return {};
  }

 private:
  const AttentionShape s_;
  const attention::Functions& f_;
  ThreadPool* pool_;
};

// Row by row in double, with one row of scores a worker.
class DoubleAttentionKernel : public Kernel {
 public:
  DoubleAttentionKernel(const AttentionShape& shape, double scale, double softcap, ThreadPool* pool)
      : s_(shape), scale_(scale), softcap_(softcap), pool_(pool) {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(s_.keys) * sizeof(double) *
           static_cast<std::size_t>(pool_->size());
  }

  Status run(const KernelArgs& args) override {
    const AttentionData data = attention_data(args);
    auto* workspace = static_cast<double*>(args.workspace);
    const std::int64_t heads = s_.kv_heads * s_.group;
    const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t row = begin; row < end; ++row) {
        attend_row(data, row / s_.queries / heads, row / s_.queries % heads, row % s_.queries,
                   workspace + worker * s_.keys);
      }
    };
    pool_->parallel_for(s_.batch * heads * s_.queries, 4, std::ref(body));
    return {};
  }

 private:
  void attend_row(const AttentionData& data, std::int64_t b, std::int64_t head, std::int64_t query,
                  double* scores) const {
    const auto at = [&](const void* p, const AttentionStrides& strides, std::int64_t h,
                        std::int64_t token) {
      return static_cast<const double*>(p) + b * strides.batch + h * strides.head +
             token * strides.token;
    };
    const double lowest = -std::numeric_limits<double>::infinity();
    std::int64_t end = s_.keys;
    std::int64_t offset = s_.causal_offset;
    if (data.key_lengths != nullptr) {
      end = std::clamp<std::int64_t>(data.key_lengths[b], 0, s_.keys);
      offset = data.key_lengths[b] - s_.queries;
    }
    if (s_.is_causal) end = std::clamp<std::int64_t>(query + offset + 1, 0, end);
    double maximum = lowest;
    for (std::int64_t key = 0; key < end; ++key) {
      const double* q = at(data.q, s_.q, head, query);
      const double* k = at(data.k, s_.k, head / s_.group, key);
      double score = 0;
      for (std::int64_t p = 0; p < s_.d; ++p) score += q[p] * k[p];
      score *= scale_;
      if (softcap_ > 0) score = std::tanh(score / softcap_) * softcap_;
      const std::int64_t mask_at = b * s_.mask_strides[0] + head * s_.mask_strides[1] +
                                   query * s_.mask_strides[2] + key * s_.mask_strides[3];
      if (s_.mask_dtype == DType::kBool) {
        if (!static_cast<const bool*>(data.mask)[mask_at]) score = lowest;
      } else if (s_.mask_dtype != DType::kUndefined) {
        score += static_cast<const double*>(data.mask)[mask_at];
      }
      scores[key] = score;
      maximum = std::max(maximum, score);
    }
    double* out = static_cast<double*>(data.out) + b * s_.out.batch + head * s_.out.head +
                  query * s_.out.token;
    std::fill(out, out + s_.e, 0.0);
    if (maximum == lowest) return;
    double sum = 0;
    for (std::int64_t key = 0; key < end; ++key) {
      scores[key] = std::exp(scores[key] - maximum);
      sum += scores[key];
    }
    for (std::int64_t key = 0; key < end; ++key) {
      const double* v = at(data.v, s_.v, head / s_.group, key);
      for (std::int64_t j = 0; j < s_.e; ++j) out[j] += scores[key] / sum * v[j];
    }
  }

  const AttentionShape s_;
  const double scale_;
  const double softcap_;
  ThreadPool* pool_;
};

class NoQueriesKernel : public Kernel {
 public:
  Status run(const KernelArgs& /*args*/) override { return {}; }
};

Result<std::unique_ptr<Kernel>> make_attention(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const AttentionShape shape, read_attention_shape(spec));
  if (spec.outputs[0].element_count() == 0) {
    return std::unique_ptr<Kernel>(std::make_unique<NoQueriesKernel>());
  }
  if (spec.inputs[0].dtype == DType::kFloat64) {
    return std::unique_ptr<Kernel>(std::make_unique<DoubleAttentionKernel>(
        shape, spec.node.attr_float("scale", 1.0), spec.node.attr_float("softcap"), context.pool));
  }
  TUTTI_ASSIGN_OR_RETURN(const attention::Functions* const functions,
                         attention::functions_for(spec.inputs[0].dtype));
  return std::unique_ptr<Kernel>(
      std::make_unique<AttentionKernel>(shape, *functions, context.pool));
}

}  // namespace

void register_attention_kernels(KernelRegistry* registry) {
  registry->add("Attention", make_attention);
  registry->add("RingAttention", make_ring_attention);
  registry->add("JoinedRingAttention", make_ring_attention);
}

}  // namespace tutti::cpu
