#include "backends/cuda/row_kernel.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "backends/cuda/pointwise_code.h"
#include "backends/cuda/row_code.h"
#include "backends/cuda/row_layout.h"
#include "backends/cuda/row_operands.h"
#include "backends/cuda/row_positions.h"
#include "backends/cuda/row_routes.h"
#include "graph/op_def.h"

namespace tutti::cuda {
namespace {

constexpr std::size_t kMaxRanges = 8;  // of packs that share code

class RowWriter {
 public:
  RowWriter(const RowSpec& spec, RowLayout layout, std::span<const std::optional<RowRoute>> routes)
      : spec_(spec),
        layout_(std::move(layout)),
        operands_(spec_, layout_, &code_),
        routes_(layout_, routes, spec.inputs.size() + spec.body.outputs().size(), &code_) {}
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;

  Result<std::string> code() {
    sum_type_ = "f32";
    if (layout_.norm != nullptr && layout_.norm->output()->dtype() == DType::kFloat64) {
      sum_type_ = "f64";
    }
    const std::string rows = code_.number(layout_.rows);
    for (std::size_t j = 0; j < spec_.body.outputs().size(); ++j) {
      if (!routes_.has(j)) continue;
      TUTTI_RETURN_IF_ERROR(routes_.add(j, spec_.body.outputs()[j]->dtype()));
    }
    std::string body;
    if (layout_.norm != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(body, statistics());
    }
    TUTTI_ASSIGN_OR_RETURN(const std::string results, results_code());
    body += results;
    std::string out =
        str_cat("extern \"C\" __global__ void __launch_bounds__(THREADS) KERNEL_NAME(const ",
                "__grid_constant__ Params p) {\n  const int lane = threadIdx.x % TEAM;\n",
                "  const u32 rows = (u32)", rows, ";\n", code_.before_rows,
                "  for (u32 base = blockIdx.x * TEAMS; base < rows; base += gridDim.x * TEAMS) {\n",
                "    const u32 wanted = base + threadIdx.x / TEAM;\n",
                "    const bool is_active = wanted < rows;\n",
                "    const u32 row = is_active ? wanted : rows - 1;\n", operands_.coordinates(),
                code_.pointers, body, "  }\n}\n");
    if (layout_.norm != nullptr) {
      out = str_cat("#define SUM ", sum_type_, "\n", out);
    }
    return out;
  }

  std::vector<std::int64_t> take_numbers() { return std::move(code_.numbers); }
  const RowRoutes& routes() const { return routes_; }

 private:
  // --- Values -----------------------------------------------------------------------------------

  std::optional<std::size_t> input_of(const Value* value) const {
    const auto& inputs = spec_.body.inputs();
    const auto found = std::find(inputs.begin(), inputs.end(), value);
    if (found == inputs.end()) return std::nullopt;
    return static_cast<std::size_t>(found - inputs.begin());
  }

  // The value at `positions` of its rows (by pack of the scope, then lane), seen from a node whose
  // result has `rank` dimensions.
  Result<LaneNames> value_at(RowScope* scope, const Value* value, std::size_t rank,
                             const Positions& positions) {
    if (const auto input = input_of(value)) {
      TUTTI_ASSIGN_OR_RETURN(const RowOperand operand, operands_.operand_of(*input, rank));
      return operands_.load(scope, operand, positions);
    }
    const auto key = std::make_pair(value, positions);
    if (const auto known = scope->values.find(key); known != scope->values.end()) {
      return known->second;
    }
    const Node& node = *value->producer();
    Result<LaneNames> lanes = &node == layout_.norm    ? normalised(scope, node, positions)
                              : node.op().is_pointwise ? computed(scope, node, value, positions)
                                                       : moved(scope, node, value, positions);
    if (lanes.ok()) scope->values.emplace(key, *lanes);
    return lanes;
  }

  // Operand i of a node that broadcasts to its result.
  Result<LaneNames> broadcast_at(RowScope* scope, const Node& node, std::size_t i,
                                 const Positions& positions) {
    const Value* value = node.input(i);
    const Dims& result = layout_.dims.at(node.output());
    Dims row = layout_.dims.at(value);
    const std::size_t shift = result.size() - row.size();
    const std::size_t lead = layout_.lead.size();
    row.erase(row.begin(),
              row.begin() + static_cast<std::ptrdiff_t>(lead > shift ? lead - shift : 0));
    return value_at(scope, value, result.size(),
                    broadcast_positions(layout_.row_of(result), row, positions));
  }

