#include "cli/inspect_plan.h"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "cli/artifact_report.h"
#include "cli/model_options.h"
#include "compiler/cost.h"
#include "compiler/explain.h"
#include "compiler/memory_use.h"
#include "graph/printer.h"
#include "runtime/storage.h"

namespace tutti::cli {
namespace {

using nlohmann::json;

// Sizes to report at: what the user gave, else what the plan is best at, 32 for the rest.
Result<SymbolMap> report_sizes(const Plan& plan, const std::vector<std::string>& texts) {
  TUTTI_ASSIGN_OR_RETURN(SymbolMap sizes, parse_sizes("--size", texts));
  std::vector<std::string> symbols;
  for (const PlanTensor& input : plan.inputs) {
    for (const Dim& dim : input.shape) dim.collect_symbols(&symbols);
  }
  for (const auto& [name, size] : sizes) {
    if (std::find(symbols.begin(), symbols.end(), name) == symbols.end()) {
      return invalid_argument("--size '", name, "': the plan's sizes are ", symbols);
    }
  }
  for (const auto& [symbol, range] : plan.dims) sizes.emplace(symbol, range.opt);
  constexpr std::int64_t kUnknownSize = 32;
  for (const std::string& symbol : symbols) sizes.emplace(symbol, kUnknownSize);
  return sizes;
}

json tensors_json(const std::vector<PlanTensor>& tensors) {
  json out = json::array();
  for (const PlanTensor& tensor : tensors) {
    json shape = json::array();
    for (const Dim& dim : tensor.shape) {
      if (dim.is_constant()) {
        shape.push_back(dim.constant());
      } else {
        shape.push_back(dim.to_string());
      }
    }
    out.push_back({{"name", tensor.name},
                   {"dtype", std::string(dtype_name(tensor.dtype))},
                   {"shape", std::move(shape)}});
  }
  return out;
}

json ranges_json(const Plan& plan) {
  json ranges = json::object();
  for (const auto& [symbol, range] : plan.dims) {
    ranges[symbol] = {{"min", range.min}, {"opt", range.opt}, {"max", range.max}};
  }
  return ranges;
}

json graph_json(const Graph& graph) {
  json ops = json::object();
  for (const auto& node : graph.nodes()) {
    const int before = ops.value(node->type(), 0);
    ops[node->type()] = before + 1;
  }
  std::int64_t weights = 0;
  for (const Value* value : graph.constants()) {
    weights += static_cast<std::int64_t>(value->constant().byte_size());
  }
  return {{"nodes", graph.nodes().size()}, {"ops", std::move(ops)}, {"weight_bytes", weights}};
}

// Bytes of activations at these sizes; kernels' own scratch comes on top.
Result<std::size_t> arena_bytes(const Graph& graph, const SymbolMap& symbols) {
  TUTTI_ASSIGN_OR_RETURN(auto descriptions, describe_values(graph, symbols));
  StorageOptions storage;
  storage.input_in_place.assign(graph.inputs().size(), true);
  const std::vector<std::size_t> workspaces(graph.nodes().size(), 0);
  return plan_storage(graph, std::move(descriptions), workspaces, storage).arena_bytes;
}

Result<json> ranks_json(const Plan& plan, const SymbolMap& sizes) {
  json ranks = json::array();
  const SizeEstimate estimate(sizes);
  const std::vector<RankBytes> memory =
      memory_by_rank(*plan.main, plan.prologue.get(), plan.mesh, sizes);
  for (int rank = 0; rank < plan.mesh.num_ranks(); ++rank) {
    SymbolMap symbols = sizes;
    plan.mesh.bind(rank, &symbols);
    const RankBytes& bytes_of_rank = memory[static_cast<std::size_t>(rank)];
    json row = {{"rank", rank},
                {"weight_bytes", bytes_of_rank.weights},
                {"prologue_bytes", bytes_of_rank.prologue}};
    for (const auto& [name, graph] :
         {std::pair("main", plan.main.get()), std::pair("prologue", plan.prologue.get())}) {
      if (graph == nullptr) continue;
      double flops = 0;
      for (const auto& [type, count] : flops_by_type(*graph, plan.mesh, rank, estimate)) {
        flops += count;
      }
      TUTTI_ASSIGN_OR_RETURN(const std::size_t bytes, arena_bytes(*graph, symbols));
      row[name] = {{"flops", flops}, {"arena_bytes", bytes}};
    }
    ranks.push_back(std::move(row));
  }
  return ranks;
}

Result<json> exchanges_json(const Plan& plan, const SymbolMap& sizes) {
  json exchanges = json::array();
  for (const PlanExchange& exchange : plan.exchanges) {
    json by_rank = json::array();
    std::int64_t total = 0;
    for (int rank = 0; rank < plan.mesh.num_ranks(); ++rank) {
      SymbolMap symbols = sizes;
      plan.mesh.bind(rank, &symbols);
      TUTTI_ASSIGN_OR_RETURN(const std::int64_t bytes, exchange.bytes.evaluate(symbols));
      by_rank.push_back(bytes);
      total += bytes;
    }
    exchanges.push_back({{"kind", exchange.kind},
                         {"axis", exchange.axis},
                         {"name", exchange.name},
                         {"formula", exchange.bytes.to_string()},
                         {"bytes", total},
                         {"bytes_by_rank", std::move(by_rank)},
                         {"in_prologue", exchange.in_prologue}});
  }
  return exchanges;
}

json artifacts_json(const Plan& plan) {
  json rows = json::array();
  for (const ArtifactGroup& group : group_artifacts(plan.artifacts)) {
    rows.push_back({{"backend", group.backend},
                    {"kind", group.kind},
                    {"target", group.target},
                    {"made_by", group.made_by},
                    {"count", group.count},
                    {"bytes", group.bytes}});
  }
  return rows;
}

Result<json> plan_json(const Plan& plan, const SymbolMap& sizes) {
  json report = {{"compiler_version", plan.compiler_version},
                 {"mesh", plan.mesh.to_string()},
                 {"ranks", plan.mesh.num_ranks()},
                 {"strategy", plan.strategy},
                 {"source_hash", plan.source_hash},
                 {"data_bytes", plan.data_bytes},
                 {"inputs", tensors_json(plan.inputs)},
                 {"outputs", tensors_json(plan.outputs)},
                 {"invariant_inputs", plan.invariant_inputs},
                 {"sizes", sizes},
                 {"ranges", ranges_json(plan)},
                 {"artifacts", artifacts_json(plan)},
                 {"main", graph_json(*plan.main)}};
  if (plan.prologue != nullptr) report["prologue"] = graph_json(*plan.prologue);
  TUTTI_ASSIGN_OR_RETURN(report["by_rank"], ranks_json(plan, sizes));
  TUTTI_ASSIGN_OR_RETURN(report["exchanges"], exchanges_json(plan, sizes));
  return report;
}

std::string shape_text(const json& tensor) {
  std::string text = tensor["dtype"].get<std::string>() + "[";
  bool first = true;
  for (const json& dim : tensor["shape"]) {
    if (!first) text += ", ";
    first = false;
    text += dim.is_string() ? dim.get<std::string>() : dim.dump();
  }
  return text + "]";
}

void print_tensors(const char* title, const json& tensors) {
  std::printf("%s\n", title);
  for (const json& tensor : tensors) {
    std::printf("  %-28s %s\n", tensor["name"].get<std::string>().c_str(),
                shape_text(tensor).c_str());
  }
}

void print_plan(const json& report) {
  std::string sizes;
  for (const auto& [name, size] : report["sizes"].items()) sizes += " " + name + "=" + size.dump();
  std::printf("mesh          %s (%d ranks)\n", report["mesh"].get<std::string>().c_str(),
              report["ranks"].get<int>());
  std::printf("compiler      tutti %s\n", report["compiler_version"].get<std::string>().c_str());
  std::printf("source        %s\n", report["source_hash"].get<std::string>().c_str());
  std::printf("weights       %.1f MB in model.plan.data\n",
              report["data_bytes"].get<double>() * 1e-6);
  for (const json& row : report["artifacts"]) {
    const ArtifactGroup group{row["backend"], row["kind"],  row["target"],
                              row["made_by"], row["count"], row["bytes"]};
    std::printf("%-13s %s\n", group.backend.c_str(), group.text().c_str());
  }
  print_tensors("inputs", report["inputs"]);
  print_tensors("outputs", report["outputs"]);
  for (const auto& [symbol, range] : report["ranges"].items()) {
    std::printf("size %s: %s to %s, best at %s\n", symbol.c_str(), range["min"].dump().c_str(),
                range["max"].dump().c_str(), range["opt"].dump().c_str());
  }
  for (const char* part : {"prologue", "main"}) {
    if (!report.contains(part)) continue;
    std::printf("%s: %d nodes:", part, report[part]["nodes"].get<int>());
    for (const auto& [type, count] : report[part]["ops"].items()) {
      std::printf(" %s %d", type.c_str(), count.get<int>());
    }
    std::printf("\n");
  }
  if (report.contains("prologue")) {
    std::printf("prologue runs once for each content of: %s\n",
                report["invariant_inputs"].dump().c_str());
  }
  std::printf("at%s:\n", sizes.empty() ? " any size" : sizes.c_str());
  for (const json& rank : report["by_rank"]) {
    std::printf("  rank %-3d %.2f MB weights", rank["rank"].get<int>(),
                rank["weight_bytes"].get<double>() * 1e-6);
    for (const char* part : {"main", "prologue"}) {
      if (!rank.contains(part)) continue;
      std::printf("  %s %.3f GFLOP, %.2f MB activations", part,
                  rank[part]["flops"].get<double>() * 1e-9,
                  rank[part]["arena_bytes"].get<double>() * 1e-6);
    }
    std::printf("\n");
  }
  std::printf("exchanges: %zu\n", report["exchanges"].size());
  for (const json& exchange : report["exchanges"]) {
    std::printf("  %-14s %-6s %12.0f bytes sent by all ranks  %s%s\n",
                exchange["kind"].get<std::string>().c_str(),
                exchange["axis"].get<std::string>().c_str(), exchange["bytes"].get<double>(),
                exchange["name"].get<std::string>().c_str(),
                exchange["in_prologue"].get<bool>() ? " (prologue)" : "");
  }
}

}  // namespace

Status inspect_plan(const InspectPlanOptions& options) {
  const Operators operators;
  TUTTI_ASSIGN_OR_RETURN(const Plan plan, read_plan(options.path, operators.ops));
  if (options.as_dot) {
    std::fputs(to_dot(*plan.main, LayoutTable(), plan.mesh).c_str(), stdout);
    return {};
  }
  if (options.as_text) {
    if (plan.prologue != nullptr) std::fputs(print(*plan.prologue).c_str(), stdout);
    std::fputs(print(*plan.main).c_str(), stdout);
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(const SymbolMap sizes, report_sizes(plan, options.sizes));
  TUTTI_ASSIGN_OR_RETURN(const json report, plan_json(plan, sizes));
  if (options.as_json) {
    std::printf("%s\n", report.dump(1).c_str());
  } else {
    print_plan(report);
  }
  return {};
}

}  // namespace tutti::cli
