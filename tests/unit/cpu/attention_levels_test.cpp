// Every instruction set that this machine has gives the same attention.
#include "backends/cpu/attention_levels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/simd.h"
#include "node_runner.h"

namespace tutti::cpu {
namespace {

std::vector<float> attend(const attention::Functions& f, const AttentionShape& s,
                          const AttentionData& inputs) {
  std::vector<float> keys(static_cast<std::size_t>(f.packed_key_floats(s)));
  std::vector<float> values(static_cast<std::size_t>(f.packed_value_floats(s)));
  std::vector<float> scratch(static_cast<std::size_t>(f.scratch_floats(s)));
  std::vector<float> out(
      static_cast<std::size_t>(s.batch * s.kv_heads * s.group * s.queries * s.e));
  AttentionData data = inputs;
  data.out = out.data();
  f.pack_keys(s, data.k, 0, f.panel_count(s), keys.data());
  f.pack_values(s, data.v, 0, s.batch * s.kv_heads * s.keys, values.data());
  f.attend(s, data, keys.data(), values.data(), 0, f.tile_count(s), scratch.data());
  return out;
}

TEST(AttentionLevels, Agree) {
  AttentionShape s;
  s.batch = 2;
  s.kv_heads = 2;
  s.group = 3;
  s.queries = 37;
  s.keys = 145;
  s.d = 24;
  s.e = 20;
  const std::int64_t heads = s.kv_heads * s.group;
  s.q = {heads * s.queries * s.d, s.queries * s.d, s.d};
  s.k = {s.kv_heads * s.keys * s.d, s.keys * s.d, s.d};
  s.v = {s.kv_heads * s.keys * s.e, s.keys * s.e, s.e};
  s.out = {heads * s.queries * s.e, s.queries * s.e, s.e};
  s.mask_dtype = DType::kFloat32;
  s.mask_strides[2] = s.keys;
  s.mask_strides[3] = 1;
  s.scale = 0.4f;
  s.softcap = 3.0f;
  s.is_causal = true;
  s.causal_offset = 90;
  const Tensor q = random_tensor({s.batch, heads, s.queries, s.d}, 1);
  const Tensor k = random_tensor({s.batch, s.kv_heads, s.keys, s.d}, 2);
  const Tensor v = random_tensor({s.batch, s.kv_heads, s.keys, s.e}, 3);
  const Tensor mask = random_tensor({s.queries, s.keys}, 4);
  const AttentionData data{q.data(), k.data(), v.data(), mask.data(), nullptr, nullptr};
  const std::vector<float> expected =
      attend(*attention::baseline::functions(DType::kFloat32), s, data);
  const auto expect_same = [&](const attention::Functions& f) {
    const std::vector<float> got = attend(f, s, data);
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-6) << i;
  };
  if (simd_level() != SimdLevel::kBaseline)
    expect_same(*attention::avx2::functions(DType::kFloat32));
  if (simd_level() == SimdLevel::kAvx512)
    expect_same(*attention::avx512::functions(DType::kFloat32));
}

}  // namespace
}  // namespace tutti::cpu
