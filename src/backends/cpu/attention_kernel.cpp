// The kernel of Attention: sizes and strides from the node, memory, threads. The loops are in
// attention_tile.h; f64, which only tests use, has plain ones here.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/cpu/attention_levels.h"
#include "backends/cpu/kernels.h"

namespace tutti::cpu {
namespace {

std::size_t float_bytes(std::int64_t count) {
  return (static_cast<std::size_t>(count) * sizeof(float) + 63) / 64 * 64;
}

AttentionData attention_data(const KernelArgs& args) {
  const auto input = [&](std::size_t i) {
    return i < args.inputs.size() ? args.inputs[i] : nullptr;
  };
  return {input(0),       input(1), input(2), input(3), static_cast<const std::int64_t*>(input(4)),
          args.outputs[0]};
}

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const AttentionShape& shape, const attention::Functions& functions,
                  ThreadPool* pool)
      : s_(shape),
        f_(functions),
        pool_(pool),
        key_bytes_(float_bytes(f_.packed_key_floats(s_))),
        value_bytes_(float_bytes(f_.packed_value_floats(s_))),
        scratch_bytes_(float_bytes(f_.scratch_floats(s_))) {}

  std::size_t workspace_bytes() const override {
    return key_bytes_ + value_bytes_ + scratch_bytes_ * static_cast<std::size_t>(pool_->size());
  }

  Status run(const KernelArgs& args) override {
    const AttentionData data = attention_data(args);
    auto* workspace = static_cast<std::byte*>(args.workspace);
    auto* keys = reinterpret_cast<float*>(workspace);
    auto* values = reinterpret_cast<float*>(workspace + key_bytes_);
    std::byte* scratch = workspace + key_bytes_ + value_bytes_;
    const auto pack_keys = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
      f_.pack_keys(s_, data.k, begin, end, keys);
    };
    pool_->parallel_for(f_.panel_count(s_), 8, std::ref(pack_keys));
    const auto pack_values = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
      f_.pack_values(s_, data.v, begin, end, values);
    };
    pool_->parallel_for(s_.batch * s_.kv_heads * s_.keys, 512, std::ref(pack_values));
    const auto attend = [&](std::int64_t begin, std::int64_t end, int worker) {
      f_.attend(
          s_, data, keys, values, begin, end,
          reinterpret_cast<float*>(scratch + scratch_bytes_ * static_cast<std::size_t>(worker)));
    };
    pool_->parallel_for(f_.tile_count(s_), 1, std::ref(attend));
    return {};
  }

 private:
  const AttentionShape s_;
  const attention::Functions& f_;
  ThreadPool* pool_;
  const std::size_t key_bytes_;
  const std::size_t value_bytes_;
  const std::size_t scratch_bytes_;  // for each worker
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

AttentionStrides strides_of(const Dims& dims, std::size_t heads, std::size_t tokens) {
  const Dims strides = contiguous_strides(dims);
  return {strides[0], strides[heads], strides[tokens]};
}

Result<AttentionShape> read_shape(const KernelSpec& spec) {
  const bool is_token_major = spec.node.attr_string("layout") == "bshd";
  const std::size_t heads = is_token_major ? 2 : 1;
  const std::size_t tokens = is_token_major ? 1 : 2;
  const Dims& q = spec.inputs[0].dims;
  const Dims& k = spec.inputs[1].dims;
  const Dims& v = spec.inputs[2].dims;
  AttentionShape s;
  s.batch = q[0];
  s.kv_heads = k[heads];
  s.queries = q[tokens];
  s.keys = k[tokens];
  s.d = q[3];
  s.e = v[3];
  if (s.kv_heads > 0 && q[heads] % s.kv_heads != 0) {
    return invalid_argument(q[heads], " query heads are no multiple of ", s.kv_heads,
                            " key/value heads");
  }
  s.group = s.kv_heads > 0 ? q[heads] / s.kv_heads : 0;
  if (k[0] != s.batch || v[0] != s.batch || v[heads] != s.kv_heads || v[tokens] != s.keys ||
      k[3] != s.d) {
    return invalid_argument("q ", q, ", k ", k, " and v ", v, " do not fit each other");
  }
  s.q = strides_of(q, heads, tokens);
  s.k = strides_of(k, heads, tokens);
  s.v = strides_of(v, heads, tokens);
  s.out = strides_of(spec.outputs[0].dims, heads, tokens);
  if (spec.inputs.size() > 3 && spec.inputs[3].dtype != DType::kUndefined) {
    const Dims& mask = spec.inputs[3].dims;
    const Dims strides = contiguous_strides(mask);
    const Dims scores{s.batch, q[heads], s.queries, s.keys};
    s.mask_dtype = spec.inputs[3].dtype;
    for (std::size_t i = 0; i < mask.size(); ++i) {
      const std::size_t axis = 4 - mask.size() + i;
      if (mask[i] != 1 && mask[i] != scores[axis]) {
        return invalid_argument("mask ", mask, " does not broadcast to ", scores);
      }
      s.mask_strides[axis] = mask[i] == 1 ? 0 : strides[i];
    }
  }
  s.scale = static_cast<float>(spec.node.attr_float("scale", 1.0));
  s.softcap = static_cast<float>(spec.node.attr_float("softcap"));
  s.is_causal = spec.node.attr_int("is_causal") != 0;
  if (const Shape offset = spec.node.attr_dims("causal_offset"); !offset.empty()) {
    TUTTI_ASSIGN_OR_RETURN(s.causal_offset, offset[0].evaluate(spec.symbols));
  }
  return s;
}

Result<std::unique_ptr<Kernel>> make_attention(const KernelSpec& spec, CpuContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const AttentionShape shape, read_shape(spec));
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
}

}  // namespace tutti::cpu