  Result<LaneNames> computed(RowScope* scope, const Node& node, const Value* value,
                             const Positions& positions) {
    std::vector<LaneNames> operands;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(LaneNames lanes, broadcast_at(scope, node, i, positions));
      operands.push_back(std::move(lanes));
    }
    const bool is_region = node.type() == "Pointwise";
    const std::shared_ptr<const Graph> body = is_region ? node.attr_graph("body") : nullptr;
    std::vector<LaneNames> results(node.outputs().size(), LaneNames(operands[0].size()));
    for (std::size_t l = 0; l < results[0].size(); ++l) {
      if (operands[0][l].empty()) continue;
      BodyWriter writer(code_.name("t") + "_");
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const Value* inner = is_region ? body->inputs()[i] : node.input(i);
        writer.bind(inner, operands[i][l], constant_of(node.input(i)));
      }
      TUTTI_RETURN_IF_ERROR(is_region ? writer.add_body(*body) : writer.add(node));
      for (std::size_t j = 0; j < results.size(); ++j) {
        results[j][l] = writer.name_of(is_region ? body->outputs()[j] : node.output(j));
      }
      scope->code += writer.take();
    }
    for (std::size_t j = 0; j < results.size(); ++j) {
      if (node.output(j) != value)
        scope->values.emplace(std::make_pair(node.output(j), positions), results[j]);
    }
    return results[static_cast<std::size_t>(value->producer_output())];
  }

  const Tensor* constant_of(const Value* value) const {
    const auto input = input_of(value);
    return input ? spec_.constants[*input] : nullptr;
  }

  Result<std::vector<MovedFrom>> sources_of(const Node& node, const Value* value,
                                            const Positions& positions) const {
    std::vector<Dims> inputs;
    std::vector<Dims> outputs;
    for (const Value* input : node.inputs()) inputs.push_back(layout_.dims.at(input));
    for (const Value* output : node.outputs()) outputs.push_back(layout_.dims.at(output));
    for (const Dims& dims : inputs) {
      if (dims.size() < layout_.lead.size() ||
          !std::equal(layout_.lead.begin(), layout_.lead.end(), dims.begin())) {
        return unimplemented("an operand that is moved has other rows");
      }
    }
    return moved_from(node, static_cast<std::size_t>(value->producer_output()), inputs, outputs,
                      layout_.lead.size(), spec_.symbols, positions);
  }

