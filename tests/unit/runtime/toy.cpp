#include "toy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/kernels.h"
#include "graph/printer.h"
#include "ops/families.h"

namespace tutti::toy {
namespace {

using Types = Result<std::vector<TensorType>>;

Types same_as_first(const Node& node, int) {
  return std::vector<TensorType>{node.input(0)->type()};
}

Types from_shape(const Node& node, int) {
  return std::vector<TensorType>{{DType::kFloat32, node.attr_dims("shape")}};
}

// out[i] = f(i, inputs), element by element; F is a type with the body.
template <class F>
class ToyKernel final : public Kernel {
 public:
  explicit ToyKernel(const KernelSpec& spec)
      : inputs_(spec.inputs.begin(), spec.inputs.end()), output_(spec.outputs[0]) {}
  Status run(const KernelArgs& args) override { return F::run(inputs_, output_, args); }

 private:
  std::vector<TensorDesc> inputs_;
  TensorDesc output_;
};

template <class F>
Result<std::unique_ptr<Kernel>> make(const KernelSpec& spec, cpu::CpuContext&) {
  return std::unique_ptr<Kernel>(std::make_unique<ToyKernel<F>>(spec));
}

const float* in(const KernelArgs& args, std::size_t i) {
  return static_cast<const float*>(args.inputs[i]);
}
float* out(const KernelArgs& args) { return static_cast<float*>(args.outputs[0]); }

using Descs = std::vector<TensorDesc>;

struct Affine {  // 2 x + 1; refuses 1000 and above, as a kernel refuses an index
  static Status run(const Descs&, const TensorDesc& output, const KernelArgs& args) {
    for (std::int64_t i = 0; i < output.element_count(); ++i) {
      if (in(args, 0)[i] >= 1000) return invalid_argument("1000 is out of range");
      out(args)[i] = 2 * in(args, 0)[i] + 1;
    }
    return {};
  }
};

struct AddAlong {  // x[b, t, ..] + y[t]
  static Status run(const Descs&, const TensorDesc& output, const KernelArgs& args) {
    const Dims& dims = output.dims;
    const std::int64_t inner = dims[2] * dims[3];
    for (std::int64_t i = 0; i < output.element_count(); ++i) {
      out(args)[i] = in(args, 0)[i] + in(args, 1)[i / inner % dims[1]];
    }
    return {};
  }
};

struct RunningSum {  // along dimension 1
  static Status run(const Descs&, const TensorDesc& output, const KernelArgs& args) {
    const Dims& dims = output.dims;
    const std::int64_t inner = dims[2] * dims[3];
    for (std::int64_t i = 0; i < output.element_count(); ++i) {
      const bool is_first = i / inner % dims[1] == 0;
      out(args)[i] = in(args, 0)[i] + (is_first ? 0 : out(args)[i - inner]);
    }
    return {};
  }
};

struct AddRowSum {  // x[b, ..] + sum of y[b, :]
  static Status run(const Descs& inputs, const TensorDesc& output, const KernelArgs& args) {
    const std::int64_t width = inputs[1].dims[1];
    const std::int64_t batch = std::max<std::int64_t>(output.dims[0], 1);
    for (std::int64_t i = 0; i < output.element_count(); ++i) {
      const std::int64_t row = i / (output.element_count() / batch);
      float sum = 0;
      for (std::int64_t e = 0; e < width; ++e) sum += in(args, 1)[row * width + e];
      out(args)[i] = in(args, 0)[i] + sum;
    }
    return {};
  }
};

struct Positions {
  static Status run(const Descs&, const TensorDesc& output, const KernelArgs& args) {
    for (std::int64_t i = 0; i < output.element_count(); ++i) out(args)[i] = static_cast<float>(i);
    return {};
  }
};

OpDef op(std::string type, int inputs, Types (*infer)(const Node&, int)) {
  OpDef def;
  def.type = std::move(type);
  def.domain = "ai.tutti";
  def.min_inputs = def.max_inputs = inputs;
  def.infer = infer;
  return def;
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

const OpRegistry& ops() {
  static const OpRegistry registry = [] {
    OpRegistry all;
    register_exchange_ops(&all, nullptr);
    register_halo_ops(&all, nullptr);
    all.add(op("Affine", 1, same_as_first));
    all.add(op("AddAlong", 2, same_as_first));
    all.add(op("RunningSum", 1, same_as_first));
    all.add(op("AddRowSum", 2, same_as_first));
    OpDef positions = op("Positions", 0, from_shape);
    positions.attributes = {{"shape", AttributeKind::kDims, true}};
    all.add(positions);
    OpDef view = op("View", 1, from_shape);
    view.attributes = {{"shape", AttributeKind::kDims, true}};
    view.is_view = true;
    all.add(view);
    all.add(op("Unknown", 1, same_as_first));  // an operator without a kernel
    return all;
  }();
  return registry;
}

const cpu::KernelRegistry& kernels() {
  static const cpu::KernelRegistry registry = [] {
    cpu::KernelRegistry all;
    cpu::register_exchange_kernels(&all);
    all.add("Affine", make<Affine>);
    all.add("AddAlong", make<AddAlong>);
    all.add("RunningSum", make<RunningSum>);
    all.add("AddRowSum", make<AddRowSum>);
    all.add("Positions", make<Positions>);
    return all;
  }();
  return registry;
}

Plan plan_of(const std::string& mesh, const std::string& main, const std::string& prologue) {
  Plan plan;
  plan.mesh = *Mesh::parse(mesh);
  const auto parse = [](const std::string& text) -> std::unique_ptr<Graph> {
    auto graph = parse_graph(text, ops());
    EXPECT_TRUE(graph.ok()) << graph.status().to_string() << "\n" << text;
    return graph.ok() ? *std::move(graph) : nullptr;
  };
  plan.main = parse(main);
  if (!prologue.empty()) plan.prologue = parse(prologue);
  if (prologue.empty()) {
    for (const Value* input : plan.main->inputs()) {
      plan.inputs.push_back({input->name(), input->dtype(), input->shape()});
    }
  }
  for (const Value* output : plan.main->outputs()) {
    plan.outputs.push_back({output->name(), output->dtype(), output->shape()});
  }
  return plan;
}

Plan make_plan(const std::string& mesh) {
  const std::string prologue = R"(graph @prologue (%text: f32[b, e]) {
    %context = Affine(%text)
    %positions = Positions() {shape = dims[t]}
    return %context, %positions
  })";
  const std::string main = R"(graph @main
      (%x: f32[b, t, h, 2], %context: f32[b, e], %positions: f32[t]) {
    %xs = ShardSlice(%x) {axis = "cp", ranks = N, dim = 1, units = dims[t]}
    %ps = ShardSlice(%positions) {axis = "cp", ranks = N, dim = 0, units = dims[t]}
    %doubled = Affine(%xs)
    %placed = AddAlong(%doubled, %ps)
    %by_head = AllToAll(%placed) {axis = "cp", ranks = N, from_dims = [1], from_units = dims[t],
      from_replicas = [1], to_dims = [2], to_units = dims[h], to_replicas = [1], sizes = dims[t]}
    %sums = RunningSum(%by_head)
    %by_token = AllToAll(%sums) {axis = "cp", ranks = N, from_dims = [2], from_units = dims[h],
      from_replicas = [1], to_dims = [1], to_units = dims[t], to_replicas = [1], sizes = dims[h]}
    %flat = View(%by_token) {shape = dims[b, part(t,N,rank.cp), 2*h]}
    %back = View(%flat) {shape = dims[b, part(t,N,rank.cp), h, 2]}
    %whole = AllGather(%back) {axis = "cp", ranks = N, dim = 1, units = dims[t], size = dims[t]}
    %z = AddRowSum(%whole, %context)
    return %z, %x, %context
  })";
  const std::string ranks = std::to_string(Mesh::parse(mesh)->num_ranks());
  std::string text = replace_all(main, "ranks = N", "ranks = " + ranks);
  text = replace_all(text, ",N,", "," + ranks + ",");
  if (ranks == "1") text = replace_all(text, "part(t,1,rank.cp)", "t");
  Plan plan = plan_of(mesh, text, prologue);
  const Dim b = Dim::symbol("b");
  plan.inputs = {{"x", DType::kFloat32, {b, Dim::symbol("t"), Dim::symbol("h"), 2}},
                 {"text", DType::kFloat32, {b, Dim::symbol("e")}}};
  plan.invariant_inputs = {"text"};
  plan.outputs[1].name = plan.main->output_names[1] = "echo";
  return plan;
}

