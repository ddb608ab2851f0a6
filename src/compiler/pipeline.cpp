// The passes in order. This list is the compiler.
#include <chrono>

#include "compiler/choose_mesh.h"
#include "compiler/compile.h"
#include "compiler/distribute.h"
#include "compiler/explain.h"
#include "compiler/hoist.h"
#include "compiler/memory_use.h"
#include "compiler/passes.h"
#include "compiler/strategy.h"

namespace tutti {
namespace {

// What passes hand to each other.
struct Compilation {
  CompileOptions options;
  std::unique_ptr<Graph> whole;  // until it is distributed
  Distributed spmd;
  std::string mesh_choice;  // explained
  CompiledModel model;
};

using GraphPass = Status (*)(Graph&, const CompileOptions&);

template <GraphPass pass>
Status on_whole(Compilation& c) {
  return pass(*c.whole, c.options);
}

template <GraphPass pass>
Status on_parts(Compilation& c) {
  TUTTI_RETURN_IF_ERROR(pass(*c.model.main, c.options));
  return c.model.prologue == nullptr ? Status() : pass(*c.model.prologue, c.options);
}

Status check(Compilation& c) {
  TUTTI_RETURN_IF_ERROR(c.whole->verify());
  return check_options(*c.whole, c.options);
}

// Inputs and outputs change types only where that is asked for.
Status set_precision(Compilation& c) {
  TUTTI_RETURN_IF_ERROR(convert_precision(*c.whole, c.options));
  for (GlobalTensor& input : c.model.inputs) {
    const Value* value = c.whole->find_value(input.name);
    if (value != nullptr && value->is_input()) input.type = value->type();
  }
  for (std::size_t i = 0; i < c.model.outputs.size(); ++i) {
    c.model.outputs[i].type = c.whole->outputs()[i]->type();
  }
  return {};
}

Status find_invariants(Compilation& c) {
  c.model.invariant_inputs = invariant_inputs(*c.whole, c.options);
  c.options.invariant_inputs = c.model.invariant_inputs;
  return {};
}

Status join_steady_late(Compilation& c) {
  return c.options.hoist ? join_late(*c.whole, c.options, c.model.invariant_inputs) : Status();
}

Status set_mesh(Compilation& c) {
  if (c.options.auto_ranks > 0) {
    TUTTI_ASSIGN_OR_RETURN(MeshChoice choice, choose_mesh(*c.whole, c.model.invariant_inputs,
                                                          c.model.typical_sizes, c.options));
    c.options.mesh = choice.mesh;
    c.options.split_all_weights = choice.split_all_weights;
    c.mesh_choice = std::move(choice.explain);
  }
  c.model.mesh = c.options.mesh;
  return {};
}

Status make_parts(std::unique_ptr<Graph> whole, Compilation& c) {
  TUTTI_ASSIGN_OR_RETURN(c.spmd, distribute(std::move(whole), c.options, c.model.invariant_inputs));
  c.spmd.graph->remove_dead();
  c.model.attentions = c.spmd.attentions;
  if (!c.options.hoist) {
    c.model.main = std::move(c.spmd.graph);
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(Hoisted parts, hoist(*c.spmd.graph, c.model.invariant_inputs));
  c.model.main = std::move(parts.main);
  c.model.prologue = std::move(parts.prologue);
  return {};
}

Status check_limit(const Compilation& c) {
  const std::vector<RankBytes> memory =
      memory_by_rank(*c.model.main, c.model.prologue.get(), c.model.mesh, c.model.typical_sizes);
  return check_memory(memory, c.options.memory_limit);
}

// Weights that are cheaper whole are split after all where the model does not fit otherwise.
Status make_spmd(Compilation& c) {
  if (c.options.memory_limit <= 0) return make_parts(std::move(c.whole), c);
  TUTTI_RETURN_IF_ERROR(make_parts(c.whole->clone(), c));
  if (check_limit(c).ok()) return {};
  c.options.split_all_weights = true;
  TUTTI_RETURN_IF_ERROR(make_parts(std::move(c.whole), c));
  return check_limit(c);
}

Status verify_parts(Compilation& c) {
  TUTTI_RETURN_IF_ERROR(c.model.main->verify());
  return c.model.prologue == nullptr ? Status() : c.model.prologue->verify();
}

// Layouts of values that fusion made or removed.
Status tidy_layouts(Compilation& c) {
  LayoutTable kept;
  for (const Graph* graph : {c.model.prologue.get(), c.model.main.get()}) {
    if (graph == nullptr) continue;
    for (const Value* value : graph->values()) {
      const auto it = c.spmd.layouts.find(value->name());
      if (it != c.spmd.layouts.end()) {
        kept.emplace(value->name(), it->second);
      } else {
        kept.emplace(value->name(), ValueLayout{value->type(), Layout()});
      }
    }
  }
  c.model.layouts = std::move(kept);
  return {};
}

Status report(Compilation& c) {
  CompiledModel& model = c.model;
  if (model.prologue != nullptr) model.exchanges = list_exchanges(*model.prologue, true);
  std::vector<ExchangeInfo> rest = list_exchanges(*model.main, false);
  model.exchanges.insert(model.exchanges.end(), std::make_move_iterator(rest.begin()),
                         std::make_move_iterator(rest.end()));
  model.memory = memory_by_rank(*model.main, model.prologue.get(), model.mesh, model.typical_sizes);
  model.explain = c.mesh_choice + explain_text(model, model.typical_sizes);
  return {};
}

struct Pass {
  std::string_view name;
  Status (*run)(Compilation&);
};

constexpr Pass kPasses[] = {
    {"check", check},
    {"simplify", on_whole<simplify>},
    {"fuse norms", on_whole<fuse_norm>},
    {"fuse group norms", on_whole<fuse_group_norm>},
    {"fuse padding", on_whole<fuse_pad>},
    {"cancel flips", on_whole<cancel_flips>},
    {"fuse activations", on_whole<fuse_activation>},
    {"fuse attention", on_whole<fuse_attention>},
    {"split products", on_whole<split_products>},
    {"simplify again", on_whole<simplify>},
    {"tie tables", on_whole<tie_tables>},
    {"drop head repeats", on_whole<drop_head_repeats>},
    {"drop unread rows", on_whole<drop_unread_rows>},
    {"sink transposes", on_whole<sink_transposes>},
    {"trim attention", on_whole<trim_attention>},
    {"set attention layouts", on_whole<set_attention_layouts>},
    {"sink grids", on_whole<sink_grids>},
    {"set precision", set_precision},
    {"find invariant inputs", find_invariants},
    {"join late", join_steady_late},
    {"choose mesh", set_mesh},
    {"distribute and hoist", make_spmd},
    {"merge reductions", on_parts<merge_reductions>},
    {"choose rings", on_parts<choose_rings>},
    {"fuse products", on_parts<fuse_linear>},
    {"fuse pointwise", on_parts<fuse_pointwise>},
    {"fuse rows", on_parts<fuse_rows>},
    {"verify", verify_parts},
    {"tidy layouts", tidy_layouts},
    {"report", report},
};

}  // namespace

Result<CompiledModel> compile(std::unique_ptr<Graph> graph, const CompileOptions& options) {
  Compilation c{options, std::move(graph), {}, {}, {}};
  c.model.typical_sizes = typical_sizes(*c.whole, options);
  for (const Value* input : c.whole->inputs()) {
    c.model.inputs.push_back({input->name(), input->type()});
  }
  for (std::size_t i = 0; i < c.whole->outputs().size(); ++i) {
    const Value* output = c.whole->outputs()[i];
    const std::string& name =
        i < c.whole->output_names.size() ? c.whole->output_names[i] : output->name();
    c.model.outputs.push_back({name, output->type()});
  }
  for (const Pass& pass : kPasses) {
    const auto start = std::chrono::steady_clock::now();
    TUTTI_RETURN_IF_ERROR(pass.run(c).with_context(pass.name));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (options.progress) options.progress(pass.name, elapsed.count());
  }
  return std::move(c.model);
}

}  // namespace tutti
