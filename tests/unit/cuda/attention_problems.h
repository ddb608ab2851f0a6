// Problems of attention, and their results in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cuda/attention.h"

namespace tutti::cuda {

inline AttentionProblem problem_of(DType dtype, std::int64_t batch, std::int64_t heads,
                                   std::int64_t kv_heads, std::int64_t queries, std::int64_t keys,
                                   std::int64_t size, bool is_token_major) {
  AttentionProblem p;
  p.dtype = dtype;
  p.batch = batch;
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.queries = queries;
  p.keys = keys;
  p.qk_size = p.v_size = size;
  p.scale = 1 / std::sqrt(static_cast<double>(size));
  const auto strides = [&](std::int64_t count, std::int64_t tokens) -> AttentionStrides {
    const std::int64_t whole = count * tokens * size;
    if (is_token_major) return {whole, size, count * size};
    return {whole, tokens * size, size};
  };
  p.q = p.out = strides(heads, queries);
  p.k = p.v = strides(kv_heads, keys);
  return p;
}

// A problem whose keys and values have other sizes than its other heads.
inline AttentionProblem with_sizes(AttentionProblem p, std::int64_t qk_size, std::int64_t v_size) {
  const auto resized = [](const AttentionStrides& s, std::int64_t was,
                          std::int64_t is) -> AttentionStrides {
    return {s.batch / was * is, s.head / was * is, s.token / was * is};
  };
  p.v = resized(p.v, p.v_size, v_size);
  p.out = resized(p.out, p.v_size, v_size);
  p.q = resized(p.q, p.qk_size, qk_size);
  p.k = resized(p.k, p.qk_size, qk_size);
  p.qk_size = qk_size;
  p.v_size = v_size;
  return p;
}

inline AttentionProblem causal(AttentionProblem p, std::int64_t offset) {
  p.is_causal = true;
  p.causal_offset = offset;
  return p;
}

inline std::vector<double> attend(const AttentionProblem& p, const std::vector<double>& q,
                                  const std::vector<double>& k, const std::vector<double>& v) {
  std::vector<double> out(static_cast<std::size_t>(p.batch * p.heads * p.queries * p.v_size));
  std::vector<double> weights(static_cast<std::size_t>(p.keys));
  const auto at = [](const AttentionStrides& s, std::int64_t b, std::int64_t h, std::int64_t t) {
    return static_cast<std::size_t>(b * s.batch + h * s.head + t * s.token);
  };
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const std::int64_t g = h / (p.heads / p.kv_heads);
      for (std::int64_t i = 0; i < p.queries; ++i) {
        double most = -INFINITY;
        // Those that a causal row sees.
        const std::int64_t keys = p.is_causal ? std::min(p.keys, i + p.causal_offset + 1) : p.keys;
        for (std::int64_t j = 0; j < keys; ++j) {
          double sum = 0;
          for (std::int64_t d = 0; d < p.qk_size; ++d) {
            const auto e = static_cast<std::size_t>(d);
            sum += q[at(p.q, b, h, i) + e] * k[at(p.k, b, g, j) + e];
          }
          weights[static_cast<std::size_t>(j)] = sum * p.scale;
          most = std::max(most, sum * p.scale);
        }
        double total = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          double& weight = weights[static_cast<std::size_t>(j)];
          total += weight = std::exp(weight - most);
        }
        for (std::int64_t j = 0; j < keys; ++j) {
          for (std::int64_t d = 0; d < p.v_size; ++d) {
            const auto e = static_cast<std::size_t>(d);
            out[at(p.out, b, h, i) + e] +=
                weights[static_cast<std::size_t>(j)] / total * v[at(p.v, b, g, j) + e];
          }
        }
      }
    }
  }
  return out;
}

}  // namespace tutti::cuda