  Result<LaneNames> moved(RowScope* scope, const Node& node, const Value* value,
                          const Positions& positions) {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<MovedFrom> sources,
                           sources_of(node, value, positions));
    LaneNames lanes(static_cast<std::size_t>(layout_.pack));
    for (const MovedFrom& source : sources) {
      const Value* operand = node.input(source.operand);
      TUTTI_ASSIGN_OR_RETURN(
          const LaneNames part,
          value_at(scope, operand, layout_.dims.at(operand).size(), source.positions));
      for (std::size_t l = 0; l < lanes.size(); ++l) {
        if (!part[l].empty()) lanes[l] = part[l];
      }
    }
    return lanes;
  }

  // --- The norm ---------------------------------------------------------------------------------

  Positions identity(const std::vector<int>& packs) const {
    Positions positions;
    for (const int k : packs) {
      for (int l = 0; l < layout_.pack; ++l)
        positions.push_back(std::int64_t{k} * layout_.pack + l);
    }
    return positions;
  }

  std::vector<int> all_packs() const {
    std::vector<int> packs(static_cast<std::size_t>(layout_.packs()));
    for (std::size_t k = 0; k < packs.size(); ++k) packs[k] = static_cast<int>(k);
    return packs;
  }

  // What a thread normalises goes to held[u][lane]; then mean and factor of the row.
  Result<std::string> statistics() {
    const Node& norm = *layout_.norm;
    if (layout_.in != layout_.out) return unimplemented("rows change their length");
    const std::string type = compute_name(norm.output()->dtype());
    RowScope scope{all_packs(), true, "", ""};
    const Value* x = norm.input(0);
    TUTTI_ASSIGN_OR_RETURN(const LaneNames lanes,
                           value_at(&scope, x, layout_.dims.at(x).size(), identity(scope.packs)));
    std::string out = str_cat("    ", type, " held[", layout_.rounds, "][", layout_.pack,
                              "];\n    SUM sum = 0;\n");
    std::string keep;
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      keep += str_cat("      held[u][", l, "] = ", lanes[l], ";\n");
    }
    for (std::size_t j = 0; j < spec_.body.outputs().size(); ++j) {
      if (layout_.is_late(spec_.body.outputs()[j])) continue;
      TUTTI_RETURN_IF_ERROR(store(&scope, j));
    }
    const bool is_centred = norm.type() == "LayerNormalization";
    const bool is_full = layout_.fills_rounds();
    const std::string guard = is_full ? "" : "if (is_inside) ";
    out += str_cat("#pragma unroll\n    for (int u = 0; u < ", layout_.rounds, "; ++u) {\n",
                   pack_index(layout_), scope.code, keep);
    const std::string each = str_cat("for (int l = 0; l < ", layout_.pack, "; ++l) ");
    if (is_centred) {
      out += str_cat("      ", guard, each, "sum += held[u][l];\n    }\n    const ", type,
                     " mean = (", type, ")(sum_of_team<SUM>(sum, parts) / (SUM)", layout_.in,
                     ");\n    sum = 0;\n#pragma unroll\n    for (int u = 0; u < ", layout_.rounds,
                     "; ++u) {\n", is_full ? "" : pack_index(layout_));
    }
    const std::string term = is_centred ? "op_square(held[u][l] - mean)" : "op_square(held[u][l])";
    const auto epsilon = std::bit_cast<std::int64_t>(norm.attr_float("epsilon"));
    out += str_cat("      ", guard, each, "sum += (SUM)", term, ";\n    }\n    const ", type,
                   " factor = (", type, ")rsqrt((", sum_type_ == "f64" ? "f64" : "f32",
                   ")(sum_of_team<SUM>(sum, parts) / (SUM)", layout_.in,
                   ") + (SUM)__longlong_as_double(", code_.number(epsilon), "));\n");
    code_.before_rows += "  __shared__ SUM parts[THREADS / 32];\n";
    return out;
  }

  // Names of what this thread holds itself: its own pack or one some rounds away, lanes in any
  // order.
  bool find_held(const RowScope& scope, const Positions& positions, LaneNames* lanes) const {
    const std::int64_t v = layout_.pack;
    const auto pack_of = [&](std::size_t i) {
      return positions[i] / v - scope.packs[i / static_cast<std::size_t>(v)];
    };
    std::optional<std::int64_t> away;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] < 0) continue;
      const auto first = i % static_cast<std::size_t>(v);
      if (!away) away = pack_of(i);
      if (pack_of(i) != *away || positions[i] % v != positions[first] % v) return false;
    }
    const bool is_full = layout_.fills_rounds();
    if (!away || *away % layout_.team != 0 || (*away != 0 && !is_full)) return false;
    // Rounds that no pack of this scope is in wrap around.
    const std::int64_t rounds = *away / layout_.team % layout_.rounds + layout_.rounds;
    const std::string round = *away == 0 ? "u" : str_cat("(u + ", rounds, ") % ", layout_.rounds);
    for (std::size_t l = 0; l < lanes->size(); ++l) {
      if (positions[l] >= 0) (*lanes)[l] = str_cat("held[", round, "][", positions[l] % v, "]");
    }
    return true;
  }

  Result<LaneNames> normalised(RowScope* scope, const Node& norm, const Positions& positions) {
    const bool is_centred = norm.type() == "LayerNormalization";
    const Value* x = norm.input(0);
    LaneNames lanes(static_cast<std::size_t>(layout_.pack));
    if (!find_held(*scope, positions, &lanes)) {
      TUTTI_ASSIGN_OR_RETURN(lanes, value_at(scope, x, layout_.dims.at(x).size(), positions));
    }
    std::vector<LaneNames> parameters;
    for (std::size_t i = 1; i < norm.inputs().size(); ++i) {
      parameters.emplace_back();
      if (norm.input(i) == nullptr) continue;
      TUTTI_ASSIGN_OR_RETURN(parameters.back(),
                             value_at(scope, norm.input(i), layout_.dims.at(x).size(), positions));
    }
    const std::string type = compute_name(norm.output()->dtype());
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      if (lanes[l].empty()) continue;
      std::string value =
          str_cat(is_centred ? str_cat("(", lanes[l], " - mean)") : lanes[l], " * factor");
      if (!parameters.empty() && !parameters[0].empty()) value += " * " + parameters[0][l];
      if (parameters.size() > 1 && !parameters[1].empty()) value += " + " + parameters[1][l];
      lanes[l] = code_.name("n");
      scope->code += str_cat("      const ", type, " ", lanes[l], " = ", value, ";\n");
    }
    return lanes;
  }

  // --- Results ----------------------------------------------------------------------------------

  Status store(RowScope* scope, std::size_t j) {
    const Value* value = spec_.body.outputs()[j];
    TUTTI_ASSIGN_OR_RETURN(
        const LaneNames lanes,
        value_at(scope, value, layout_.dims.at(value).size(), identity(scope->packs)));
    const std::string pack = str_cat("Pack<", type_name(value->dtype()), ", ", layout_.pack, ">");
    const std::string stored = layout_.fills_rounds() ? "is_active" : "is_active && is_inside";
    scope->code += str_cat("      ", pack, " y", j, ";\n");
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      scope->code += str_cat("      y", j, ".v[", l, "] = narrow<", type_name(value->dtype()), ">(",
                             lanes[l], ");\n");
    }
    scope->code += routes_.has(j) ? routes_.store(j, str_cat("y", j), pack, stored)
                                  : str_cat("      if (", stored, ") ((", pack, "*)p.p[",
                                            spec_.inputs.size() + j, "])[(i64)row * ",
                                            layout_.packs(), " + k] = y", j, ";\n");
    return {};
  }

  // Which operands of Concats the lanes of a pack come from.
  Status add_signature(const Value* value, const Positions& positions,
                       std::string* signature) const {
    if (input_of(value)) return {};
    const Node& node = *value->producer();
    if (&node != layout_.norm && !node.op().is_pointwise) {
      TUTTI_ASSIGN_OR_RETURN(const auto sources, sources_of(node, value, positions));
      for (const MovedFrom& source : sources) {
        *signature += str_cat(source.operand, ":");
        for (const std::int64_t at : source.positions) *signature += at < 0 ? '-' : '+';
        TUTTI_RETURN_IF_ERROR(
            add_signature(node.input(source.operand), source.positions, signature));
      }
      return {};
    }
    const Dims row = layout_.row_of(layout_.dims.at(value));
    for (const Value* input : node.inputs()) {
      if (input == nullptr || input_of(input)) continue;
      TUTTI_RETURN_IF_ERROR(add_signature(
          input, broadcast_positions(row, layout_.row_of(layout_.dims.at(input)), positions),
          signature));
    }
    return {};
  }

  // Packs by signature, in order.
  Result<std::vector<RowScope>> find_scopes() const {
    std::map<std::string, std::vector<int>> by_signature;
    for (const int k : all_packs()) {
      std::string signature;
      for (const Value* output : spec_.body.outputs()) {
        TUTTI_RETURN_IF_ERROR(add_signature(output, identity({k}), &signature));
      }
      by_signature[signature].push_back(k);
    }
    std::vector<RowScope> scopes;
    for (auto& [signature, packs] : by_signature) {
      RowScope scope{packs, false, "", ""};
      if (by_signature.size() > 1) {
        TUTTI_ASSIGN_OR_RETURN(scope.condition, condition_on(packs));
      }
      scopes.push_back(std::move(scope));
    }
    return scopes;
  }

  // Packs of the first period, as ranges, when all periods are alike; of the row otherwise.
  Result<std::string> condition_on(const std::vector<int>& packs) const {
    std::set<int> wanted;
    for (const int k : packs) wanted.insert(k % layout_.period);
    const bool repeats = wanted.size() * static_cast<std::size_t>(layout_.packs()) ==
                         packs.size() * static_cast<std::size_t>(layout_.period);
    if (!repeats) wanted = {packs.begin(), packs.end()};
    const std::string k = repeats && layout_.period < layout_.packs()
                              ? str_cat("k % ", layout_.period)
                              : std::string("k");
    std::string out;
    std::size_t ranges = 0;
    for (auto it = wanted.begin(); it != wanted.end(); ++ranges) {
      const int first = *it;
      int last = first;
      while (it != wanted.end() && *it == last) {
        ++last;
        ++it;
      }
      out += str_cat(out.empty() ? "" : " || ", "(", k, " >= ", first, " && ", k, " < ", last, ")");
    }
    if (ranges > kMaxRanges) return unimplemented("rows fall into ", ranges, " ranges");
    return str_cat("(", out, ")");
  }

  Result<std::string> results_code() {
    TUTTI_ASSIGN_OR_RETURN(std::vector<RowScope> scopes, find_scopes());
    std::string out = str_cat("#pragma unroll\n    for (int u = 0; u < ", layout_.rounds,
                              "; ++u) {\n", pack_index(layout_));
    for (RowScope& scope : scopes) {
      for (std::size_t j = 0; j < spec_.body.outputs().size(); ++j) {
        if (layout_.norm != nullptr && !layout_.is_late(spec_.body.outputs()[j])) continue;
        TUTTI_RETURN_IF_ERROR(store(&scope, j));
      }
      out += scope.condition.empty()
                 ? scope.code
                 : str_cat("      if ", scope.condition, " {\n", scope.code, "      }\n");
    }
    return out + "    }\n";
  }

  const RowSpec& spec_;
  const RowLayout layout_;
  std::string sum_type_;
  RowCode code_;
  RowOperands operands_;
  RowRoutes routes_;
};

