// Attention: sizes and strides from the node; matrix units for 16-bit floats, plain tiles
// elsewhere.
#include <bit>

#include "backends/cuda/exchange_kernels.h"
#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/kernels.h"

namespace tutti::cuda {
namespace {

constexpr int kKeyTile = 32;

struct Strides {
  std::int64_t batch, head, token;
};

Strides strides_of(const Dims& dims, std::size_t heads, std::size_t tokens) {
  const Dims strides = contiguous_strides(dims);
  return {strides[0], strides[heads], strides[tokens]};
}

struct AttentionShape {
  std::int64_t batch, heads, kv_heads, queries, keys, d, e;
  Strides q, k, v, out;
  Dims mask_strides = Dims(4, 0);  // batch, head, query, key; 0 where it broadcasts
};

// k and v are whole, also where the node has pieces of them.
Result<AttentionShape> read_shape(const KernelSpec& spec, const Dims& k, const Dims& v) {
  const bool is_token_major = spec.node.attr_string("layout") == "bshd";
  const std::size_t heads = is_token_major ? 2 : 1;
  const std::size_t tokens = is_token_major ? 1 : 2;
  const Dims& q = spec.inputs[0].dims;
  AttentionShape s{q[0], q[heads], k[heads], q[tokens], k[tokens], q[3], v[3], {}, {}, {}, {}};
  if (s.kv_heads > 0 && s.heads % s.kv_heads != 0) {
    return invalid_argument(s.heads, " query heads are no multiple of ", s.kv_heads,
                            " key/value heads");
  }
  if (k[0] != s.batch || v[0] != s.batch || v[heads] != s.kv_heads || v[tokens] != s.keys ||
      k[3] != s.d) {
    return invalid_argument("q ", q, ", k ", k, " and v ", v, " do not fit each other");
  }
  s.q = strides_of(q, heads, tokens);
  s.k = strides_of(k, heads, tokens);
  s.v = strides_of(v, heads, tokens);
  s.out = strides_of(spec.outputs[0].dims, heads, tokens);
  if (!has_input(spec, 3)) return s;
  const Dims& mask = spec.inputs[3].dims;
  const Dims strides = contiguous_strides(mask);
  const Dims scores{s.batch, s.heads, s.queries, s.keys};
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const std::size_t axis = 4 - mask.size() + i;
    if (mask[i] != 1 && mask[i] != scores[axis]) {
      return invalid_argument("mask ", mask, " does not broadcast to ", scores);
    }
    s.mask_strides[axis] = mask[i] == 1 ? 0 : strides[i];
  }
  return s;
}

// What attention_mma.cuh takes: a tile of 128 queries and 64 keys.
constexpr std::int64_t kMatrixQueries = 128;
constexpr std::int64_t kMatrixKeys = 64;
constexpr std::size_t kMatrixStages = 2;

bool takes_matrix_units(const AttentionShape& s, DType dtype) {
  const bool is_narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  return is_narrow && s.d % 16 == 0 && s.e % 16 == 0 && s.d <= 128 && s.e <= 128;
}

std::size_t matrix_bytes(const AttentionShape& s) {
  return kMatrixStages * static_cast<std::size_t>(kMatrixKeys * (s.d + 8 + s.e + 8)) * 2;
}

std::size_t shared_bytes(const AttentionShape& s, std::int64_t query_tile, std::size_t width) {
  const std::int64_t count =
      query_tile * (s.d + 1) + s.d * (kKeyTile + 1) + kKeyTile * s.e + query_tile * (kKeyTile + 1);
  return static_cast<std::size_t>(count) * width;
}

// Addresses: q, k, v, mask, key lengths, out.
Result<GeneratedKernel> make_launch(const KernelSpec& spec, RankContext& context, const Dims& k,
                                    const Dims& v) {
  TUTTI_ASSIGN_OR_RETURN(const AttentionShape s, read_shape(spec, k, v));
  const DType dtype = spec.inputs[0].dtype;
  const bool is_matrix = takes_matrix_units(s, dtype);
  const std::size_t width = dtype == DType::kFloat64 ? 8 : 4;
  std::int64_t query_tile = is_matrix ? kMatrixQueries : 64;
  while (!is_matrix && query_tile > 16 &&
         shared_bytes(s, query_tile, width) > context.shared_bytes) {
    query_tile /= 2;
  }
  const std::size_t bytes = is_matrix ? matrix_bytes(s) : shared_bytes(s, query_tile, width);
  if (bytes > context.shared_bytes) {
    return unimplemented("heads of ", s.d, " and ", s.e, " elements of ", dtype_name(dtype),
                         " need ", bytes, " bytes of shared memory, a block has ",
                         context.shared_bytes);
  }
  std::int64_t causal_offset = 0;
  if (const Shape offset = spec.node.attr_dims("causal_offset"); !offset.empty()) {
    TUTTI_ASSIGN_OR_RETURN(causal_offset, offset[0].evaluate(spec.symbols));
  }
  KernelSource source;
  source.entry = is_matrix ? "attention_mma" : "attention";
  source.files = {is_matrix ? "attention_mma.cuh" : "attention.cuh"};
  const bool has_mask = has_input(spec, 3);
  const DType mask = has_mask ? spec.inputs[3].dtype : DType::kFloat32;
  source.defines.emplace_back("T", type_name(dtype));
  source.defines.emplace_back("D", std::to_string(s.d));
  source.defines.emplace_back("E", std::to_string(s.e));
  source.defines.emplace_back("BQ", std::to_string(query_tile));
  source.defines.emplace_back("BK", std::to_string(is_matrix ? kMatrixKeys : kKeyTile));
  source.defines.emplace_back("IS_BF16", dtype == DType::kBFloat16 ? "1" : "0");
  source.defines.emplace_back("HAS_MASK", has_mask ? "1" : "0");
  source.defines.emplace_back("MASK_IS_BOOL", mask == DType::kBool ? "1" : "0");
  source.defines.emplace_back("M", type_name(mask));
  const std::int64_t tiles = (s.queries + query_tile - 1) / query_tile;
  const std::int64_t group = s.kv_heads > 0 ? s.heads / s.kv_heads : 1;
  const double scale = spec.node.attr_float("scale", 1.0);
  const double softcap = spec.node.attr_float("softcap");
  Grid grid;
  grid.blocks = tiles * s.batch * s.heads;
  grid.shared_bytes = bytes;
  return GeneratedKernel::create(context, std::move(source), 6,
                                 {tiles,
                                  s.kv_heads,
                                  group,
                                  s.queries,
                                  s.keys,
                                  s.q.batch,
                                  s.q.head,
                                  s.q.token,
                                  s.k.batch,
                                  s.k.head,
                                  s.k.token,
                                  s.v.batch,
                                  s.v.head,
                                  s.v.token,
                                  s.out.batch,
                                  s.out.head,
                                  s.out.token,
                                  s.mask_strides[0],
                                  s.mask_strides[1],
                                  s.mask_strides[2],
                                  s.mask_strides[3],
                                  std::bit_cast<std::int64_t>(scale),
                                  std::bit_cast<std::int64_t>(softcap),
                                  spec.node.attr_int("is_causal") != 0 ? 1 : 0,
                                  causal_offset},
                                 grid);
}

KernelResult make_attention(const KernelSpec& spec, RankContext& context) {
  if (spec.outputs[0].element_count() == 0) return make_empty_kernel();
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         make_launch(spec, context, spec.inputs[1].dims, spec.inputs[2].dims));
  return make_lambda_kernel([kernel = std::move(kernel)](const KernelArgs& args) mutable {
    return kernel.run({args.inputs[0], args.inputs[1], args.inputs[2], optional_input(args, 3),
                       optional_input(args, 4), args.outputs[0]});
  });
}

