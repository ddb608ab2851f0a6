// ONNX's Einsum as transposes, sums and matrix products, operand by operand from the left.
//
// Every label of the equation becomes a number; the dimensions behind "..." get labels of their
// own, counted from the right, so that they broadcast as NumPy's do.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "ops/common.h"
#include "ops/product.h"

namespace tutti {
namespace {

using Labels = std::vector<int>;
constexpr int kEllipsis = -1;              // in a parsed term
constexpr int kFirstEllipsisLabel = 1000;  // + distance from the right

struct Term {
  Value* value = nullptr;
  Labels labels;  // one a dimension
};

bool holds(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

Result<Labels> parse_term(std::string_view text) {
  Labels labels;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      labels.push_back(text[i]);
    } else if (text.substr(i, 3) == "..." && !holds(labels, kEllipsis)) {
      labels.push_back(kEllipsis);
      i += 2;
    } else {
      return invalid_argument("attribute 'equation': term '", text, "' has '", text[i],
                              "' where a letter or one '...' was expected");
    }
  }
  return labels;
}

// Replaces the ellipsis by labels for `count` dimensions.
Labels expand_ellipsis(const Labels& labels, int count) {
  Labels out;
  for (const int label : labels) {
    if (label != kEllipsis) {
      out.push_back(label);
      continue;
    }
    for (int i = count; i > 0; --i) out.push_back(kFirstEllipsisLabel + i);
  }
  return out;
}

struct Equation {
  std::vector<Labels> terms;
  Labels output;
};

Result<Equation> parse_equation(const std::string& attribute, const LoweringContext& c) {
  std::string text;
  for (const char ch : attribute) {
    if (std::isspace(static_cast<unsigned char>(ch)) == 0) text.push_back(ch);
  }
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation out;
  for (std::size_t begin = 0; begin <= left.size();) {
    const std::size_t end = std::min(left.find(',', begin), left.size());
    TUTTI_ASSIGN_OR_RETURN(Labels term,
                           parse_term(std::string_view(left).substr(begin, end - begin)));
    out.terms.push_back(std::move(term));
    begin = end + 1;
  }
  if (out.terms.size() != c.num_inputs()) {
    return invalid_argument("attribute 'equation': '", attribute, "' has ", out.terms.size(),
                            " terms for ", c.num_inputs(), " inputs");
  }
  int ellipsis = 0;  // the most dimensions behind any "..."
  for (std::size_t i = 0; i < out.terms.size(); ++i) {
    const auto rank = static_cast<int>(c.input(i)->rank());
    const bool has_ellipsis = holds(out.terms[i], kEllipsis);
    const int count = rank - static_cast<int>(out.terms[i].size()) + (has_ellipsis ? 1 : 0);
    if (count < 0 || (!has_ellipsis && count != 0)) {
      return invalid_argument("attribute 'equation': term ", i, " of '", attribute,
                              "' does not fit input ", i, ", ", c.input(i)->type());
    }
    out.terms[i] = expand_ellipsis(out.terms[i], count);
    if (has_ellipsis) ellipsis = std::max(ellipsis, count);
  }
  if (arrow != std::string::npos) {
    TUTTI_ASSIGN_OR_RETURN(const Labels output,
                           parse_term(std::string_view(text).substr(arrow + 2)));
    out.output = expand_ellipsis(output, ellipsis);
  } else {
    // Implicit form: the ellipsis, then labels that occur once, in alphabetical order.
    std::map<int, int> counts;
    for (const Labels& term : out.terms) {
      for (const int label : term) ++counts[label];
    }
    out.output = expand_ellipsis({kEllipsis}, ellipsis);
    for (const auto& [label, count] : counts) {
      if (label < kFirstEllipsisLabel && count == 1) out.output.push_back(label);
    }
  }
  for (std::size_t i = 0; i < out.output.size(); ++i) {
    bool is_known = false;
    for (const Labels& term : out.terms) is_known |= holds(term, out.output[i]);
    if (!is_known || std::count(out.output.begin(), out.output.end(), out.output[i]) != 1) {
      return invalid_argument("attribute 'equation': output of '", attribute,
                              "' has a label twice or one that no input has");
    }
  }
  return out;
}

// "ii" becomes "i": the two axes go last and merge, then every (n + 1)-th element is kept.
Status take_diagonals(GraphBuilder& b, Term* term) {
  for (std::size_t i = 0; i < term->labels.size(); ++i) {
    for (std::size_t j = i + 1; j < term->labels.size(); ++j) {
      if (term->labels[i] != term->labels[j]) continue;
      const Shape shape = term->value->shape();
      if (!shape[i].is_constant() || shape[i] != shape[j]) {
        return unimplemented("diagonal of ", term->value->type(),
                             " needs two equal constant sizes");
      }
      const std::int64_t n = shape[i].constant();
      std::vector<std::int64_t> perm;
      Labels labels;
      Shape kept;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (d == i || d == j) continue;
        perm.push_back(static_cast<std::int64_t>(d));
        labels.push_back(term->labels[d]);
        kept.push_back(shape[d]);
      }
      labels.push_back(term->labels[i]);
      perm.insert(perm.end(), {static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)});
      kept.emplace_back(n * n);
      Value* flat = b.reshape(b.transpose(term->value, perm), kept);
      const auto last = static_cast<std::int64_t>(kept.size()) - 1;
      term->value = b.op("Slice", {flat},
                         {{"axes", std::vector<std::int64_t>{last}},
                          {"starts", Shape{Dim(0)}},
                          {"ends", Shape{Dim(n * n)}},
                          {"steps", std::vector<std::int64_t>{n + 1}}});
      term->labels = std::move(labels);
      TUTTI_RETURN_IF_ERROR(b.status());
      return take_diagonals(b, term);
    }
  }
  return {};
}

