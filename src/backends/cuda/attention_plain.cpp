// Attention with our own kernels: matrix units for 16-bit floats, plain tiles elsewhere.
#include <bit>

#include "backends/cuda/attention.h"

namespace tutti::cuda {
namespace {

constexpr int kKeyTile = 32;
constexpr std::size_t kAddresses = 6;  // then those of places

// What attention_mma.cuh takes: a tile of 128 queries and 64 keys.
constexpr std::int64_t kMatrixQueries = 128;
constexpr std::int64_t kMatrixKeys = 64;
constexpr std::size_t kMatrixStages = 2;

std::size_t matrix_bytes(const AttentionProblem& p) {
  return kMatrixStages * static_cast<std::size_t>(kMatrixKeys * (p.qk_size + 8 + p.v_size + 8)) * 2;
}

std::size_t shared_bytes(const AttentionProblem& p, std::int64_t query_tile, std::size_t width) {
  const std::int64_t count = query_tile * (p.qk_size + 1) + p.qk_size * (kKeyTile + 1) +
                             kKeyTile * p.v_size + query_tile * (kKeyTile + 1);
  return static_cast<std::size_t>(count) * width;
}

struct Tiling {
  bool is_matrix = false;
  std::int64_t queries = 0;
  std::size_t bytes = 0;
};

KernelSource source_of(const AttentionProblem& p, const Tiling& tiling) {
  KernelSource source;
  source.entry = tiling.is_matrix ? "attention_mma" : "attention";
  if (tiling.is_matrix) {
    source.files = {"attention_places.cuh", "mma.cuh", "attention_mma.cuh"};
  } else {
    source.files = {"attention_places.cuh", "attention.cuh"};
  }
  const auto define = [&](const char* name, std::string value) {
    source.defines.emplace_back(name, std::move(value));
  };
  define("T", type_name(p.dtype));
  define("D", std::to_string(p.qk_size));
  define("E", std::to_string(p.v_size));
  define("BQ", std::to_string(tiling.queries));
  define("BK", std::to_string(tiling.is_matrix ? kMatrixKeys : kKeyTile));
  define("IS_BF16", p.dtype == DType::kBFloat16 ? "1" : "0");
  define("HAS_MASK", p.has_mask() ? "1" : "0");
  define("MASK_IS_BOOL", p.mask_dtype == DType::kBool ? "1" : "0");
  define("M", type_name(p.has_mask() ? p.mask_dtype : DType::kFloat32));
  define("PLACES", std::to_string(p.places.size()));
  return source;
}

Result<GeneratedKernel> make_kernel(const AttentionProblem& p, const Tiling& tiling,
                                    RankContext& context) {
  const std::int64_t tiles = (p.queries + tiling.queries - 1) / tiling.queries;
  const std::int64_t group = p.kv_heads > 0 ? p.heads / p.kv_heads : 1;
  std::vector<std::int64_t> numbers = {tiles, p.kv_heads, group, p.queries, p.keys};
  for (const AttentionStrides& s : {p.q, p.k, p.v, p.out}) {
    numbers.insert(numbers.end(), {s.batch, s.head, s.token});
  }
  numbers.insert(numbers.end(), p.mask_strides.begin(), p.mask_strides.end());
  numbers.insert(numbers.end(),
                 {std::bit_cast<std::int64_t>(p.scale), std::bit_cast<std::int64_t>(p.softcap),
                  p.is_causal ? 1 : 0, p.causal_offset});
  for (const AttentionPlace& place : p.places) {
    numbers.insert(numbers.end(), {place.query, place.batch_stride, place.token_stride});
  }
  Grid grid;
  grid.blocks = tiles * p.batch * p.heads;
  grid.threads = 256;
  grid.shared_bytes = tiling.bytes;
  return GeneratedKernel::create(context, source_of(p, tiling), kAddresses + p.places.size(),
                                 std::move(numbers), grid);
}

class PlainAttention final : public Attention {
 public:
  PlainAttention(const AttentionProblem& p, GeneratedKernel kernel)
      : kernel_(std::move(kernel)), places_(p.places), width_(dtype_size(p.dtype)) {}
  std::string name() const override { return "ours"; }
  Status run(const AttentionAddresses& at) override {
    addresses_.assign({at.q, at.k, at.v, at.mask, at.lengths, at.out});  // keeps its memory
    for (const AttentionPlace& place : places_) addresses_.push_back(address_of(place, at, width_));
    return kernel_.run(addresses_);
  }

 private:
  GeneratedKernel kernel_;
  std::vector<AttentionPlace> places_;
  std::size_t width_;
  std::vector<const void*> addresses_;
};

}  // namespace

bool takes_matrix_units(DType dtype, std::int64_t qk_size, std::int64_t v_size) {
  const bool is_narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  return is_narrow && qk_size % 16 == 0 && v_size % 16 == 0 && qk_size <= 128 && v_size <= 128;
}

Result<std::unique_ptr<Attention>> make_plain_attention(const AttentionProblem& problem,
                                                        RankContext& context) {
  const AttentionProblem& p = problem;
  Tiling tiling;
  tiling.is_matrix = takes_matrix_units(p.dtype, p.qk_size, p.v_size);
  tiling.queries = tiling.is_matrix ? kMatrixQueries : 64;
  const std::size_t width = p.dtype == DType::kFloat64 ? 8 : 4;
  const auto bytes = [&] {
    return tiling.is_matrix ? matrix_bytes(p) : shared_bytes(p, tiling.queries, width);
  };
  while (!tiling.is_matrix && tiling.queries > 16 && bytes() > context.shared_bytes) {
    tiling.queries /= 2;
  }
  tiling.bytes = bytes();
  if (tiling.bytes > context.shared_bytes) {
    return unimplemented("heads of ", p.qk_size, " and ", p.v_size, " elements of ",
                         dtype_name(p.dtype), " need ", tiling.bytes,
                         " bytes of shared memory, a block has ", context.shared_bytes);
  }
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel, make_kernel(p, tiling, context));
  return std::unique_ptr<Attention>(std::make_unique<PlainAttention>(p, std::move(kernel)));
}

}  // namespace tutti::cuda
