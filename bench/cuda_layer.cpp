// Speed of the CUDA kernels around attention in a large transformer, one by one, at a fixed load.
// Usage: cuda_layer [FILTER] [SECONDS]. One line a case: milliseconds a run, GB/s of operands and
// results, TFLOP/s. Each case runs for SECONDS (default 0.25) after as long a warm-up, so that the
// card is as warm as in a long forward.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/backend.h"
#include "base/half.h"
#include "base/str_cat.h"
#include "graph/op_def.h"
#include "graph/printer.h"
#include "ops/lowering.h"

namespace tutti::cuda {
namespace {

struct Case {
  std::string name;
  std::string text;
};

// RMSNormalization of heads and rotary embedding, as exporters write it.
std::string heads(std::int64_t tokens, int count, bool is_interleaved, const std::string& type) {
  const std::string x = str_cat(type, "[1, ", tokens, ", ", count, ", 128]");
  const std::string half = str_cat(type, "[1, ", tokens, ", ", count, ", 64]");
  const std::string turn =
      is_interleaved
          ? str_cat(
                "%p = Reshape(%n) {shape = dims[1, ", tokens, ", ", count,
                ", 64, 2]}\n %a, %b = Split(%p) {axis = 4, sizes = dims[1, 1]}\n %m = Neg(%b)\n",
                " %c = Concat(%m, %a) {axis = 4}\n %t = Reshape(%c) {shape = dims[1, ", tokens,
                ", ", count, ", 128]}\n")
          : std::string(
                "%a, %b = Split(%n) {axis = 3, sizes = dims[64, 64]}\n %m = Neg(%b)\n %t = "
                "Concat(%m, %a) {axis = 3}\n");
  const std::string operands = str_cat("%x: ", x, ", %w: ", type, "[128], %cos: f32[", tokens,
                                       ", 1, 128], %sin: f32[", tokens, ", 1, 128]");
  return str_cat(
      "graph (", operands, ") {\n %y = Fused(%x, %w, %cos, %sin) {body = graph (", operands,
      ") {\n %n = RMSNormalization(%x, %w) {axis = 3, epsilon = 1e-6}\n ", turn,
      " %nf = Cast(%n) {to = \"f32\"}\n %tf = Cast(%t) {to = \"f32\"}\n %l = Mul(%nf, %cos)\n "
      "%r = Mul(%tf, %sin)\n %s = Add(%l, %r)\n %y = Cast(%s) {to = \"",
      type, "\"}\n return %y\n }}\n return %y\n}");
}

std::string norm(std::int64_t tokens, std::int64_t width, bool is_centred) {
  return str_cat("graph (%x: bf16[1, ", tokens, ", ", width, "], %w: bf16[", width,
                 "]) { %y = ", is_centred ? "Layer" : "RMS",
                 "Normalization(%x, %w) {axis = 2, epsilon = 1e-6} return %y }");
}

// x + gate y, its norm, scaled and shifted: what stands between two halves of an adaLN block.
std::string modulated(std::int64_t tokens, std::int64_t width) {
  const std::string x = str_cat("bf16[1, ", tokens, ", ", width, "]");
  const std::string one = str_cat("bf16[1, 1, ", width, "]");
  const std::string operands =
      str_cat("%x: ", x, ", %y: ", x, ", %g: ", one, ", %s: ", one, ", %b: ", one);
  return str_cat(
      "graph (", operands, ") {\n %r, %z = Fused(%x, %y, %g, %s, %b) {body = graph (", operands,
      ") {\n %gy = Mul(%y, %g)\n %r = Add(%x, %gy)\n %n = LayerNormalization(%r) {axis = 2, "
      "epsilon "
      "= 1e-6}\n %ns = Mul(%n, %s)\n %z = Add(%ns, %b)\n return %r, %z\n }}\n return %r, %z\n}");
}

std::string gated(std::int64_t tokens, std::int64_t width) {
  const std::string x = str_cat("bf16[1, ", tokens, ", ", width, "]");
  return str_cat("graph (%g: ", x, ", %u: ", x,
                 ") {\n %y = Pointwise(%g, %u) {body = graph (%a: bf16[], %b: "
                 "bf16[]) {\n %s = Silu(%a)\n %m = Mul(%s, %b)\n return %m\n }}\n return %y\n}");
}

// The halves of one product's result.
std::string gated_halves(std::int64_t tokens, std::int64_t width) {
  const std::string x = str_cat("%x: bf16[1, ", tokens, ", ", 2 * width, "]");
  return str_cat("graph (", x, ") {\n %y = Fused(%x) {body = graph (", x,
                 ") {\n %g, %u = Split(%x) {axis = 2, "
                 "sizes = dims[",
                 width, ", ", width,
                 "]}\n %s = Silu(%g)\n %m = Mul(%s, %u)\n return %m\n }}\n "
                 "return %y\n}");
}

std::string product(std::int64_t m, std::int64_t k, std::int64_t n, bool has_residual) {
  const std::string r = has_residual ? str_cat(", %r: bf16[", m, ", ", n, "]") : "";
  return str_cat("graph (%x: bf16[", m, ", ", k, "], %w: bf16[", k, ", ", n, "]", r,
                 ") { %y = Linear(%x, %w", has_residual ? ", _, %r" : "", ") return %y }");
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t t : {44160, 5520}) {
    all.push_back({str_cat("RMSNorm ", t, "x4096"), norm(t, 4096, false)});
    all.push_back({str_cat("LayerNorm ", t, "x4096"), norm(t, 4096, true)});
    all.push_back({str_cat("residual+LayerNorm+modulation ", t, "x4096"), modulated(t, 4096)});
    all.push_back({str_cat("q norm+rotary halves ", t, "x32x128"), heads(t, 32, false, "bf16")});
    all.push_back({str_cat("q norm+rotary pairs ", t, "x32x128"), heads(t, 32, true, "bf16")});
    all.push_back({str_cat("k norm+rotary halves ", t, "x8x128"), heads(t, 8, false, "bf16")});
    all.push_back({str_cat("silu(gate)*up ", t, "x12288"), gated(t, 12288)});
    all.push_back({str_cat("silu(gate)*up of halves ", t, "x24576"), gated_halves(t, 12288)});
  }
  for (const std::int64_t t : {44160, 22080, 11040, 5520}) {
    for (const std::int64_t n : {4096, 1024, 6144, 12288, 24576}) {
      all.push_back({str_cat("product ", t, "x4096x", n), product(t, 4096, n, false)});
    }
    all.push_back({str_cat("product ", t, "x4096x4096 + residual"), product(t, 4096, 4096, true)});
    all.push_back(
        {str_cat("product ", t, "x12288x4096 + residual"), product(t, 12288, 4096, true)});
  }
  return all;
}

class Bench {
 public:
  static Result<std::unique_ptr<Bench>> create() {
    std::unique_ptr<Bench> bench(new Bench);
    LoweringRegistry lowerings;
    register_all_ops(&bench->ops_, &lowerings);
    TUTTI_ASSIGN_OR_RETURN(bench->backend_, CudaBackend::create());
    TUTTI_ASSIGN_OR_RETURN(bench->device_, bench->backend_->create_rank({}));
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < std::size_t{1} << 22; ++i) {
      const float x = normal(random);
      bench->wide_.push_back(x);
      bench->narrow_.push_back(BFloat16(x));
    }
    return bench;
  }

