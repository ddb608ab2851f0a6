// The core operator Resize, which names only the axes that change, and ONNX's Resize.
#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/conv.h"

namespace tutti {
namespace {

Status check_one_of(std::string_view name, const std::string& value,
                    std::initializer_list<std::string_view> allowed) {
  std::string list;
  for (const std::string_view one : allowed) {
    if (value == one) return {};
    list = str_cat(list, list.empty() ? "" : ", ", one);
  }
  return unimplemented("attribute '", name, "' is '", value, "'; expected one of ", list);
}

Result<std::vector<TensorType>> infer_resize(const Node& node, int /*num_outputs*/) {
  const Value& x = *node.input(0);
  const Axes axes = node.attr_ints("axes");
  const Shape sizes = node.attr_dims("sizes");
  const std::vector<double> scales = node.attr_floats("scales");
  TUTTI_RETURN_IF_ERROR(check_axes(axes, x.rank()));
  if (sizes.size() != axes.size() || (!scales.empty() && scales.size() != axes.size())) {
    return invalid_argument("attributes 'axes' ", axes, ", 'sizes' ", sizes, " and 'scales' ",
                            scales, " differ in length");
  }
  for (const double scale : scales) {
    if (!(scale > 0))
      return invalid_argument("attribute 'scales' is ", scales, "; expected positive numbers");
  }
  if (x.dtype() == DType::kBool || x.dtype() == DType::kString) {
    return invalid_argument("input is ", x.type(), "; expected numbers");
  }
  const std::string mode = node.attr_string("mode", "nearest");
  TUTTI_RETURN_IF_ERROR(check_one_of("mode", mode, {"nearest", "linear", "cubic"}));
  TUTTI_RETURN_IF_ERROR(check_one_of(
      "coordinate_transformation_mode",
      node.attr_string("coordinate_transformation_mode", "half_pixel"),
      {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}));
  TUTTI_RETURN_IF_ERROR(check_one_of("nearest_mode",
                                     node.attr_string("nearest_mode", "round_prefer_floor"),
                                     {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  Shape shape = x.shape();
  for (std::size_t i = 0; i < axes.size(); ++i) shape[static_cast<std::size_t>(axes[i])] = sizes[i];
  return one_type(x.dtype(), std::move(shape));
}

FactorMap resize_factors(const Node& node) {
  return along_axes_factors(node, node.attr_ints("axes"));
}

// floor(size * scale); a symbolic size needs a scale that is a small fraction.
Result<Dim> scaled_size(const Dim& size, double scale) {
  if (size.is_constant()) {
    return Dim(static_cast<std::int64_t>(std::floor(static_cast<double>(size.constant()) * scale)));
  }
  for (std::int64_t denominator = 1; denominator <= 64; ++denominator) {
    const double numerator = scale * static_cast<double>(denominator);
    const double rounded = std::round(numerator);
    if (rounded >= 1 && std::abs(numerator - rounded) < 1e-6 * rounded) {
      return floor_div(size * Dim(static_cast<std::int64_t>(rounded)), Dim(denominator));
    }
  }
  return invalid_argument("scale ", scale, " of the symbolic size ", size,
                          " is no fraction with a small denominator; use sizes");
}

// `sizes` fitted into one scale for all axes.
Status keep_aspect_ratio(const Value& x, const Axes& axes, const std::string& policy, Shape* sizes,
                         std::vector<double>* scales) {
  const bool is_larger = policy == "not_smaller";
  double scale = is_larger ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Dim& size = x.shape()[static_cast<std::size_t>(axes[i])];
    if (!size.is_constant() || !(*sizes)[i].is_constant() || size.constant() == 0) {
      return invalid_argument(
          "attribute 'keep_aspect_ratio_policy' needs constant sizes; input 0 is ", x.type(),
          ", sizes are ", *sizes);
    }
    const double one =
        static_cast<double>((*sizes)[i].constant()) / static_cast<double>(size.constant());
    scale = is_larger ? std::max(scale, one) : std::min(scale, one);
  }
  scales->assign(axes.size(), scale);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto size = static_cast<double>(x.shape()[static_cast<std::size_t>(axes[i])].constant());
    (*sizes)[i] = Dim(static_cast<std::int64_t>(std::floor(size * scale + 0.5)));
  }
  return {};
}

Status lower_resize(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, 1));
  const Value& x = *c.input(0);
  Axes axes;
  if (c.has("axes")) {
    TUTTI_ASSIGN_OR_RETURN(axes, normalized_axes(c.attr_ints("axes"), x.rank()));
  } else {
    for (std::size_t d = 0; d < x.rank(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  }
  const std::string transformation = c.attr_string("coordinate_transformation_mode", "half_pixel");
  if (transformation == "tf_crop_and_resize") {
    return unimplemented(
        "attribute 'coordinate_transformation_mode' is tf_crop_and_resize (regions of "
        "interest); expected half_pixel, align_corners or asymmetric");
  }
  Shape sizes;
  std::vector<double> scales;
  // An empty tensor stands for an absent input.
  const auto is_given = [&](std::size_t i) {
    return c.input(i) != nullptr && !(c.input(i)->rank() == 1 && c.input(i)->shape()[0].is(0));
  };
  if (is_given(3)) {
    TUTTI_ASSIGN_OR_RETURN(sizes, c.known_sizes(3));
    if (sizes.size() != axes.size()) {
      return invalid_argument("input 3 (sizes) is ", sizes, "; expected ", axes.size(), " numbers");
    }
    const std::string policy = c.attr_string("keep_aspect_ratio_policy", "stretch");
    TUTTI_RETURN_IF_ERROR(
        check_one_of("keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"}));
    if (policy != "stretch")
      TUTTI_RETURN_IF_ERROR(keep_aspect_ratio(x, axes, policy, &sizes, &scales));
  } else if (is_given(2)) {
    TUTTI_ASSIGN_OR_RETURN(scales, c.known_floats(2));
    if (scales.size() != axes.size()) {
      return invalid_argument("input 2 (scales) is ", scales, "; expected ", axes.size(),
                              " numbers");
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (!(scales[i] > 0))
        return invalid_argument("input 2 (scales) is ", scales, "; expected positive numbers");
      TUTTI_ASSIGN_OR_RETURN(Dim size,
                             scaled_size(x.shape()[static_cast<std::size_t>(axes[i])], scales[i]));
      sizes.push_back(std::move(size));
    }
  } else {
    return invalid_argument("neither input 2 (scales) nor input 3 (sizes) is given");
  }
  // Axes that keep their size and scale are no business of the kernel's.
  Axes kept_axes;
  Shape kept_sizes;
  std::vector<double> kept_scales;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool is_same = sizes[i] == x.shape()[static_cast<std::size_t>(axes[i])];
    if (is_same && (scales.empty() || scales[i] == 1.0)) continue;
    kept_axes.push_back(axes[i]);
    kept_sizes.push_back(sizes[i]);
    if (!scales.empty()) kept_scales.push_back(scales[i]);
  }
  if (kept_axes.empty()) return finish(c, c.input(0));
  AttributeMap attributes{{"axes", kept_axes},
                          {"sizes", kept_sizes},
                          {"scales", kept_scales},
                          {"mode", c.attr_string("mode", "nearest")},
                          {"coordinate_transformation_mode", transformation},
                          {"nearest_mode", c.attr_string("nearest_mode", "round_prefer_floor")},
                          {"cubic_coeff_a", c.attr_float("cubic_coeff_a", -0.75)},
                          {"exclude_outside", c.attr_int("exclude_outside", 0)},
                          {"antialias", c.attr_int("antialias", 0)}};
  return finish(c, c.b.op("Resize", {c.input(0)}, std::move(attributes)));
}

}  // namespace

void register_resize_ops(OpRegistry* ops, LoweringRegistry* lowerings) {
  ops->add({.type = "Resize",
            .domain = "ai.tutti",
            .attributes = {{"axes", AttributeKind::kInts, true},
                           {"sizes", AttributeKind::kDims, true},
                           {"scales", AttributeKind::kFloats},
                           {"mode", AttributeKind::kString},
                           {"coordinate_transformation_mode", AttributeKind::kString},
                           {"nearest_mode", AttributeKind::kString},
                           {"cubic_coeff_a", AttributeKind::kFloat},
                           {"exclude_outside", AttributeKind::kInt},
                           {"antialias", AttributeKind::kInt}},
            .infer = infer_resize,
            .factors = resize_factors});
  lowerings->add({.domain = "",
                  .op_type = "Resize",
                  .since_opset = 11,
                  .attributes = {"antialias", "axes", "coordinate_transformation_mode",
                                 "cubic_coeff_a", "exclude_outside", "extrapolation_value",
                                 "keep_aspect_ratio_policy", "mode", "nearest_mode"},
                  .lower = lower_resize});
}

}  // namespace tutti
