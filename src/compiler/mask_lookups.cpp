// A rank that holds some rows of an embedding table looks up the tokens that are among them and
// takes zeros for all others; one all-reduce then adds up the ranks' results. As
// VocabParallelEmbedding of Megatron-LM (https://arxiv.org/abs/1909.08053).
#include "compiler/match.h"
#include "compiler/passes.h"

namespace tutti {
namespace {

class LookupWriter {
 public:
  LookupWriter(const Node& gather, GraphBuilder& b, GraphBuilder& unfolded)
      : table_(gather.input(0)),
        indices_(gather.input(1)),
        axis_(gather.attr_int("axis")),
        rows_(gather.attr_dims("rows")[0]),
        first_(gather.attr_dims("first_row")[0]),
        b_(b),
        unfolded_(unfolded) {}

  Value* write() {
    const Dim& held = table_->shape()[static_cast<std::size_t>(axis_)];
    // Counted from the end where negative.
    Value* is_negative = b_.op("Less", {indices_, number(0)});
    Value* index = b_.op("Where", {is_negative, b_.op("Add", {indices_, number(rows_)}), indices_});
    Value* at = b_.op("Sub", {index, number(first_)});
    Value* is_here = b_.op("And", {both(at, 0, held), is_known()});
    Value* safe = b_.op("Where", {is_here, at, number(0)});
    Value* found = b_.op("Gather", {table_, safe}, {{"axis", axis_}});
    if (found == nullptr) return nullptr;
    Value* zero = b_.scalar(found->dtype(), 0);
    return b_.op("Where", {as_mask(is_here, *found), found, zero});
  }

 private:
  // True for every index of the whole table. Looked up, too, so that any other one fails as it does
  // on one rank: with the index that was given and the range of all rows.
  Value* is_known() {
    Value* all = unfolded_.expand(unfolded_.scalar(DType::kBool, 1), {rows_});
    return b_.op("Gather", {all, indices_}, {{"axis", std::int64_t{0}}});
  }

  Value* number(const Dim& value) {
    Value* sizes = b_.sizes({value});
    if (sizes == nullptr) return nullptr;
    return b_.cast(b_.reshape(sizes, {}), indices_->dtype());
  }

  // low <= index < high
  Value* both(Value* index, const Dim& low, const Dim& high) {
    return b_.op("And", {b_.op("GreaterOrEqual", {index, number(low)}),
                         b_.op("Less", {index, number(high)})});
  }

  // One element for each row that was found.
  Value* as_mask(Value* is_here, const Value& found) {
    if (is_here == nullptr) return nullptr;
    Shape shape = is_here->shape();
    shape.resize(found.rank() - static_cast<std::size_t>(axis_), Dim(1));
    return b_.reshape(is_here, std::move(shape));
  }

  Value* table_;
  Value* indices_;
  const std::int64_t axis_;
  const Dim rows_;   // of the whole table
  const Dim first_;  // that this rank holds
  GraphBuilder& b_;
  GraphBuilder& unfolded_;  // a table of trues is no weight
};

}  // namespace

Status mask_lookups(Graph& graph, const CompileOptions& options) {
  GraphBuilder b(&graph, options.registry, options.evaluator);
  GraphBuilder unfolded(&graph, options.registry);
  for (const auto& owned : graph.nodes()) {
    Node* node = owned.get();
    if (node->type() != "Gather" || node->attr_dims("first_row").empty()) continue;
    b.set_insertion_point(node);
    b.set_name(node->name());
    unfolded.set_insertion_point(node);
    unfolded.set_name(node->name());
    Value* y = LookupWriter(*node, b, unfolded).write();
    TUTTI_RETURN_IF_ERROR(unfolded.take_status());
    TUTTI_RETURN_IF_ERROR(b.take_status());
    replace_value(graph, node->output(), y);
  }
  graph.remove_dead();
  return {};
}

}  // namespace tutti