  Status run(const Case& c, double seconds) {
    TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, parse_graph(c.text, ops_));
    const Node& node = *graph->nodes().front();
    std::vector<TensorDesc> inputs;
    std::vector<TensorDesc> outputs;
    std::vector<std::unique_ptr<DeviceBuffer>> buffers;
    std::vector<const void*> input_data;
    std::vector<void*> output_data;
    double bytes = 0;
    for (const Value* input : node.inputs()) {
      inputs.emplace_back();
      input_data.push_back(nullptr);
      if (input == nullptr) continue;
      TUTTI_ASSIGN_OR_RETURN(inputs.back(), desc_of(input));
      TUTTI_ASSIGN_OR_RETURN(auto buffer, device_->allocate(inputs.back().byte_size()));
      TUTTI_RETURN_IF_ERROR(fill(inputs.back(), static_cast<std::byte*>(buffer->data())));
      bytes += static_cast<double>(inputs.back().byte_size());
      input_data.back() = buffer->data();
      buffers.push_back(std::move(buffer));
    }
    for (const Value* output : node.outputs()) {
      TUTTI_ASSIGN_OR_RETURN(const TensorDesc desc, desc_of(output));
      TUTTI_ASSIGN_OR_RETURN(auto buffer, device_->allocate(desc.byte_size()));
      bytes += static_cast<double>(desc.byte_size());
      outputs.push_back(desc);
      output_data.push_back(buffer->data());
      buffers.push_back(std::move(buffer));
    }
    const std::vector<const Tensor*> constants(inputs.size(), nullptr);
    TUTTI_ASSIGN_OR_RETURN(const auto kernel,
                           device_->make_kernel({node, inputs, outputs, constants, symbols_}));
    TUTTI_ASSIGN_OR_RETURN(const auto workspace,
                           device_->allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64)));
    const KernelArgs args{input_data, output_data, workspace->data()};
    TUTTI_ASSIGN_OR_RETURN(const double once, time(*kernel, args, 3));
    const int runs = std::max(3, static_cast<int>(seconds / once));
    TUTTI_RETURN_IF_ERROR(time(*kernel, args, runs).status());
    TUTTI_ASSIGN_OR_RETURN(const double each, time(*kernel, args, runs));
    double flops = 0;
    if (node.type() == "Linear") {
      flops = 2.0 * static_cast<double>(inputs[0].element_count()) *
              static_cast<double>(outputs[0].dims.back());
    }
    std::printf("%-48s %9.4f ms %8.0f GB/s %8.1f TFLOP/s workspace %zu\n", c.name.c_str(),
                each * 1e3, bytes / each * 1e-9, flops / each * 1e-12, kernel->workspace_bytes());
    std::fflush(stdout);
    return {};
  }

 private:
  static Result<TensorDesc> desc_of(const Value* value) {
    TUTTI_ASSIGN_OR_RETURN(Dims dims, evaluate(value->shape(), {}));
    return TensorDesc{value->dtype(), std::move(dims)};
  }

  Status fill(const TensorDesc& desc, std::byte* target) {
    const bool is_wide = desc.dtype == DType::kFloat32;
    const void* source = is_wide ? static_cast<const void*>(wide_.data()) : narrow_.data();
    const std::size_t block = is_wide ? wide_.size() * 4 : narrow_.size() * 2;
    for (std::size_t at = 0; at < desc.byte_size(); at += block) {
      TUTTI_RETURN_IF_ERROR(
          device_->upload(target + at, source, std::min(block, desc.byte_size() - at)));
    }
    return device_->finish();
  }

  Result<double> time(Kernel& kernel, const KernelArgs& args, int runs) {
    TUTTI_RETURN_IF_ERROR(kernel.run(args));
    TUTTI_RETURN_IF_ERROR(device_->mark(0));
    for (int i = 0; i < runs; ++i) TUTTI_RETURN_IF_ERROR(kernel.run(args));
    TUTTI_RETURN_IF_ERROR(device_->mark(1));
    TUTTI_RETURN_IF_ERROR(device_->finish());
    TUTTI_ASSIGN_OR_RETURN(const double seconds, device_->seconds_between(0, 1));
    return seconds / runs;
  }

  OpRegistry ops_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<RankDevice> device_;
  const SymbolMap symbols_;
  std::vector<float> wide_;
  std::vector<BFloat16> narrow_;
};

int main(const std::string& filter, double seconds) {
  auto bench = Bench::create();
  if (!bench.ok()) {
    std::printf("%s\n", bench.status().to_string().c_str());
    return 1;
  }
  int failed = 0;
  for (const Case& c : cases()) {
    if (c.name.find(filter) == std::string::npos) continue;
    const Status status = (*bench)->run(c, seconds);
    if (status.ok()) continue;
    std::printf("%s: %s\n", c.name.c_str(), status.to_string().c_str());
    failed = 1;
  }
  return failed;
}

}  // namespace
}  // namespace tutti::cuda

int main(int argc, char** argv) {
  return tutti::cuda::main(argc > 1 ? argv[1] : "", argc > 2 ? std::atof(argv[2]) : 0.25);
}
