#include "plan/plan_metadata.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "graph/shape_text.h"
#include "onnx.pb.h"

namespace tutti {
namespace {

using Entries = std::map<std::string, std::string, std::less<>>;

class EntryWriter {
 public:
  explicit EntryWriter(onnx::ModelProto* model) : model_(model) {}

  void add(std::string_view key, std::string value) {
    onnx::StringStringEntryProto* entry = model_->add_metadata_props();
    entry->set_key(str_cat("tutti.", key));
    entry->set_value(std::move(value));
  }

  // "tutti.KEY.0", "tutti.KEY.1", ...
  template <class List, class F>
  void add_list(std::string_view key, const List& list, F&& text_of) {
    std::size_t index = 0;
    for (const auto& element : list) add(str_cat(key, ".", index++), text_of(element));
  }

 private:
  onnx::ModelProto* model_;
};

std::string tensor_text(const PlanTensor& tensor) {
  return str_cat(tensor.name, ": ", TensorType{tensor.dtype, tensor.shape});
}

std::string range_text(const DimRange& range) {
  return str_cat(range.min, " ", range.opt, " ", range.max);
}

std::string exchange_text(const PlanExchange& exchange) {
  return str_cat(exchange.in_prologue ? "prologue " : "main ", exchange.kind, " ", exchange.axis,
                 " ", exchange.bytes, " ", exchange.name);
}

// The text up to the next space; the rest stays.
std::string_view take_word(std::string_view* text) {
  const std::size_t end = std::min(text->find(' '), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

Result<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0) return value;
  return invalid_argument("'", text, "' is no whole number");
}

Result<PlanTensor> parse_tensor(std::string_view text) {
  const std::size_t colon = text.rfind(": ");  // never inside a type
  if (colon == std::string_view::npos) return invalid_argument("'", text, "' has no type");
  TUTTI_ASSIGN_OR_RETURN(TensorType type, parse_tensor_type(text.substr(colon + 2)));
  return PlanTensor{std::string(text.substr(0, colon)), type.dtype, std::move(type.shape)};
}

Result<DimRange> parse_range(std::string_view text) {
  DimRange range;
  for (std::int64_t* bound : {&range.min, &range.opt, &range.max}) {
    TUTTI_ASSIGN_OR_RETURN(*bound, parse_int(take_word(&text)));
  }
  return range;
}

Result<PlanExchange> parse_exchange(std::string_view text) {
  PlanExchange exchange;
  exchange.in_prologue = take_word(&text) == "prologue";
  exchange.kind = take_word(&text);
  exchange.axis = take_word(&text);
  TUTTI_ASSIGN_OR_RETURN(exchange.bytes, parse_dim(take_word(&text)));
  exchange.name = text;
  return exchange;
}

Result<std::string> parse_name(std::string_view text) { return std::string(text); }

class EntryReader {
 public:
  static Result<EntryReader> create(const onnx::ModelProto& model) {
    EntryReader reader;
    for (const onnx::StringStringEntryProto& entry : model.metadata_props()) {
      if (!reader.entries_.emplace(entry.key(), entry.value()).second) {
        return invalid_argument("metadata '", entry.key(), "' is given twice");
      }
    }
    return reader;
  }

  Result<std::string> text(std::string_view key) const {
    const auto it = entries_.find(str_cat("tutti.", key));
    if (it == entries_.end()) return invalid_argument("metadata 'tutti.", key, "' is missing");
    return it->second;
  }

  template <class T>
  Status list(std::string_view key, Result<T> (*parse)(std::string_view),
              std::vector<T>* out) const {
    for (;;) {
      const std::string name = str_cat("tutti.", key, ".", out->size());
      const auto it = entries_.find(name);
      if (it == entries_.end()) return Status();
      Result<T> element = parse(it->second);
      if (!element.ok()) return element.status().with_context(str_cat("metadata '", name, "'"));
      out->push_back(*std::move(element));
    }
  }