// Drops dimensions of size 1 whose label has another size elsewhere: they broadcast.
void squeeze_broadcasts(GraphBuilder& b, const std::map<int, Dim>& sizes, Term* term) {
  Shape shape;
  Labels labels;
  for (std::size_t d = 0; d < term->labels.size(); ++d) {
    if (term->value->shape()[d].is(1) && !sizes.at(term->labels[d]).is(1)) continue;
    shape.push_back(term->value->shape()[d]);
    labels.push_back(term->labels[d]);
  }
  if (labels.size() == term->labels.size()) return;
  term->value = b.reshape(term->value, std::move(shape));
  term->labels = std::move(labels);
}

// Sums over the labels that `needed` lacks.
void reduce_to(GraphBuilder& b, const Labels& needed, Term* term) {
  std::vector<std::int64_t> axes;
  Labels labels;
  for (std::size_t d = 0; d < term->labels.size(); ++d) {
    if (holds(needed, term->labels[d])) {
      labels.push_back(term->labels[d]);
    } else {
      axes.push_back(static_cast<std::int64_t>(d));
    }
  }
  if (axes.empty()) return;
  term->value = b.op("Reduce", {term->value},
                     {{"kind", std::string("sum")}, {"axes", axes}, {"keepdims", std::int64_t{0}}});
  term->labels = std::move(labels);
}

void transpose_to(GraphBuilder& b, const Labels& order, Term* term) {
  if (term->labels == order || term->value == nullptr) return;
  std::vector<std::int64_t> perm;
  for (const int label : order) {
    perm.push_back(std::find(term->labels.begin(), term->labels.end(), label) -
                   term->labels.begin());
  }
  term->value = b.transpose(term->value, std::move(perm));
  term->labels = order;
}

Shape sizes_of(const Labels& labels, const std::map<int, Dim>& sizes) {
  Shape out;
  for (const int label : labels) out.push_back(sizes.at(label));
  return out;
}

Shape joined(std::initializer_list<Shape> pieces) {
  Shape out;
  for (const Shape& piece : pieces) out.insert(out.end(), piece.begin(), piece.end());
  return out;
}

