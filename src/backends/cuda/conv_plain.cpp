// Convolutions with a plain kernel.
#include "backends/cuda/conv.h"
#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/spatial.h"

namespace tutti::cuda {
namespace {

class PlainConvolution final : public Convolution {
 public:
  explicit PlainConvolution(GeneratedKernel kernel) : kernel_(std::move(kernel)) {}
  std::string name() const override { return "ours"; }
  Status run(const ConvolutionAddresses& at) override {
    return kernel_.run({at.x, at.w, at.bias, at.y});
  }

 private:
  GeneratedKernel kernel_;
};

}  // namespace

Result<std::unique_ptr<Convolution>> make_plain_convolution(const ConvolutionProblem& problem,
                                                            RankContext& context) {
  const ConvolutionProblem& p = problem;
  const std::size_t rank = p.x.size() - 2;
  const auto space = [&](const Dims& dims) {
    return spatial(Dims(dims.begin() + 2, dims.end()), rank, 1);
  };
  TUTTI_ASSIGN_OR_RETURN(const Spatial in, space(p.x));
  TUTTI_ASSIGN_OR_RETURN(const Spatial out, space(p.y));
  TUTTI_ASSIGN_OR_RETURN(const Spatial kernel_size, space(p.w));
  TUTTI_ASSIGN_OR_RETURN(const Spatial strides, spatial(p.strides, rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Spatial dilations, spatial(p.dilations, rank, 1));
  TUTTI_ASSIGN_OR_RETURN(const Spatial pads, spatial(p.before, rank, 0));
  const std::int64_t total = element_count(p.y);
  std::vector<std::int64_t> numbers = {total, p.y[1], p.x[1], p.group};
  for (std::size_t d = 0; d < 3; ++d) {
    numbers.insert(numbers.end(),
                   {in[d], out[d], kernel_size[d], strides[d], dilations[d], pads[d]});
  }
  KernelSource source;
  source.entry = p.is_transposed ? "conv_transpose" : "conv";
  source.files = {"conv.cuh"};
  define_index(needs_wide_index({total}), &source);
  source.defines.emplace_back("T", type_name(p.dtype));
  source.defines.emplace_back("IS_TRANSPOSED", p.is_transposed ? "1" : "0");
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel,
                         GeneratedKernel::create(context, std::move(source), 4, std::move(numbers),
                                                 grid_for(context, total)));
  return std::unique_ptr<Convolution>(std::make_unique<PlainConvolution>(std::move(kernel)));
}

}  // namespace tutti::cuda
