#include "server/config/check_fields.h"

#include <string_view>

namespace tutti::server {
namespace {

using inference::ModelConfig;
using inference::ModelInput;
using inference::ModelInstanceGroup;
using inference::ModelOutput;

enum class Effect { kRefused, kIgnored };

template <class Message>
struct FieldRule {
  std::string_view field;
  bool (*is_set)(const Message&);
  Effect effect;
};

constexpr FieldRule<ModelConfig> kModelRules[] = {
    {"runtime", [](const ModelConfig& c) { return !c.runtime().empty(); }, Effect::kIgnored},
    {"batch_input", [](const ModelConfig& c) { return c.batch_input_size() > 0; },
     Effect::kRefused},
    {"batch_output", [](const ModelConfig& c) { return c.batch_output_size() > 0; },
     Effect::kRefused},
    {"optimization", [](const ModelConfig& c) { return c.has_optimization(); }, Effect::kIgnored},
    {"sequence_batching", [](const ModelConfig& c) { return c.has_sequence_batching(); },
     Effect::kRefused},
    {"cc_model_filenames", [](const ModelConfig& c) { return c.cc_model_filenames_size() > 0; },
     Effect::kRefused},
    {"model_operations", [](const ModelConfig& c) { return c.has_model_operations(); },
     Effect::kRefused},
    {"model_transaction_policy.decoupled",
     [](const ModelConfig& c) { return c.model_transaction_policy().decoupled(); },
     Effect::kRefused},
    {"model_repository_agents",
     [](const ModelConfig& c) { return c.has_model_repository_agents(); }, Effect::kRefused},
    {"ensemble_scheduling.max_inflight_requests",
     [](const ModelConfig& c) { return c.ensemble_scheduling().max_inflight_requests() > 0; },
     Effect::kIgnored},
};

constexpr FieldRule<ModelInput> kInputRules[] = {
    {"reshape", [](const ModelInput& i) { return i.has_reshape(); }, Effect::kRefused},
    {"is_shape_tensor", [](const ModelInput& i) { return i.is_shape_tensor(); }, Effect::kRefused},
    {"allow_ragged_batch", [](const ModelInput& i) { return i.allow_ragged_batch(); },
     Effect::kRefused},
    {"optional", [](const ModelInput& i) { return i.optional(); }, Effect::kRefused},
    {"is_non_linear_format_io", [](const ModelInput& i) { return i.is_non_linear_format_io(); },
     Effect::kRefused},
};

constexpr FieldRule<ModelOutput> kOutputRules[] = {
    {"reshape", [](const ModelOutput& o) { return o.has_reshape(); }, Effect::kRefused},
    {"is_shape_tensor", [](const ModelOutput& o) { return o.is_shape_tensor(); }, Effect::kRefused},
    {"is_non_linear_format_io", [](const ModelOutput& o) { return o.is_non_linear_format_io(); },
     Effect::kRefused},
};

constexpr FieldRule<ModelInstanceGroup> kGroupRules[] = {
    {"secondary_devices",
     [](const ModelInstanceGroup& g) { return g.secondary_devices_size() > 0; }, Effect::kRefused},
    {"profile", [](const ModelInstanceGroup& g) { return g.profile_size() > 0; }, Effect::kRefused},
    {"passive", [](const ModelInstanceGroup& g) { return g.passive(); }, Effect::kRefused},
    {"host_policy", [](const ModelInstanceGroup& g) { return !g.host_policy().empty(); },
     Effect::kIgnored},
};

template <class Message, std::size_t N>
Status check(const ConfigFile& file, const Message& message, const FieldRule<Message> (&rules)[N],
             const std::string& prefix, std::vector<std::string>* warnings) {
  for (const FieldRule<Message>& rule : rules) {
    if (!rule.is_set(message)) continue;
    const std::string field = str_cat(prefix, rule.field);
    if (rule.effect == Effect::kRefused) {
      return file.error(field, "is not supported by this server, expected it to be absent");
    }
    warnings->push_back(str_cat(file.location(field), ": ", field, " has no effect here"));
  }
  return Status();
}

template <class Messages, class Rules>
Status check_each(const ConfigFile& file, const Messages& messages, const Rules& rules,
                  std::string_view field, std::vector<std::string>* warnings) {
  for (int i = 0; i < messages.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(check(file, messages[i], rules, str_cat(field, "[", i, "]."), warnings));
  }
  return Status();
}

}  // namespace

Status check_unsupported_fields(const ConfigFile& file, std::vector<std::string>* warnings) {
  const ModelConfig& config = file.config();
  TUTTI_RETURN_IF_ERROR(check(file, config, kModelRules, "", warnings));
  TUTTI_RETURN_IF_ERROR(check_each(file, config.input(), kInputRules, "input", warnings));
  TUTTI_RETURN_IF_ERROR(check_each(file, config.output(), kOutputRules, "output", warnings));
  return check_each(file, config.instance_group(), kGroupRules, "instance_group", warnings);
}

}  // namespace tutti::server
