// Between the files of the data movement family.
#pragma once

#include "ops/common.h"

namespace tutti {

void register_shape_ops(OpRegistry* ops, LoweringRegistry* lowerings);    // Reshape, Transpose, ...
void register_slice_ops(OpRegistry* ops, LoweringRegistry* lowerings);    // Slice, Concat, Pad, ...
void register_gather_ops(OpRegistry* ops, LoweringRegistry* lowerings);   // Gather*
void register_scatter_ops(OpRegistry* ops, LoweringRegistry* lowerings);  // Scatter*
void register_generate_ops(OpRegistry* ops, LoweringRegistry* lowerings);  // Fill, Iota, ...
void register_scan_ops(OpRegistry* ops, LoweringRegistry* lowerings);      // CumSum, TopK, ...
void register_constant_only_ops(LoweringRegistry* lowerings);              // NonZero, Unique, ...

// The factors of a reshape: both shapes cut into common pieces, major to minor. What has no common
// pieces is whole.
FactorMap reshape_factors(const Shape& from, const Shape& to);

// A start or end of a slice with step > 0 in [0, size], after ONNX's rules for negative and huge
// numbers. Where symbols leave it open, a size that the model writes is taken to be in range; the
// kernel checks when sizes are bound.
Dim slice_start(const Dim& start, const Dim& size);
Dim slice_end(const Dim& end, const Dim& size);

void add_lowering(LoweringRegistry* lowerings, std::string_view type,
                  Status (*rule)(LoweringContext&), std::vector<std::string> attributes = {});

// Adds a part of a sum, alone in `dim` (null: in no operand). Parts of size 1 have a factor, too,
// since a sum lists all of its parts.
int add_part(FactorMap* map, const std::string& name, const Dim& size, std::vector<int>* dim);

// Layout rules of Slice and Pad, and what is left to a piece that comes with the rows it needs.
FactorMap slice_factors(const Node& node);
AttributeMap slice_piece_attributes(const Node& node, const NodePiece& piece);
FactorMap pad_factors(const Node& node);
AttributeMap pad_piece_attributes(const Node& node, const NodePiece& piece);

}  // namespace tutti
