#include <functional>

#include "backends/cpu/attention_kernel.h"

namespace tutti::cpu {
namespace {

std::size_t float_bytes(std::int64_t count) {
  return (static_cast<std::size_t>(count) * sizeof(float) + 63) / 64 * 64;
}

AttentionStrides strides_of(const Dims& dims, std::size_t heads, std::size_t tokens) {
  const Dims strides = contiguous_strides(dims);
  return {strides[0], strides[heads], strides[tokens]};
}

}  // namespace

Result<AttentionShape> read_attention_shape(const KernelSpec& spec,
                                            std::optional<std::int64_t> all_keys) {
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
    const Dims scores{s.batch, q[heads], s.queries, all_keys.value_or(s.keys)};
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

AttentionData attention_data(const KernelArgs& args) {
  const auto input = [&](std::size_t i) {
    return i < args.inputs.size() ? args.inputs[i] : nullptr;
  };
  AttentionData data;
  data.q = input(0);
  data.k = input(1);
  data.v = input(2);
  data.mask = input(3);
  data.key_lengths = static_cast<const std::int64_t*>(input(4));
  data.out = args.outputs[0];
  return data;
}

std::size_t attend_workspace_bytes(const AttentionShape& s, const attention::Functions& f,
                                   const ThreadPool& pool) {
  return float_bytes(f.packed_key_floats(s)) + float_bytes(f.packed_value_floats(s)) +
         float_bytes(f.scratch_floats(s)) * static_cast<std::size_t>(pool.size());
}

void attend(const AttentionShape& s, const AttentionData& data, const attention::Functions& f,
            ThreadPool* pool, std::byte* workspace) {
  auto* keys = reinterpret_cast<float*>(workspace);
  auto* values = reinterpret_cast<float*>(workspace + float_bytes(f.packed_key_floats(s)));
  std::byte* scratch = reinterpret_cast<std::byte*>(values) + float_bytes(f.packed_value_floats(s));
  const std::size_t scratch_bytes = float_bytes(f.scratch_floats(s));
  const auto pack_keys = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    f.pack_keys(s, data.k, begin, end, keys);
  };
  pool->parallel_for(f.panel_count(s), 8, std::ref(pack_keys));
  const auto pack_values = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    f.pack_values(s, data.v, begin, end, values);
  };
  pool->parallel_for(s.batch * s.kv_heads * s.keys, 512, std::ref(pack_values));
  const auto attend_tiles = [&](std::int64_t begin, std::int64_t end, int worker) {
    f.attend(s, data, keys, values, begin, end,
             reinterpret_cast<float*>(scratch + scratch_bytes * static_cast<std::size_t>(worker)));
  };
  pool->parallel_for(f.tile_count(s), 1, std::ref(attend_tiles));
}

}  // namespace tutti::cpu
