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
  const Axes crop = node.attr_ints("crop");
  if (!crop.empty() && (crop.size() != axes.size() || scales.empty())) {
    return invalid_argument("attribute 'crop' is ", crop, "; expected as many numbers as 'axes' ",
                            axes, ", and 'scales'");
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

// The input rows that outputs [0, factor) of an axis read when it grows `factor` times, were there
// rows on both sides of row 0: [first, first + extent).
struct Reach {
  std::int64_t first = 0;
  std::int64_t extent = 1;
};

// nullopt where reading depends on the sizes, or weights on the edges.
std::optional<Reach> reach_of_growth(const Node& node, std::int64_t factor) {
  const std::string mode = node.attr_string("mode", "nearest");
  const std::string transformation =
      node.attr_string("coordinate_transformation_mode", "half_pixel");
  const std::string rounding = node.attr_string("nearest_mode", "round_prefer_floor");
  if (transformation == "align_corners") return std::nullopt;
  if (mode != "nearest" && node.attr_int("exclude_outside") != 0) return std::nullopt;
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::int64_t x = 0; x < factor; ++x) {
    // In halves of output rows, so that positions between two input rows are exact.
    const std::int64_t twice = transformation == "asymmetric" ? 2 * x : 2 * x + 1 - factor;
    const std::int64_t unit = 2 * factor;
    const std::int64_t below = twice >= 0 ? twice / unit : -1;  // twice > -unit
    const std::int64_t rest = twice - below * unit;
    std::int64_t low = below;
    std::int64_t high = rest == 0 ? below : below + 1;
    if (mode == "nearest") {
      bool is_right = rest > factor;
      if (rounding == "round_prefer_ceil") is_right = rest >= factor;
      if (rounding == "floor") is_right = false;
      if (rounding == "ceil") is_right = rest > 0;
      low = high = below + (is_right ? 1 : 0);
    } else if (mode == "cubic") {
      low = below - 1;
      high = below + 2;
    }
    first = std::min(first, low);
    last = std::max(last, high);
  }
  return Reach{first, last - first + 1};
}

// How often axis i grows, where that is a whole number.
std::optional<std::int64_t> growth(const Node& node, std::size_t i) {
  const Dim& in = node.input(0)->shape()[static_cast<std::size_t>(node.attr_ints("axes")[i])];
  const std::optional<Dim> factor =
      in.is(0) ? std::nullopt : exact_div(node.attr_dims("sizes")[i], in);
  if (!factor || !factor->is_constant() || factor->constant() < 1) return std::nullopt;
  const std::vector<double> scales = node.attr_floats("scales");
  if (!scales.empty() && scales[i] != static_cast<double>(factor->constant())) return std::nullopt;
  return factor->constant();
}

FactorMap resize_factors(const Node& node) {
  const Axes axes = node.attr_ints("axes");
  FactorMap map = along_axes_factors(node, axes);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!growth(node, i)) return map;  // a piece has to spell out all scales
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    const std::int64_t factor = *growth(node, i);
    const auto reach = reach_of_growth(node, factor);
    if (!reach) continue;
    add_window_factors(&map, d, node.input(0)->shape()[d], node.output()->shape()[d],
                       {1, Dim(reach->first), reach->extent, WindowEdge::kEdge}, factor);
  }
  return map;
}

// A piece grows the rows that come with its windows and drops what these make at its front.
AttributeMap resize_piece_attributes(const Node& node, const NodePiece& piece) {
  AttributeMap attributes = node.attributes();
  const Axes axes = node.attr_ints("axes");
  Shape sizes;
  std::vector<double> scales;
  Axes crop;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    sizes.push_back(piece.output[d]);
    const auto factor = growth(node, i);
    if (factor) scales.push_back(static_cast<double>(*factor));
    const auto reach = factor ? reach_of_growth(node, *factor) : std::nullopt;
    crop.push_back(reach && piece.is_windowed[d] ? -reach->first * *factor : 0);
  }
  attributes["sizes"] = std::move(sizes);
  if (scales.size() == axes.size()) attributes["scales"] = std::move(scales);
  const bool is_cropped =
      std::any_of(crop.begin(), crop.end(), [](std::int64_t rows) { return rows != 0; });
  if (is_cropped) attributes["crop"] = std::move(crop);
  return attributes;
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
                           {"antialias", AttributeKind::kInt},
                           {"crop", AttributeKind::kInts}},
            .infer = infer_resize,
            .factors = resize_factors,
            .piece_attributes = resize_piece_attributes});
  lowerings->add({.domain = "",
                  .op_type = "Resize",
                  .since_opset = 11,
                  .attributes = {"antialias", "axes", "coordinate_transformation_mode",
                                 "cubic_coeff_a", "exclude_outside", "extrapolation_value",
                                 "keep_aspect_ratio_policy", "mode", "nearest_mode"},
                  .lower = lower_resize});
}

}  // namespace tutti
