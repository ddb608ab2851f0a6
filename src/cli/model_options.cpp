#include "cli/model_options.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "backends/cpu/evaluator.h"
#include "cli/make_plan.h"
#include "compiler/device_profile.h"
#include "compiler/strategy.h"
#include "onnx/annotation_constraints.h"
#include "onnx/numpy_io.h"
#include "onnx/reader.h"

namespace tutti::cli {
namespace {

// "ulysses" or "cp=ulysses,cfg=cfg" -> mesh axis -> strategy.
Result<std::map<std::string, std::string>> parse_strategies(const std::string& text,
                                                            const Mesh& mesh) {
  std::map<std::string, std::string> strategies;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string piece = text.substr(begin, end - begin);
    begin = end + 1;
    if (piece.find('=') != std::string::npos) {
      TUTTI_ASSIGN_OR_RETURN(auto pair, split_assignment("--strategy", piece));
      strategies.insert(std::move(pair));
      continue;
    }
    // A bare name serves the only axis, or the axis that bears its usual name.
    const std::string usual = usual_axis(piece);
    if (mesh.axes().size() == 1) {
      strategies[mesh.axes()[0].name] = piece;
    } else if (mesh.find(usual) >= 0) {
      strategies[usual] = piece;
    } else if (!mesh.axes().empty()) {
      return invalid_argument("--strategy '", piece, "': the mesh ", mesh, " has no axis '", usual,
                              "'; write AXIS=", piece);
    }
  }
  return strategies;
}

Status read_distribution(const ModelOptions& options, CompileOptions* out) {
  const bool is_auto = options.strategy == "auto";
  if (is_auto != (options.ranks > 0)) {
    return invalid_argument("--strategy auto and --ranks N belong together; got --strategy '",
                            options.strategy, "' and --ranks ", options.ranks);
  }
  if (is_auto && !options.mesh.empty()) {
    return invalid_argument("--mesh '", options.mesh, "': --strategy auto chooses the mesh");
  }
  TUTTI_ASSIGN_OR_RETURN(const DeviceProfile profile, device_profile(options.device_profile));
  out->rates = profile.rates;
  TUTTI_ASSIGN_OR_RETURN(out->memory_limit, parse_bytes("--memory-limit", options.memory_limit));
  if (is_auto) {
    out->auto_ranks = options.ranks;
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(out->mesh, Mesh::parse(options.mesh));
  TUTTI_ASSIGN_OR_RETURN(out->strategies, parse_strategies(options.strategy, out->mesh));
  return {};
}

Result<DType> parse_precision(std::string_view option, const std::string& text) {
  if (text == "keep") return DType::kUndefined;
  if (text == "bf16") return DType::kBFloat16;
  if (text == "fp16") return DType::kFloat16;
  return invalid_argument(option, " '", text, "' is unknown; expected keep, bf16 or fp16");
}

Status read_precision(const ModelOptions& options, CompileOptions* out) {
  TUTTI_ASSIGN_OR_RETURN(out->precision, parse_precision("--precision", options.precision));
  TUTTI_ASSIGN_OR_RETURN(out->io_precision,
                         parse_precision("--io-precision", options.io_precision));
  if (out->io_precision != DType::kUndefined && out->precision == DType::kUndefined) {
    return invalid_argument("--io-precision '", options.io_precision,
                            "' needs a --precision that is not 'keep'");
  }
  return {};
}

// The model's own multi-device annotations. They name the mesh where nobody else does; an automatic
// mesh leaves them aside.
Status follow_annotations(const DeviceAnnotations& annotations, CompileOptions* out) {
  if (out->auto_ranks > 0) return {};
  if (out->mesh.axes().empty()) {
    TUTTI_ASSIGN_OR_RETURN(out->mesh, annotated_mesh(annotations));
  }
  TUTTI_ASSIGN_OR_RETURN(out->constraints, layout_constraints(annotations, out->mesh));
  return {};
}

Result<ReadOptions> read_options(const ModelOptions& options) {
  ReadOptions read;
  TUTTI_ASSIGN_OR_RETURN(read.bound_dims, parse_sizes("--bind-dim", options.bind_dims));
  for (const std::string& text : options.bind) {
    TUTTI_ASSIGN_OR_RETURN(const auto pair, split_assignment("--bind", text));
    auto tensor = read_npy(pair.second);
    if (!tensor.ok()) return tensor.status().with_context(str_cat("--bind ", pair.first));
    read.bound_inputs.emplace(pair.first, *std::move(tensor));
  }
  for (const std::string& text : options.shapes) {
    TUTTI_ASSIGN_OR_RETURN(auto pair, split_assignment("--shape", text));
    read.input_shapes.insert(std::move(pair));
  }
  if (options.min_opset > 0) read.limits.min_opset = options.min_opset;
  return read;
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions* options) {
  command.add_option("model", options->model, "ONNX model")->required();
  command.add_option("--mesh", options->mesh, "Ranks by axis, such as cp=4 or cfg=2,cp=2");
  command.add_option(
      "--strategy", options->strategy,
      "tensor, cfg, ulysses or spatial, or one for each axis: cp=ulysses,cfg=cfg; "
      "auto: the mesh of --ranks that is estimated to be fastest (--explain says why)");
  command
      .add_option("--attention-exchange", options->attention_exchange,
                  "How queries meet keys that are split: auto, heads, gather or ring")
      ->capture_default_str();
  command.add_option("--ranks", options->ranks, "Number of ranks for --strategy auto");
  command.add_option("--memory-limit", options->memory_limit,
                     "Bytes that a rank may need at typical sizes, such as 24G");
  command
      .add_option("--device-profile", options->device_profile,
                  "Rates that layouts are priced with: h200 or cpu")
      ->capture_default_str();
  command.add_option("--bind", options->bind, "NAME=FILE.npy: fix the content of an input");
  command.add_option("--bind-dim", options->bind_dims, "NAME=SIZE: fix a symbolic dimension");
  command.add_option("--shape", options->shapes, "NAME=1,16,h,w: declare another input shape");
  command.add_option("--shard", options->shards,
                     "NAME:DIM=AXIS: split a dimension of a value over a mesh axis");
  command.add_option("--invariant", options->invariant,
                     "Input that stays the same over many calls; detected when not given");
  command.add_option("--typical", options->typical, "NAME=SIZE: price layouts at this size");
  add_profile_options(command, &options->profile);
  command
      .add_option("--precision", options->precision,
                  "bf16 or fp16: convert fp32 weights and compute; keep: as the model has it")
      ->capture_default_str();
  command
      .add_option("--io-precision", options->io_precision,
                  "bf16 or fp16: with --precision, the type of fp32 inputs and outputs, too")
      ->capture_default_str();
  command.add_option("--min-opset", options->min_opset,
                     "Accept older opsets than 17 (their meaning is not checked)");
  command.add_flag("--ignore-annotations{false}", options->use_annotations,
                   "Distribute as if the model had no device configurations of its own");
  command.add_flag("--no-hoist{false}", options->hoist, "Keep invariant work in every call");
  command.add_flag("--no-fuse{false}", options->fuse, "Keep pointwise operators apart");
}

Operators::Operators() { register_all_ops(&ops, &lowerings); }

Result<std::pair<std::string, std::string>> split_assignment(std::string_view option,
                                                             const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return invalid_argument(option, " '", text, "': expected NAME=VALUE");
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<SymbolMap> parse_sizes(std::string_view option, const std::vector<std::string>& texts) {
  SymbolMap sizes;
  for (const std::string& text : texts) {
    TUTTI_ASSIGN_OR_RETURN(const auto pair, split_assignment(option, text));
    std::int64_t size = 0;
    const char* end = pair.second.data() + pair.second.size();
    const auto parsed = std::from_chars(pair.second.data(), end, size);
    if (parsed.ec != std::errc() || parsed.ptr != end || size < 0) {
      return invalid_argument(option, " '", text, "': expected NAME=SIZE with a size >= 0");
    }
    sizes[pair.first] = size;
  }
  return sizes;
}

Result<double> parse_bytes(std::string_view option, const std::string& text) {
  if (text.empty()) return 0.0;
  std::string digits = text;
  double unit = 1;
  const std::string_view letters = "kMGT";
  if (const std::size_t power = letters.find(text.back()); power != std::string_view::npos) {
    for (std::size_t i = 0; i <= power; ++i) unit *= 1000;
    digits.pop_back();
  }
  double number = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(number > 0) || number > 1e18) {
    return invalid_argument(option, " '", text, "': expected bytes, such as 500M or 24G");
  }
  return number * unit;
}

Result<PlannedModel> plan_model(const ModelOptions& options, const Operators& operators,
                                const Progress& progress) {
  cpu::CpuEvaluator evaluator;
  CompileOptions compile_options;
  compile_options.registry = &operators.ops;
  compile_options.evaluator = &evaluator;
  TUTTI_RETURN_IF_ERROR(read_distribution(options, &compile_options));
  for (const std::string& text : options.shards) {
    TUTTI_ASSIGN_OR_RETURN(LayoutSeed seed, parse_seed(text));
    compile_options.seeds.push_back(std::move(seed));
  }
  TUTTI_ASSIGN_OR_RETURN(compile_options.attention_exchange,
                         parse_attention_exchange(options.attention_exchange));
  TUTTI_RETURN_IF_ERROR(read_precision(options, &compile_options));
  compile_options.invariant_inputs = options.invariant;
  compile_options.hoist = options.hoist;
  compile_options.fuse = options.fuse;
  TUTTI_ASSIGN_OR_RETURN(compile_options.typical_sizes, parse_sizes("--typical", options.typical));
  compile_options.progress = progress;

  TUTTI_ASSIGN_OR_RETURN(ReadOptions read, read_options(options));
  read.evaluator = &evaluator;
  DeviceAnnotations annotations;
  if (options.use_annotations) read.annotations = &annotations;
  const auto start = std::chrono::steady_clock::now();
  TUTTI_ASSIGN_OR_RETURN(auto graph,
                         read_onnx(options.model, operators.ops, operators.lowerings, read));
  if (progress) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    progress("read", took.count());
  }
  if (options.use_annotations) {
    TUTTI_RETURN_IF_ERROR(follow_annotations(annotations, &compile_options));
  }
  std::vector<PlanTensor> inputs;
  for (const Value* input : graph->inputs()) {
    inputs.push_back({input->name(), input->dtype(), input->shape()});
  }
  TUTTI_ASSIGN_OR_RETURN(auto ranges, shape_profile(options.profile, inputs));
  for (const auto& [symbol, range] : ranges) {
    compile_options.typical_sizes.emplace(symbol, range.opt);
  }
  TUTTI_ASSIGN_OR_RETURN(CompiledModel compiled, compile(std::move(graph), compile_options));
  PlannedModel planned;
  planned.explain = std::move(compiled.explain);
  TUTTI_ASSIGN_OR_RETURN(planned.plan, make_plan(std::move(compiled), options));
  planned.plan.dims = std::move(ranges);
  return planned;
}

int report_error(std::string_view command, const Status& status) {
  std::fprintf(stderr, "tutti %.*s: %s\n", static_cast<int>(command.size()), command.data(),
               status.message().c_str());
  return 1;
}

}  // namespace tutti::cli