// One contraction; `needed` are the labels that the rest of the equation uses.
Term contract(GraphBuilder& b, Term x, Term y, const Labels& needed,
              const std::map<int, Dim>& sizes) {
  Labels x_needed = needed;
  x_needed.insert(x_needed.end(), y.labels.begin(), y.labels.end());
  Labels y_needed = needed;
  y_needed.insert(y_needed.end(), x.labels.begin(), x.labels.end());
  reduce_to(b, x_needed, &x);
  reduce_to(b, y_needed, &y);
  Labels batch;
  Labels rows;
  Labels inner;
  Labels columns;
  for (const int label : x.labels) {
    if (!holds(y.labels, label)) {
      rows.push_back(label);
    } else {
      (holds(needed, label) ? batch : inner).push_back(label);
    }
  }
  for (const int label : y.labels) {
    if (!holds(x.labels, label)) columns.push_back(label);
  }
  const auto order = [](std::initializer_list<Labels> pieces) {
    Labels out;
    for (const Labels& piece : pieces) out.insert(out.end(), piece.begin(), piece.end());
    return out;
  };
  const Labels out_labels = order({batch, rows, columns});
  if (x.value == nullptr || y.value == nullptr) return {nullptr, out_labels};
  const Shape batch_shape = sizes_of(batch, sizes);
  const Shape row_shape = sizes_of(rows, sizes);
  const Shape column_shape = sizes_of(columns, sizes);
  transpose_to(b, order({batch, rows, inner}), &x);
  if (inner.empty()) {
    transpose_to(b, order({batch, columns}), &y);
    x.value =
        reshape_to(b, x.value, joined({batch_shape, row_shape, Shape(columns.size(), Dim(1))}));
    y.value =
        reshape_to(b, y.value, joined({batch_shape, Shape(rows.size(), Dim(1)), column_shape}));
    return {b.op("Mul", {x.value, y.value}), out_labels};
  }
  transpose_to(b, order({batch, inner, columns}), &y);
  const Dim m = product(row_shape);
  const Dim k = product(sizes_of(inner, sizes));
  const Dim n = product(column_shape);
  x.value = reshape_to(b, x.value, joined({batch_shape, {m, k}}));
  y.value = reshape_to(b, y.value, joined({batch_shape, {k, n}}));
  Value* out = b.op("MatMul", {x.value, y.value});
  return {reshape_to(b, out, joined({batch_shape, row_shape, column_shape})), out_labels};
}

Status lower_einsum(LoweringContext& c) {
  TUTTI_RETURN_IF_ERROR(require_inputs(c, std::max<std::size_t>(c.num_inputs(), 1)));
  TUTTI_ASSIGN_OR_RETURN(const Equation equation, parse_equation(c.attr_string("equation", ""), c));
  std::vector<Term> terms;
  std::map<int, Dim> sizes;
  for (std::size_t i = 0; i < equation.terms.size(); ++i) {
    Term term{c.input(i), equation.terms[i]};
    TUTTI_RETURN_IF_ERROR(take_diagonals(c.b, &term));
    for (std::size_t d = 0; d < term.labels.size(); ++d) {
      const Dim& size = term.value->shape()[d];
      const auto [it, is_new] = sizes.emplace(term.labels[d], size);
      if (is_new || size.is(1)) continue;
      if (it->second.is(1)) it->second = size;
      if (surely_differ(it->second, size)) {
        return invalid_argument("input ", i, " is ", term.value->type(), ": dimension ", d,
                                " should be ", it->second);
      }
    }
    terms.push_back(std::move(term));
  }
  for (Term& term : terms) squeeze_broadcasts(c.b, sizes, &term);
  TUTTI_RETURN_IF_ERROR(c.b.status());
  Term result = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    Labels needed = equation.output;
    for (std::size_t j = i + 1; j < terms.size(); ++j) {
      needed.insert(needed.end(), terms[j].labels.begin(), terms[j].labels.end());
    }
    result = contract(c.b, std::move(result), terms[i], needed, sizes);
    TUTTI_RETURN_IF_ERROR(c.b.status());
  }
  reduce_to(c.b, equation.output, &result);
  transpose_to(c.b, equation.output, &result);
  return finish(c, result.value);
}

}  // namespace

void register_einsum_lowering(LoweringRegistry* lowerings) {
  lowerings->add(
      {.domain = "", .op_type = "Einsum", .attributes = {"equation"}, .lower = lower_einsum});
}

}  // namespace tutti