// With `routes`, fills what the kernel reads of them and counts its addresses.
struct RouteTable {
  std::vector<std::int64_t> words;
  std::size_t addresses = 0;
};
Result<GeneratedKernel> make_kernel(RankContext& context, const RowSpec& spec,
                                    std::span<const std::optional<RowRoute>> routes,
                                    RouteTable* table) {
  TUTTI_ASSIGN_OR_RETURN(RowLayout layout, lay_out_rows(spec));
  std::size_t addresses = spec.inputs.size() + spec.body.outputs().size();
  for (const auto& route : routes) addresses += route ? route->targets : 0;
  TUTTI_RETURN_IF_ERROR(choose_rows(routes, addresses, &layout));
  KernelSource source;
  source.entry = layout.norm == nullptr ? "rows" : "norm_rows";
  source.files = {"pointwise.cuh", "rows.cuh"};
  source.defines.emplace_back("TEAM", std::to_string(layout.team));
  source.defines.emplace_back("THREADS", std::to_string(layout.threads));
  define_index(false, &source);
  std::vector<DType> results;
  for (const Value* output : spec.body.outputs()) results.push_back(output->dtype());
  define_math(results, &source);
  Grid grid;
  grid.threads = layout.threads;
  const std::int64_t teams = layout.threads / layout.team;
  grid.blocks = std::clamp<std::int64_t>((layout.rows + teams - 1) / teams, 1,
                                         std::int64_t{context.multiprocessors} * 16);
  RowWriter writer(spec, std::move(layout), routes);
  TUTTI_ASSIGN_OR_RETURN(source.code, writer.code());
  table->words = writer.routes().table();
  table->addresses = addresses + (routes.empty() ? 0 : 1);
  return GeneratedKernel::create(context, std::move(source), table->addresses,
                                 writer.take_numbers(), grid);
}

}  // namespace

Result<GeneratedKernel> make_row_kernel(RankContext& context, const RowSpec& spec) {
  RouteTable none;
  return make_kernel(context, spec, {}, &none);
}

Result<RoutedRows> RoutedRows::create(RankContext& context, const RowSpec& spec,
                                      std::span<const std::optional<RowRoute>> routes) {
  RoutedRows rows;
  RouteTable table;
  TUTTI_ASSIGN_OR_RETURN(GeneratedKernel kernel, make_kernel(context, spec, routes, &table));
  rows.kernel_.push_back(std::move(kernel));
  TUTTI_ASSIGN_OR_RETURN(
      rows.table_, context.place(table.words.data(), table.words.size() * sizeof table.words[0]));
  rows.addresses_.resize(table.addresses);
  return rows;
}

Status RoutedRows::run(std::span<const void* const> addresses) {
  std::copy(addresses.begin(), addresses.end(), addresses_.begin());
  addresses_.back() = table_->data();
  return kernel_.front().run(addresses_);
}

}  // namespace tutti::cuda
