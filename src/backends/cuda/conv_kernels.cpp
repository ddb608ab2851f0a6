// The nodes Conv and ConvTranspose: what they ask for, and which way is taken.
#include <algorithm>

#include "backends/cuda/conv.h"

namespace tutti::cuda {
namespace {

ConvolutionProblem read_convolution(const KernelSpec& spec) {
  const std::size_t rank = spec.inputs[0].dims.size() - 2;
  const auto numbers = [&](const char* name, std::int64_t fallback) {
    Dims values = spec.node.attr_ints(name);
    values.resize(rank, fallback);
    return values;
  };
  ConvolutionProblem p;
  p.dtype = spec.inputs[0].dtype;
  p.is_transposed = spec.node.type() == "ConvTranspose";
  p.has_bias = has_input(spec, 2);
  p.x = spec.inputs[0].dims;
  p.w = spec.inputs[1].dims;
  p.y = spec.outputs[0].dims;
  p.strides = numbers("strides", 1);
  p.dilations = numbers("dilations", 1);
  Dims pads = spec.node.attr_ints("pads");
  pads.resize(2 * rank, 0);
  p.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  p.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  p.group = spec.node.attr_int("group", 1);
  p.has_constant_weights = spec.constants.size() > 1 && spec.constants[1] != nullptr;
  return p;
}

// What a choice hangs on.
std::string key_of(const ConvolutionProblem& p) {
  return str_cat(p.is_transposed ? "transposed convolution " : "convolution ", dtype_name(p.dtype),
                 " ", p.x, " ", p.w, " ", p.y, " strides ", p.strides, " dilations ", p.dilations,
                 " pads ", p.before, " ", p.after, " group ", p.group, p.has_bias ? " bias" : "",
                 p.has_constant_weights ? " constant" : "");
}

// Few products an output, such as a depthwise one's: cuDNN is not sure to be faster.
bool is_thin(const ConvolutionProblem& p) {
  const std::int64_t products = element_count(p.w) / std::max<std::int64_t>(p.w[0], 1);
  return p.group > 1 && products <= 64;
}

KernelResult make_convolution(const KernelSpec& spec, RankContext& context) {
  const DType dtype = spec.inputs[0].dtype;
  if (!is_floating(dtype) && dtype != DType::kInt32) {
    return invalid_argument("no convolution of ", dtype_name(dtype));
  }
  const ConvolutionProblem problem = read_convolution(spec);
  const std::string key = key_of(problem);
  const std::string known = context.tuner != nullptr ? context.tuner->known(key) : "";
  std::vector<std::unique_ptr<Convolution>> ways;
  // Only what is known to be fastest is built, or all where the library has it no more.
  for (const std::string& name : {known, std::string()}) {
    if (!ways.empty() || known == "ours") break;
    TUTTI_ASSIGN_OR_RETURN(ways, make_cudnn_convolutions(problem, name, context));
  }
  if (ways.empty() || is_thin(problem)) {
    TUTTI_ASSIGN_OR_RETURN(auto plain, make_plain_convolution(problem, context));
    ways.push_back(std::move(plain));
  }
  FastestOf<Convolution> fastest(std::move(ways), key, context.tuner, context.stream);
  const std::size_t workspace = fastest.workspace_bytes();
  return make_lambda_kernel(
      [fastest = std::move(fastest)](const KernelArgs& args) mutable {
        return fastest.run(ConvolutionAddresses{args.inputs[0], args.inputs[1],
                                                optional_input(args, 2), args.outputs[0],
                                                args.workspace});
      },
      workspace);
}

}  // namespace

void register_conv_kernels(KernelTable* table) {
  table->add("Conv", make_convolution);
  table->add("ConvTranspose", make_convolution);
}

}  // namespace tutti::cuda
