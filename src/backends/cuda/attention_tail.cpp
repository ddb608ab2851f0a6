// The keys that cuDNN's whole tiles leave over.
#include <bit>

#include "backends/cuda/attention.h"

namespace tutti::cuda {
namespace {

std::size_t bytes_of(const AttentionProblem& p, std::int64_t keys, std::int64_t warps) {
  const std::int64_t row = p.qk_size + 8 + p.v_size + 8;  // of queries and results, or a key's
  return static_cast<std::size_t>(keys * row + warps * 2 * (16 * row + 32)) * 2;
}

}  // namespace

Result<std::unique_ptr<AttentionTail>> AttentionTail::create(const AttentionProblem& problem,
                                                             std::int64_t keys,
                                                             RankContext& context) {
  const AttentionProblem& p = problem;
  if (!takes_matrix_units(p.dtype, p.qk_size, p.v_size) || p.has_mask() || p.has_lengths ||
      p.is_causal || p.softcap != 0 || keys > 128) {
    return unimplemented("no tail of ", keys, " keys for this attention");
  }
  const std::int64_t room = (keys + 15) / 16 * 16;
  std::int64_t warps = 8;
  while (warps > 2 && bytes_of(p, room, warps) > context.shared_bytes) warps /= 2;
  Grid grid;
  grid.shared_bytes = bytes_of(p, room, warps);
  if (grid.shared_bytes > context.shared_bytes) {
    return unimplemented("a tail of ", keys, " keys needs ", grid.shared_bytes,
                         " bytes of shared memory, a block has ", context.shared_bytes);
  }
  const std::int64_t pairs = p.batch * p.kv_heads;
  const std::int64_t blocks = std::max<std::int64_t>(context.multiprocessors / pairs, 1);
  grid.blocks = pairs * blocks;
  grid.threads = static_cast<int>(32 * warps);
  KernelSource source;
  source.entry = "attention_tail";
  source.files = {"mma.cuh", "attention_tail.cuh"};
  source.defines.emplace_back("T", type_name(p.dtype));
  source.defines.emplace_back("D", std::to_string(p.qk_size));
  source.defines.emplace_back("E", std::to_string(p.v_size));
  source.defines.emplace_back("BK", std::to_string(room));
  source.defines.emplace_back("WARPS", std::to_string(warps));
  source.defines.emplace_back("IS_BF16", p.dtype == DType::kBFloat16 ? "1" : "0");
  std::vector<std::int64_t> numbers = {blocks, p.kv_heads, p.heads / p.kv_heads, p.queries, keys};
  for (const AttentionStrides& s : {p.q, p.k, p.v, p.out}) {
    numbers.insert(numbers.end(), {s.batch, s.head, s.token});
  }
  numbers.push_back(std::bit_cast<std::int64_t>(p.scale));
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel kernel,
      GeneratedKernel::create(context, std::move(source), 5, std::move(numbers), grid));
  return std::unique_ptr<AttentionTail>(new AttentionTail(std::move(kernel)));
}

Status AttentionTail::run(const AttentionAddresses& at, const void* statistics) {
  return kernel_.run({at.q, at.k, at.v, at.out, statistics});
}

}  // namespace tutti::cuda
