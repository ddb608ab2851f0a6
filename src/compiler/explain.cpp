#include "compiler/explain.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "compiler/cost.h"

namespace tutti {
namespace {

struct GraphPart {
  std::string_view title;
  const Graph* graph;
};

std::vector<GraphPart> parts_of(const CompiledModel& model) {
  std::vector<GraphPart> parts;
  if (model.prologue != nullptr) parts.push_back({"prologue", model.prologue.get()});
  parts.push_back({"main", model.main.get()});
  return parts;
}

std::string layout_text(const Value& value, const CompiledModel& model) {
  const auto it = model.layouts.find(value.name());
  if (it == model.layouts.end()) return value.type().to_string();
  return str_cat(dtype_name(value.dtype()), " ",
                 it->second.layout.to_string(it->second.global.shape, model.mesh));
}

double bytes_of_rank(const Dim& bytes, int rank, const CompiledModel& model,
                     const SymbolMap& sizes) {
  SymbolMap symbols = sizes;
  model.mesh.bind(rank, &symbols);
  return SizeEstimate(std::move(symbols))(bytes);
}

struct Spread {
  double largest = 0;  // over ranks
  double total = 0;
};

template <class F>
Spread over_ranks(const CompiledModel& model, F&& of_rank) {
  Spread spread;
  for (int rank = 0; rank < model.mesh.num_ranks(); ++rank) {
    const double value = of_rank(rank);
    spread.largest = std::max(spread.largest, value);
    spread.total += value;
  }
  return spread;
}

Spread sent(const ExchangeInfo& exchange, const CompiledModel& model, const SymbolMap& sizes) {
  return over_ranks(
      model, [&](int rank) { return bytes_of_rank(exchange.sent_bytes, rank, model, sizes); });
}

Spread flops(const Graph& graph, const CompiledModel& model, const SymbolMap& sizes) {
  return over_ranks(model, [&](int rank) {
    double sum = 0;
    for (const auto& [type, count] : flops_by_type(graph, model.mesh, rank, SizeEstimate(sizes))) {
      sum += count;
    }
    return sum;
  });
}

// FLOPs of nodes that every rank of the mesh does alike: what splitting does not make faster.
double replicated_flops(const Graph& graph, const CompiledModel& model, const SymbolMap& sizes) {
  const SizeEstimate size(sizes);
  double sum = 0;
  for (const auto& node : graph.nodes()) {
    const bool is_split =
        std::any_of(node->outputs().begin(), node->outputs().end(), [&](const Value* output) {
          const auto it = model.layouts.find(output->name());
          return it != model.layouts.end() && !it->second.layout.is_replicated();
        });
    if (!is_split && !node->op().is_exchange) sum += size(node_flops(*node));
  }
  return sum;
}

// "3*t bytes = "; nothing where it would fill lines, as halos of uneven pieces do.
std::string formula(const Dim& bytes) {
  constexpr std::size_t kMaxLength = 120;
  const std::string text = bytes.to_string();
  return text.size() > kMaxLength ? "at most " : str_cat(text, " bytes = ");
}

std::string sizes_text(const SymbolMap& sizes) {
  std::string text;
  for (const auto& [name, value] : sizes)
    text += str_cat(text.empty() ? "" : ", ", name, "=", value);
  return text.empty() ? "every symbol = 32" : text + ", other symbols = 32";
}

// "heads are exchanged: 12 kB by all ranks (gathering keys: 24 kB)".
std::string choice_text(const AttentionChoice& choice) {
  const std::string heads =
      choice.bytes_by_heads ? human(*choice.bytes_by_heads) + "B" : "heads run out";
  const std::string keys = human(choice.bytes_by_keys) + "B";
  if (choice.has_whole_keys) return "nothing moves, keys are whole on every rank";
  if (choice.way == "heads") {
    return str_cat("exchanges heads: ", heads, " by all ranks; gathering keys: ", keys);
  }
  if (choice.way == "keys") {
    return str_cat("gathers keys: ", keys, " by all ranks; exchanging heads: ", heads);
  }
  if (choice.way == "sequences") return "nothing moves, each rank has some of the sequences";
  const std::string_view done =
      choice.way == "whole" ? "every rank computes all of it" : "split in another way";
  return str_cat(done, "; exchanging heads: ", heads, ", gathering keys: ", keys);
}

}  // namespace

std::string human(double number) {
  static constexpr std::string_view kUnits[] = {"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  while (number >= 1000 && unit + 1 < std::size(kUnits)) {
    number /= 1000;
    ++unit;
  }
  const double step = number >= 100 || unit == 0 ? 1 : number >= 10 ? 10 : 100;
  return str_cat(std::round(number * step) / step, kUnits[unit]);
}

std::vector<ExchangeInfo> list_exchanges(const Graph& graph, bool in_prologue) {
  std::vector<ExchangeInfo> exchanges;
  for (const auto& node : graph.nodes()) {
    if (!node->op().is_exchange) continue;
    ExchangeInfo info;
    info.node = node->name();
    info.kind = node->type();
    info.axis = node->attr_string("axis");
    for (const Value* input : node->inputs()) {
      if (input != nullptr) info.values.push_back(input->name());  // a ring may have no mask
    }
    info.sent_bytes = exchange_sent_bytes(*node);
    info.in_prologue = in_prologue;
    exchanges.push_back(std::move(info));
  }
  return exchanges;
}

std::string explain_text(const CompiledModel& model, const SymbolMap& sizes) {
  const int ranks = model.mesh.num_ranks();
  std::string out =
      str_cat("mesh ", ranks == 1 ? std::string("of one rank") : model.mesh.to_string(), " (",
              ranks, ranks == 1 ? " rank" : " ranks", ")\n");
  for (const GlobalTensor& input : model.inputs) {
    const bool is_invariant =
        std::find(model.invariant_inputs.begin(), model.invariant_inputs.end(), input.name) !=
        model.invariant_inputs.end();
    out +=
        str_cat("input  ", input.name, ": ", input.type, is_invariant ? "  (invariant)" : "", "\n");
  }
  for (const GlobalTensor& output : model.outputs) {
    out += str_cat("output ", output.name, ": ", output.type, "\n");
  }
  std::size_t next = 0;
  for (const GraphPart& part : parts_of(model)) {
    out += str_cat("\n", part.title, ": ", part.graph->nodes().size(), " nodes\n");
    for (const auto& node : part.graph->nodes()) {
      for (const Value* output : node->outputs()) {
        out += str_cat("  ", output->name(), ": ", layout_text(*output, model), "  = ",
                       node->type(), "\n");
      }
      if (!node->op().is_exchange) continue;
      const ExchangeInfo& exchange = model.exchanges[next++];
      out += str_cat("    exchange ", exchange.kind, " along ", exchange.axis, " of ",
                     exchange.values, ": a rank sends ", formula(exchange.sent_bytes),
                     human(sent(exchange, model, sizes).largest), "B\n");
    }
  }
  if (!model.attentions.empty()) out += "\nattentions, with the bytes of either way\n";
  for (const AttentionChoice& choice : model.attentions) {
    out += str_cat("  ", choice.node, " along ", choice.axis, ": ", choice_text(choice), "\n");
  }
  out += str_cat("\ntotals for ", sizes_text(sizes), "\n");
  for (const GraphPart& part : parts_of(model)) {
    const bool in_prologue = part.title == "prologue";
    Spread bytes;
    int count = 0;
    for (const ExchangeInfo& exchange : model.exchanges) {
      if (exchange.in_prologue != in_prologue) continue;
      const Spread one = sent(exchange, model, sizes);
      bytes.largest += one.largest;
      bytes.total += one.total;
      ++count;
    }
    const Spread work = flops(*part.graph, model, sizes);
    out += str_cat("  ", part.title, ": ", count, " exchanges, ", human(bytes.largest),
                   "B sent by the busiest rank, ", human(bytes.total), "B by all; ",
                   human(work.largest), "FLOP at the busiest rank, ", human(work.total),
                   "FLOP at all, of which ",
                   human(ranks * replicated_flops(*part.graph, model, sizes)),
                   "FLOP are done alike on every rank\n");
  }
  for (std::size_t rank = 0; rank < model.memory.size(); ++rank) {
    const RankBytes& bytes = model.memory[rank];
    out += str_cat("  rank ", rank, ": ", human(bytes.weights), "B of weights, ",
                   human(bytes.activations), "B of activations, ", human(bytes.prologue),
                   "B of prologue results\n");
  }
  return out;
}

std::string explain_json(const CompiledModel& model, const SymbolMap& sizes) {
  using nlohmann::json;
  json out;
  out["mesh"] = model.mesh.to_string();
  out["ranks"] = model.mesh.num_ranks();
  out["invariant_inputs"] = model.invariant_inputs;
  const auto tensors = [](const std::vector<GlobalTensor>& list) {
    json array = json::array();
    for (const GlobalTensor& tensor : list) {
      array.push_back({{"name", tensor.name}, {"type", tensor.type.to_string()}});
    }
    return array;
  };
  out["inputs"] = tensors(model.inputs);
  out["outputs"] = tensors(model.outputs);
  out["memory"] = json::array();
  for (const RankBytes& bytes : model.memory) {
    out["memory"].push_back({{"weights", bytes.weights},
                             {"activations", bytes.activations},
                             {"prologue", bytes.prologue}});
  }
  out["exchanges"] = json::array();
  for (const ExchangeInfo& exchange : model.exchanges) {
    const Spread bytes = sent(exchange, model, sizes);
    out["exchanges"].push_back({{"graph", exchange.in_prologue ? "prologue" : "main"},
                                {"node", exchange.node},
                                {"kind", exchange.kind},
                                {"axis", exchange.axis},
                                {"values", exchange.values},
                                {"sent_bytes", exchange.sent_bytes.to_string()},
                                {"sent_bytes_busiest_rank", bytes.largest},
                                {"sent_bytes_all_ranks", bytes.total}});
  }
  out["attentions"] = json::array();
  for (const AttentionChoice& choice : model.attentions) {
    json one = {{"node", choice.node},
                {"axis", choice.axis},
                {"way", choice.way},
                {"keys_are_whole", choice.has_whole_keys},
                {"bytes_by_keys", choice.bytes_by_keys}};
    if (choice.bytes_by_heads) one["bytes_by_heads"] = *choice.bytes_by_heads;
    out["attentions"].push_back(std::move(one));
  }
  for (const GraphPart& part : parts_of(model)) {
    json values = json::array();
    for (const auto& node : part.graph->nodes()) {
      for (const Value* output : node->outputs()) {
        values.push_back({{"name", output->name()},
                          {"operator", node->type()},
                          {"layout", layout_text(*output, model)},
                          {"local", output->type().to_string()}});
      }
    }
    const Spread work = flops(*part.graph, model, sizes);
    out["graphs"][std::string(part.title)] = {
        {"nodes", part.graph->nodes().size()},
        {"values", std::move(values)},
        {"flops_busiest_rank", work.largest},
        {"flops_all_ranks", work.total},
        {"flops_replicated", replicated_flops(*part.graph, model, sizes)}};
  }
  return out.dump(1);
}

}  // namespace tutti
