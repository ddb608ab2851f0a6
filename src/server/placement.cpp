#include "server/placement.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/classification.h"
#include "server/names.h"

namespace tutti::server {
namespace {

std::string output_label(const std::string& name) {
  return str_cat("output '", printable(name), "'");
}

// Elements must lie where the processor may read them; other places get a copy.
bool is_aligned(const std::byte* data, DType dtype) {
  const std::size_t width = std::max<std::size_t>(1, dtype_size(dtype));
  return reinterpret_cast<std::uintptr_t>(data) % width == 0;
}

// The host looks at each element of BYTES.
Status check_fixed_size(const InferInput& input) {
  if (input.dtype != DType::kString) return Status();
  return invalid_argument("input '", printable(input.name),
                          "': BYTES elements in CUDA shared memory, expected system shared memory");
}

struct InputMemory {
  std::shared_ptr<const void> request;
  std::vector<std::shared_ptr<const void>> regions;
  std::vector<std::vector<std::byte>> copies;
};

std::size_t length_prefixed_size(const std::vector<std::string>& texts) {
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += 4 + text.size();
  return bytes;
}

void write_length_prefixed(const std::vector<std::string>& texts, std::byte* out) {
  for (const std::string& text : texts) {
    const auto length = static_cast<std::uint32_t>(text.size());
    std::memcpy(out, &length, 4);
    std::memcpy(out + 4, text.data(), text.size());
    out += 4 + text.size();
  }
}

}  // namespace

Status place_inputs(const SharedMemoryRegistry& memory, InferRequest* request) {
  const auto is_shared = [](const InferInput& input) { return input.shared_memory.has_value(); };
  if (std::none_of(request->inputs.begin(), request->inputs.end(), is_shared)) return Status();
  auto held = std::make_shared<InputMemory>();
  held->request = std::move(request->owner);
  for (InferInput& input : request->inputs) {
    if (!input.shared_memory) continue;
    auto bytes = memory.find(*input.shared_memory);
    if (!bytes.ok()) {
      return bytes.status().with_context(str_cat("input '", printable(input.name), "'"));
    }
    input.data = {bytes->data, bytes->size};
    input.place = bytes->place;
    if (is_on_device(input.place)) {
      TUTTI_RETURN_IF_ERROR(check_fixed_size(input));
      request->has_device_tensors = true;
    } else if (!is_aligned(bytes->data, input.dtype)) {
      input.data = held->copies.emplace_back(input.data.begin(), input.data.end());
    }
    held->regions.push_back(std::move(bytes->owner));
  }
  request->owner = std::move(held);
  return Status();
}

Result<std::shared_ptr<PlacedOutputs>> PlacedOutputs::create(const SharedMemoryRegistry& memory,
                                                             InferRequest* request,
                                                             std::shared_ptr<OutputSink> sink) {
  auto placed = std::make_shared<PlacedOutputs>();
  placed->sink_ = std::move(sink);
  for (std::size_t i = 0; i < request->output_options.size(); ++i) {
    Output output{request->output_options[i], {}, {}};
    const std::string label = output_label(request->outputs[i]);
    if (output.options.shared_memory) {
      if (output.options.class_count > 0) {
        return invalid_argument(label,
                                ": classification results do not go into shared memory, expected "
                                "one of the two parameters");
      }
      auto bytes = memory.find(*output.options.shared_memory);
      if (!bytes.ok()) return bytes.status().with_context(label);
      output.shared = *std::move(bytes);
      request->has_device_tensors |= is_on_device(output.shared.place);
    }
    placed->outputs_.push_back(std::move(output));
  }
  return placed;
}

Result<std::byte*> PlacedOutputs::allocate(std::size_t position, const OutputDesc& desc,
                                           std::size_t bytes) {
  if (position >= outputs_.size()) return sink_->allocate(position, desc, bytes);
  Output& output = outputs_[position];
  if (output.options.class_count > 0) {
    output.scores.resize(bytes);
    return output.scores.data();
  }
  if (!output.options.shared_memory) return sink_->allocate(position, desc, bytes);
  if (bytes > output.shared.size) {
    return invalid_argument(output_label(desc.name), ": ", bytes, " bytes do not fit into the ",
                            output.shared.size, " bytes of shared memory given for it");
  }
  if (is_on_device(output.shared.place) || is_aligned(output.shared.data, desc.dtype)) {
    return output.shared.data;
  }
  output.scores.resize(bytes);
  return output.scores.data();
}

MemoryPlace PlacedOutputs::place(std::size_t position) const {
  return position < outputs_.size() ? outputs_[position].shared.place : MemoryPlace();
}

Status PlacedOutputs::complete(bool is_batched, std::vector<OutputDesc>* outputs) {
  for (std::size_t i = 0; i < outputs_.size() && i < outputs->size(); ++i) {
    Output& output = outputs_[i];
    OutputDesc& desc = (*outputs)[i];
    if (output.options.shared_memory) {
      desc.shared_memory = output.options.shared_memory;
      desc.shared_memory->byte_size =
          static_cast<std::uint64_t>(element_count(desc.shape)) * dtype_size(desc.dtype);
      if (!output.scores.empty()) {
        std::memcpy(output.shared.data, output.scores.data(), output.scores.size());
      }
    }
    if (output.options.class_count == 0) continue;
    TUTTI_RETURN_IF_ERROR(classify(i, is_batched, &desc));
  }
  return Status();
}

Status PlacedOutputs::classify(std::size_t position, bool is_batched, OutputDesc* desc) {
  Output& output = outputs_[position];
  const std::int64_t batch = is_batched && !desc->shape.empty() ? desc->shape.front() : 1;
  const std::size_t stride =
      batch == 0 ? 0 : output.scores.size() / static_cast<std::size_t>(batch);
  std::vector<std::string> texts;
  std::size_t each = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto scores = std::span<const std::byte>(output.scores)
                            .subspan(static_cast<std::size_t>(b) * stride, stride);
    const auto labels = desc->labels == nullptr ? std::span<const std::string>()
                                                : std::span<const std::string>(*desc->labels);
    auto classes = top_classes(scores, desc->dtype, output.options.class_count, labels);
    if (!classes.ok()) return classes.status().with_context(output_label(desc->name));
    each = classes->size();
    std::move(classes->begin(), classes->end(), std::back_inserter(texts));
  }
  desc->dtype = DType::kString;
  desc->shape = {static_cast<std::int64_t>(each)};
  if (is_batched) desc->shape.insert(desc->shape.begin(), batch);
  TUTTI_ASSIGN_OR_RETURN(std::byte * out,
                         sink_->allocate(position, *desc, length_prefixed_size(texts)));
  write_length_prefixed(texts, out);
  return Status();
}

}  // namespace tutti::server
