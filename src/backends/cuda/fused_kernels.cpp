// Fused: one row kernel where the body consists of rows, one product kernel where it combines two
// products, else the body's nodes one by one.
#include <algorithm>
#include <optional>

#include "backends/cuda/disk_cache.h"
#include "backends/cuda/gated_product.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/pointwise_code.h"
#include "backends/cuda/row_kernel.h"
#include "graph/op_def.h"
#include "runtime/node_sequence.h"

namespace tutti::cuda {
namespace {

KernelResult make_nodes(const KernelSpec& spec, const Graph& body, RankContext& context) {
  return make_node_sequence(spec, body, [&context](const KernelSpec& inner) -> KernelResult {
    const KernelFactory factory = kernel_table().find(inner.node.type());
    if (factory == nullptr) return unimplemented("there is no kernel for ", inner.node.type());
    return factory(inner, context);
  });
}

KernelResult make_rows(const KernelSpec& spec, const Graph& body, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(
      GeneratedKernel rows,
      make_row_kernel(context, {body, spec.inputs, spec.constants, spec.symbols}));
  std::vector<const void*> addresses(spec.inputs.size() + spec.outputs.size());
  return make_lambda_kernel(
      [kernel = std::move(rows), addresses = std::move(addresses)](const KernelArgs& args) mutable {
        std::copy(args.inputs.begin(), args.inputs.end(), addresses.begin());
        std::copy(args.outputs.begin(), args.outputs.end(),
                  addresses.begin() + static_cast<std::ptrdiff_t>(args.inputs.size()));
        return kernel.run(addresses);
      });
}

// --- Two products of one operand, combined -------------------------------------------------------

struct GatedBody {
  std::size_t a = 0;  // operands of the node
  std::size_t g = 0;
  std::size_t u = 0;
  bool is_transposed = false;  // both weights
  std::string combine;
};

// A pointwise node of the body, whose operands have names.
Status add_pointwise(const Node& node, BodyWriter* writer) {
  if (!node.op().is_pointwise) return unimplemented("no two products that are combined");
  if (node.type() != "Pointwise") return writer->add(node);
  const std::shared_ptr<const Graph> region = node.attr_graph("body");
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    writer->bind(region->inputs()[i], writer->name_of(node.input(i)));
  }
  TUTTI_RETURN_IF_ERROR(writer->add_body(*region));
  for (std::size_t j = 0; j < node.outputs().size(); ++j) {
    writer->bind(node.output(j), writer->name_of(region->outputs()[j]));
  }
  return {};
}

// Linear(a, g), Linear(a, u), and pointwise nodes of both.
Result<GatedBody> match_gated(const Graph& body) {
  std::vector<const Node*> nodes;
  for (const auto& node : body.nodes()) nodes.push_back(node.get());
  const auto is_plain = [](const Node& node) {
    return node.type() == "Linear" && node.inputs().size() == 2 &&
           node.attr_string("activation").empty();
  };
  if (nodes.size() < 3 || body.inputs().size() != 3 || body.outputs().size() != 1 ||
      !is_plain(*nodes[0]) || !is_plain(*nodes[1]) || nodes[0]->input(0) != nodes[1]->input(0) ||
      nodes[0]->attr_int("transpose_w") != nodes[1]->attr_int("transpose_w")) {
    return unimplemented("no two products that are combined");
  }
  const auto input_of = [&](const Value* value) {
    const auto& inputs = body.inputs();
    return static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), value) -
                                    inputs.begin());
  };
  GatedBody gated;
  gated.a = input_of(nodes[0]->input(0));
  gated.g = input_of(nodes[0]->input(1));
  gated.u = input_of(nodes[1]->input(1));
  gated.is_transposed = nodes[0]->attr_int("transpose_w") != 0;
  BodyWriter writer;
  writer.bind(nodes[0]->output(), "x0");
  writer.bind(nodes[1]->output(), "x1");
  for (std::size_t i = 2; i < nodes.size(); ++i) {
    const auto& operands = nodes[i]->inputs();
    if (std::any_of(operands.begin(), operands.end(),
                    [](const Value* operand) { return operand->is_input(); })) {
      return unimplemented("another operand");
    }
    TUTTI_RETURN_IF_ERROR(add_pointwise(*nodes[i], &writer));
  }
  const std::string result = writer.name_of(body.outputs()[0]);
  gated.combine = str_cat(writer.take(), "      return ", result, ";\n");
  return gated;
}

// One kernel or its nodes one by one: what the first run finds faster, kept on disk.
class GatedKernel final : public Kernel {
 public:
  GatedKernel(const GatedBody& body, std::unique_ptr<GatedProduct> fused, cudaStream_t stream,
              const Hash128& key)
      : body_(body), fused_(std::move(fused)), stream_(stream), key_(key) {}

