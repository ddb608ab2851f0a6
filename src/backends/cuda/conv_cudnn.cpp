// Convolutions through cuDNN: as the tensors lie, or with the channels last inside.
#include <algorithm>
#include <optional>

#include "backends/cuda/conv.h"
#include "backends/cuda/cudnn.h"
#include "backends/cuda/generated_kernel.h"
#include "backends/cuda/workspace.h"

namespace tutti::cuda {
namespace {

// What is done around the library's convolution.
struct Recipe {
  bool is_channels_last = false;
  bool has_fused_bias = false;

  std::string prefix() const {
    return str_cat(is_channels_last ? "channels last, " : "channels first, ",
                   has_fused_bias ? "bias fused, " : "");
  }
};

// With at least two spatial dimensions.
Dims planar(Dims dims) {
  if (dims.size() == 3) dims.insert(dims.begin() + 2, 1);
  return dims;
}
Dims planar_window(Dims values, std::int64_t unit) {
  if (values.size() == 1) values.insert(values.begin(), unit);
  return values;
}

CudnnConvolution describe(const ConvolutionProblem& p, const Recipe& recipe) {
  CudnnConvolution c;
  c.dtype = p.dtype;
  c.is_transposed = p.is_transposed;
  c.is_channels_last = recipe.is_channels_last;
  c.has_bias = recipe.has_fused_bias;
  c.x = planar(p.x);
  c.w = planar(p.w);
  c.y = planar(p.y);
  c.strides = planar_window(p.strides, 1);
  c.dilations = planar_window(p.dilations, 1);
  c.before = planar_window(p.before, 0);
  c.after = planar_window(p.after, 0);
  return c;
}

std::size_t bytes_of(DType dtype, const Dims& dims) {
  return static_cast<std::size_t>(element_count(dims)) * dtype_size(dtype);
}

std::int64_t space_of(const Dims& dims) {
  std::int64_t space = 1;
  for (std::size_t d = 2; d < dims.size(); ++d) space *= dims[d];
  return space;
}

// [batch, rows, columns] to [batch, columns, rows].
Result<GeneratedKernel> make_turn(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                                  DType dtype, RankContext& context) {
  const std::int64_t row_tiles = (rows + 31) / 32;
  const std::int64_t column_tiles = (columns + 31) / 32;
  KernelSource source;
  source.entry = "conv_layout";
  source.files = {"conv_layout.cuh"};
  source.defines.emplace_back("T", type_name(dtype));
  Grid grid;
  grid.blocks = batch * row_tiles * column_tiles;
  return GeneratedKernel::create(context, std::move(source), 3,
                                 {rows, columns, row_tiles, column_tiles}, grid);
}

Result<GeneratedKernel> make_bias(const ConvolutionProblem& p, RankContext& context) {
  const std::int64_t total = element_count(p.y);
  const bool is_wide = needs_wide_index({total});
  KernelSource source;
  source.entry = "conv_bias";
  source.files = {"conv_bias.cuh"};
  define_index(is_wide, &source);
  source.defines.emplace_back("T", type_name(p.dtype));
  return GeneratedKernel::create(
      context, std::move(source), 2,
      {total, divisor_word(space_of(p.y), is_wide), divisor_word(p.y[1], is_wide), p.y[1]},
      grid_for(context, total));
}

// Weights with the channels last: made once where they are constant.
class TurnedWeights {
 public:
  static Result<std::shared_ptr<TurnedWeights>> create(const ConvolutionProblem& p,
                                                       RankContext& context) {
    auto made = std::shared_ptr<TurnedWeights>(new TurnedWeights);
    TUTTI_ASSIGN_OR_RETURN(GeneratedKernel turn,
                           make_turn(p.w[0], p.w[1], space_of(p.w), p.dtype, context));
    made->turn_.push_back(std::move(turn));
    if (p.has_constant_weights && !context.is_dry) {
      TUTTI_ASSIGN_OR_RETURN(made->kept_,
                             DeviceMemory::allocate(context.device, bytes_of(p.dtype, p.w)));
    }
    return made;
  }

  bool are_kept() const { return kept_ != nullptr; }
  // Where they are, given `place` for those that are not kept.
  Result<void*> get(const void* w, void* place) {
    if (kept_ == nullptr) {
      TUTTI_RETURN_IF_ERROR(turn_[0].run({w, place, nullptr}));
      return place;
    }
    if (!is_made_) TUTTI_RETURN_IF_ERROR(turn_[0].run({w, kept_->data(), nullptr}));
    is_made_ = true;
    return kept_->data();
  }

