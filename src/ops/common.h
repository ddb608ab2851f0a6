// What the operator families share: checks for infer functions, frequent layout rules, and the
// small steps of lowerings.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "ops/lowering.h"

namespace tutti {

using Axes = std::vector<std::int64_t>;

// --- Types and shapes -------------------------------------------------------------------------

// The result of an infer function with one output.
std::vector<TensorType> one_type(DType dtype, Shape shape);
std::vector<TensorType> same_type_as(const Value& value);

// NumPy's broadcasting. Equal sizes, or 1 against anything. A symbol against a number other than 1
// is taken for that number; two sizes that cannot be shown equal are an error that names both.
Result<Shape> broadcast_shapes(const Shape& a, const Shape& b);

Shape without_axes(const Shape& shape, const Axes& axes);  // axes in [0, rank)
bool contains(const Axes& axes, std::int64_t axis);

// Axis in [0, rank), or an error that names it.
Status check_axis(std::int64_t axis, std::size_t rank);
// All in [0, rank), no duplicates.
Status check_axes(const Axes& axes, std::size_t rank);
// All inputs that are present have the first one's dtype.
Status check_same_dtypes(const Node& node);
Status check_floating(const Value& value, std::string_view what);
Status check_integers(const Value& value, std::string_view what);  // i32 or i64
// The graph in attribute "body" has an input of the operand's type for each operand (of scalars:
// one of its elements), and so many outputs.
Status check_body(const Node& node, int num_outputs, bool is_of_scalars);
// Both constant and different; sizes that may be equal pass.
bool surely_differ(const Dim& a, const Dim& b);

// --- Layout rules -----------------------------------------------------------------------------

// "d0", "d1", ...: the usual factor names, by dimension of the output.
std::string factor_name(std::size_t dimension);

// A map with the right number of empty dimensions for every operand of the node.
FactorMap empty_factors(const Node& node);

// One factor for each dimension of `shape` that is not 1 (kWhole for `whole` axes, parallel
// otherwise), as a row for an operand of that shape.
DimFactors add_factors(FactorMap* map, const Shape& shape, const Axes& whole = {});

// Operands that broadcast to output 0: a dimension of size 1 has no factor, one that may be 1 or
// not makes its factor whole.
FactorMap broadcast_factors(const Node& node);

// Input 0 and all outputs of the same rank have one parallel factor a dimension, `whole` axes are
// kWhole. Other inputs have no factors. Dimensions of `whole` axes may differ in size.
FactorMap along_axes_factors(const Node& node, const Axes& whole);

// --- Lowerings --------------------------------------------------------------------------------

// Inputs [0, count) are present.
Status require_inputs(const LoweringContext& context, std::size_t count);

// Sets output 0 and returns the builder's status.
Status finish(LoweringContext& context, Value* result);

// Attribute `name` as an axis of a tensor of that rank, in [0, rank).
Result<std::int64_t> axis_attribute(const LoweringContext& context, std::string_view name,
                                    std::int64_t fallback, std::size_t rank);
Result<Axes> normalized_axes(const Axes& axes, std::size_t rank);
// Axes from attribute `name` or else from input `i` (constant); empty when both are absent.
Result<Axes> axes_from(const LoweringContext& context, std::string_view name, std::size_t i,
                       std::size_t rank);

// A scalar of the value's dtype, to be combined with it.
Value* scalar_like(LoweringContext& context, const Value* value, double number);

// Reshape that leaves a value of that shape alone.
Value* reshape_to(GraphBuilder& b, Value* value, const Shape& shape);

}  // namespace tutti