  Status set_up(const KernelSpec& spec, const Graph& body, RankContext& context) {
    const std::string kept = cache_.read(key_, "gated");
    if (kept == "fused") return {};
    TUTTI_ASSIGN_OR_RETURN(nodes_, make_nodes(spec, body, context));
    if (kept == "nodes") fused_.reset();
    return {};
  }

  std::size_t workspace_bytes() const override {
    return nodes_ == nullptr ? 0 : nodes_->workspace_bytes();
  }

  Status run(const KernelArgs& args) override {
    if (fused_ != nullptr && nodes_ != nullptr && !uses_fused_) {
      TUTTI_RETURN_IF_ERROR(choose(args));
    }
    const bool is_fused = uses_fused_.value_or(fused_ != nullptr);
    return is_fused ? run_fused(args) : nodes_->run(args);
  }

 private:
  Status run_fused(const KernelArgs& args) {
    return fused_->run(args.inputs[body_.a], args.inputs[body_.g], args.inputs[body_.u],
                       args.outputs[0]);
  }

  Status choose(const KernelArgs& args) {
    const auto fused = [&] { return run_fused(args); };
    const auto nodes = [&] { return nodes_->run(args); };
    TUTTI_ASSIGN_OR_RETURN(const float by_nodes, time(nodes));
    TUTTI_ASSIGN_OR_RETURN(const float as_one, time(fused));
    uses_fused_ = as_one < by_nodes;
    cache_.write(key_, "gated", *uses_fused_ ? "fused" : "nodes");
    return {};
  }

  // Milliseconds a run, at the clock that the card keeps up.
  template <class Function>
  Result<float> time(Function function) {
    TUTTI_ASSIGN_OR_RETURN(const auto begin, Event::create(true));
    TUTTI_ASSIGN_OR_RETURN(const auto end, Event::create(true));
    float milliseconds = 0;
    for (int runs = 2; runs <= 1 << 12; runs *= 4) {
      TUTTI_RETURN_IF_ERROR(function());
      TUTTI_CUDA(cudaEventRecord(begin->get(), stream_));
      for (int i = 0; i < runs; ++i) TUTTI_RETURN_IF_ERROR(function());
      TUTTI_CUDA(cudaEventRecord(end->get(), stream_));
      TUTTI_RETURN_IF_ERROR(wait_for(end->get()));
      TUTTI_CUDA(cudaEventElapsedTime(&milliseconds, begin->get(), end->get()));
      if (milliseconds > 60) return milliseconds / static_cast<float>(runs);
      milliseconds /= static_cast<float>(runs);
    }
    return milliseconds;
  }

  const GatedBody body_;
  std::unique_ptr<GatedProduct> fused_;
  std::unique_ptr<Kernel> nodes_;  // null once it is known to be slower
  cudaStream_t stream_;
  const Hash128 key_;
  const DiskCache cache_ = DiskCache::find();
  std::optional<bool> uses_fused_;
};

KernelResult make_gated(const KernelSpec& spec, const Graph& body, RankContext& context) {
  TUTTI_ASSIGN_OR_RETURN(const GatedBody gated, match_gated(body));
  const TensorDesc& a = spec.inputs[gated.a];
  GatedShape shape;
  shape.dtype = a.dtype;
  shape.k = a.dims.back();
  shape.m = a.element_count() / std::max<std::int64_t>(shape.k, 1);
  shape.n = spec.inputs[gated.g].dims[gated.is_transposed ? 0 : 1];
  shape.is_transposed = gated.is_transposed;
  if (spec.inputs[gated.u].dims != spec.inputs[gated.g].dims) {
    return unimplemented("weights of different sizes");
  }
  TUTTI_ASSIGN_OR_RETURN(auto fused, GatedProduct::create(context, shape, gated.combine));
  const std::string text = str_cat("gated-1 ", context.arch, " ", context.multiprocessors, " ",
                                   dtype_name(shape.dtype), " ", shape.m, " ", shape.n, " ",
                                   shape.k, " ", shape.is_transposed, " ", gated.combine);
  const Hash128 key = hash_bytes(std::as_bytes(std::span(text.data(), text.size())));
  auto kernel = std::make_unique<GatedKernel>(gated, std::move(fused), context.stream, key);
  TUTTI_RETURN_IF_ERROR(kernel->set_up(spec, body, context));
  return std::unique_ptr<Kernel>(std::move(kernel));
}

KernelResult make_fused(const KernelSpec& spec, RankContext& context) {
  const std::shared_ptr<const Graph> body = spec.node.attr_graph("body");
  for (const auto make : {make_rows, make_gated}) {
    KernelResult kernel = make(spec, *body, context);
    if (kernel.ok() || kernel.status().code() != StatusCode::kUnimplemented) return kernel;
  }
  return make_nodes(spec, *body, context);
}

}  // namespace

void register_fused_kernels(KernelTable* table) { table->add("Fused", make_fused); }

}  // namespace tutti::cuda