 private:
  TurnedWeights() = default;
  std::vector<GeneratedKernel> turn_;
  std::unique_ptr<DeviceMemory> kept_;
  bool is_made_ = false;
};

// The kernels that a recipe needs; what none needs is absent.
struct Steps {
  std::optional<GeneratedKernel> turn_x, turn_y, bias;
  std::shared_ptr<TurnedWeights> weights;
};

Result<Steps> make_steps(const ConvolutionProblem& p, const Recipe& recipe,
                         std::shared_ptr<TurnedWeights> weights, RankContext& context) {
  Steps steps;
  if (recipe.is_channels_last) {
    TUTTI_ASSIGN_OR_RETURN(steps.turn_x,
                           make_turn(p.x[0], p.x[1], space_of(p.x), p.dtype, context));
    TUTTI_ASSIGN_OR_RETURN(steps.turn_y,
                           make_turn(p.y[0], space_of(p.y), p.y[1], p.dtype, context));
    steps.weights = std::move(weights);
  } else if (p.has_bias && !recipe.has_fused_bias) {
    TUTTI_ASSIGN_OR_RETURN(steps.bias, make_bias(p, context));
  }
  return steps;
}

class CudnnConvolutionWay final : public Convolution {
 public:
  CudnnConvolutionWay(const ConvolutionProblem& p, const Recipe& recipe,
                      std::shared_ptr<CudnnPlan> plan, Steps steps, cudnnContext* handle)
      : recipe_(recipe),
        plan_(std::move(plan)),
        steps_(std::move(steps)),
        handle_(handle),
        has_bias_(p.has_bias) {
    const bool is_last = recipe.is_channels_last;
    x_at_ = aligned(plan_->workspace_bytes());
    y_at_ = x_at_ + (is_last ? aligned(bytes_of(p.dtype, p.x)) : 0);
    w_at_ = y_at_ + (is_last ? aligned(bytes_of(p.dtype, p.y)) : 0);
    const bool is_turned_here = is_last && !steps_.weights->are_kept();
    end_ = w_at_ + (is_turned_here ? aligned(bytes_of(p.dtype, p.w)) : 0);
  }
  std::string name() const override { return recipe_.prefix() + plan_->name(); }
  std::size_t workspace_bytes() const override { return end_; }

  Status run(const ConvolutionAddresses& at) override {
    auto* const workspace = static_cast<std::byte*>(at.workspace);
    std::array<void*, 4> to{};
    to[CudnnConvolution::kX] = const_cast<void*>(at.x);
    to[CudnnConvolution::kW] = const_cast<void*>(at.w);
    to[CudnnConvolution::kY] = at.y;
    if (recipe_.has_fused_bias) to[CudnnConvolution::kBias] = const_cast<void*>(at.bias);
    if (recipe_.is_channels_last) {
      TUTTI_RETURN_IF_ERROR(steps_.turn_x->run({at.x, workspace + x_at_, nullptr}));
      TUTTI_ASSIGN_OR_RETURN(to[CudnnConvolution::kW],
                             steps_.weights->get(at.w, workspace + w_at_));
      to[CudnnConvolution::kX] = workspace + x_at_;
      to[CudnnConvolution::kY] = workspace + y_at_;
    }
    TUTTI_RETURN_IF_ERROR(plan_->run(handle_, to, workspace));
    if (recipe_.is_channels_last) {
      const void* bias = has_bias_ && !recipe_.has_fused_bias ? at.bias : nullptr;
      return steps_.turn_y->run({workspace + y_at_, at.y, bias});
    }
    return steps_.bias ? steps_.bias->run({at.y, at.bias}) : Status();
  }

 private:
  Recipe recipe_;
  std::shared_ptr<CudnnPlan> plan_;
  Steps steps_;
  cudnnContext* handle_;
  bool has_bias_;
  std::size_t x_at_ = 0;
  std::size_t y_at_ = 0;
  std::size_t w_at_ = 0;
  std::size_t end_ = 0;
};

bool takes(const ConvolutionProblem& p) {
  const bool has_type =
      p.dtype == DType::kFloat32 || p.dtype == DType::kFloat16 || p.dtype == DType::kBFloat16;
  const auto is_negative = [](std::int64_t pad) { return pad < 0; };
  return has_type && element_count(p.x) > 0 && element_count(p.w) > 0 && element_count(p.y) > 0 &&
         std::none_of(p.before.begin(), p.before.end(), is_negative) &&
         std::none_of(p.after.begin(), p.after.end(), is_negative);
}

using Ways = std::vector<std::unique_ptr<Convolution>>;

// Adds the ways of one recipe.
Status add_ways(const ConvolutionProblem& p, const Recipe& recipe, const std::string& only,
                std::shared_ptr<TurnedWeights>* weights, RankContext& context, Ways* ways) {
  const std::string prefix = recipe.prefix();
  if (!only.empty() && !only.starts_with(prefix)) return {};
  const CudnnConvolution c = describe(p, recipe);
  if (recipe.is_channels_last && *weights == nullptr) {
    TUTTI_ASSIGN_OR_RETURN(*weights, TurnedWeights::create(p, context));
  }
  if (context.is_dry) return make_steps(p, recipe, *weights, context).status();
  TUTTI_ASSIGN_OR_RETURN(cudnnContext* const handle, cudnn_handle(context));
  const std::string engine = only.empty() ? "" : only.substr(prefix.size());
  for (auto& plan : context.cudnn->convolution(c, engine)) {
    TUTTI_ASSIGN_OR_RETURN(Steps steps, make_steps(p, recipe, *weights, context));
    ways->push_back(std::make_unique<CudnnConvolutionWay>(p, recipe, std::move(plan),
                                                          std::move(steps), handle));
  }
  return {};
}

}  // namespace

Result<std::vector<std::unique_ptr<Convolution>>> make_cudnn_convolutions(
    const ConvolutionProblem& problem, const std::string& name, RankContext& context) {
  Ways ways;
  if (!takes(problem) || (context.cudnn == nullptr && !context.is_dry)) return ways;
  std::shared_ptr<TurnedWeights> weights;
  for (const bool is_last : {false, true}) {
    // In f32 the library has no fast engines for channels last, and a few of a second.
    if (is_last && problem.dtype == DType::kFloat32) continue;
    for (const bool is_fused : {true, false}) {
      if (is_fused && !problem.has_bias) continue;
      TUTTI_RETURN_IF_ERROR(add_ways(problem, {is_last, is_fused}, name, &weights, context, &ways));
    }
  }
  return ways;
}

}  // namespace tutti::cuda