std::vector<float> expected_z(const Tensor& x, const Tensor& text) {
  const Dims& dims = x.dims();
  const float* data = x.data_as<float>();
  const std::int64_t width = text.dims()[1];
  std::vector<float> z;
  for (std::int64_t b = 0; b < dims[0]; ++b) {
    float context = 0;
    for (std::int64_t e = 0; e < width; ++e)
      context += 2 * text.data_as<float>()[b * width + e] + 1;
    for (std::int64_t t = 0; t < dims[1]; ++t) {
      for (std::int64_t i = 0; i < dims[2] * dims[3]; ++i) {
        float sum = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          const std::int64_t at = (b * dims[1] + s) * dims[2] * dims[3] + i;
          sum += 2 * data[at] + 1 + static_cast<float>(s);
        }
        z.push_back(sum + context);
      }
    }
  }
  return z;
}

Tensor numbers(Dims dims, int seed) {
  Tensor tensor = *Tensor::allocate(DType::kFloat32, std::move(dims));
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.mutable_data_as<float>()[i] = static_cast<float>((i * 7 + seed * 13) % 19);
  }
  return tensor;
}

std::vector<float> values(const Tensor& tensor) {
  return {tensor.data_as<float>(), tensor.data_as<float>() + tensor.element_count()};
}

}  // namespace tutti::toy