// Keys and values of all ranks are gathered first, so every rank has room for all of them.
KernelResult make_ring_attention(const KernelSpec& spec, RankContext& context) {
  const int tokens = spec.node.attr_string("layout") == "bshd" ? 1 : 2;
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t size,
                         spec.node.attr_dims("size")[0].evaluate(spec.symbols));
  TensorDesc k = spec.inputs[1];
  TensorDesc v = spec.inputs[2];
  TUTTI_ASSIGN_OR_RETURN(
      std::shared_ptr<PieceGather> gather,
      make_piece_gather(spec.node, context, spec.inputs.subspan(1, 2), tokens, size));
  k.dims[static_cast<std::size_t>(tokens)] = size;
  v.dims[static_cast<std::size_t>(tokens)] = size;
  std::vector<GeneratedKernel> attend;  // none where this rank has no queries
  if (spec.outputs[0].element_count() > 0) {
    TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel, make_launch(spec, context, k.dims, v.dims));
    attend.push_back(std::move(kernel));
  }
  const std::size_t key_bytes = (k.byte_size() + 63) / 64 * 64;
  return make_lambda_kernel(
      [gather = std::move(gather), attend = std::move(attend),
       key_bytes](const KernelArgs& args) mutable {
        void* const targets[] = {args.workspace,
                                 static_cast<std::byte*>(args.workspace) + key_bytes};
        TUTTI_RETURN_IF_ERROR(gather->run(args.inputs.subspan(1, 2), targets));
        if (attend.empty()) return Status();
        return attend[0].run({args.inputs[0], targets[0], targets[1], optional_input(args, 3),
                              optional_input(args, 4), args.outputs[0]});
      },
      key_bytes + v.byte_size());
}

}  // namespace

void register_attention_kernels(KernelTable* table) {
  table->add("Attention", make_attention);
  table->add("RingAttention", make_ring_attention);
}

}  // namespace tutti::cuda