  // Symbol -> range, from all entries "tutti.dim.SYMBOL".
  Status ranges(std::map<std::string, DimRange>* out) const {
    static constexpr std::string_view kPrefix = "tutti.dim.";
    for (auto it = entries_.lower_bound(kPrefix);
         it != entries_.end() && it->first.starts_with(kPrefix); ++it) {
      const Result<DimRange> range = parse_range(it->second);
      if (!range.ok()) return range.status().with_context(str_cat("metadata '", it->first, "'"));
      out->emplace(it->first.substr(kPrefix.size()), *range);
    }
    return Status();
  }

 private:
  Entries entries_;
};

// Another compiler's kernels or rules may differ in what the same graph means.
Status check_versions(const EntryReader& entries, Plan* plan) {
  TUTTI_ASSIGN_OR_RETURN(const std::string format, entries.text("format"));
  TUTTI_ASSIGN_OR_RETURN(plan->compiler_version, entries.text("compiler_version"));
  if (format != std::to_string(kPlanFormat) || plan->compiler_version != TUTTI_VERSION) {
    return invalid_argument("compiled by tutti ", plan->compiler_version, " (plan format ", format,
                            "), this is tutti ", TUTTI_VERSION, " (plan format ", kPlanFormat,
                            "); compile the model again");
  }
  return Status();
}

}  // namespace

void metadata_to_proto(const Plan& plan, const DataFileInfo& data, onnx::ModelProto* model) {
  EntryWriter entries(model);
  const auto itself = [](const std::string& text) { return text; };
  entries.add("format", std::to_string(kPlanFormat));
  entries.add("compiler_version", plan.compiler_version);
  entries.add("mesh", plan.mesh.to_string());
  entries.add("strategy", plan.strategy);
  entries.add("source_hash", plan.source_hash);
  entries.add("data_bytes", std::to_string(data.bytes));
  entries.add("data_digest", data.digest);
  entries.add_list("invariant_input", plan.invariant_inputs, itself);
  entries.add_list("output", plan.outputs, tensor_text);
  entries.add_list("exchange", plan.exchanges, exchange_text);
  for (const auto& [symbol, range] : plan.dims) {
    entries.add(str_cat("dim.", symbol), range_text(range));
  }
  entries.add_list("main_input", plan.main->inputs(),
                   [](const Value* input) { return input->name(); });
}

Status metadata_from_proto(const onnx::ModelProto& model, Plan* plan, DataFileInfo* data,
                           std::vector<std::string>* main_inputs) {
  TUTTI_ASSIGN_OR_RETURN(const EntryReader entries, EntryReader::create(model));
  TUTTI_RETURN_IF_ERROR(check_versions(entries, plan));
  TUTTI_ASSIGN_OR_RETURN(const std::string mesh, entries.text("mesh"));
  TUTTI_ASSIGN_OR_RETURN(plan->mesh, Mesh::parse(mesh));
  TUTTI_ASSIGN_OR_RETURN(plan->strategy, entries.text("strategy"));
  TUTTI_ASSIGN_OR_RETURN(plan->source_hash, entries.text("source_hash"));
  TUTTI_ASSIGN_OR_RETURN(const std::string bytes, entries.text("data_bytes"));
  TUTTI_ASSIGN_OR_RETURN(plan->data_bytes, parse_int(bytes));
  data->bytes = static_cast<std::uint64_t>(plan->data_bytes);
  TUTTI_ASSIGN_OR_RETURN(data->digest, entries.text("data_digest"));
  TUTTI_RETURN_IF_ERROR(entries.list("invariant_input", &parse_name, &plan->invariant_inputs));
  TUTTI_RETURN_IF_ERROR(entries.list("output", &parse_tensor, &plan->outputs));
  TUTTI_RETURN_IF_ERROR(entries.list("exchange", &parse_exchange, &plan->exchanges));
  TUTTI_RETURN_IF_ERROR(entries.ranges(&plan->dims));
  return entries.list("main_input", &parse_name, main_inputs);
}

}  // namespace tutti
