#include "server/scheduler/joined_batch.h"

#include <algorithm>
#include <cstring>

#include "base/dims.h"

namespace tutti::server {
namespace {

const InferInput& find_input(const InferRequest& request, const std::string& name) {
  return *std::find_if(request.inputs.begin(), request.inputs.end(),
                       [&](const InferInput& input) { return input.name == name; });
}

// The bytes of rows [0, 1, ..] begin at offsets [0], [1], ..; the last offset is the end.
Result<std::vector<std::size_t>> row_offsets(const OutputDesc& output,
                                             std::span<const std::byte> data, std::int64_t rows) {
  std::vector<std::size_t> offsets = {0};
  if (output.dtype != DType::kString) {
    const std::size_t row = data.size() / static_cast<std::size_t>(rows);
    for (std::int64_t i = 0; i < rows; ++i) offsets.push_back(offsets.back() + row);
    return offsets;
  }
  const std::int64_t elements = element_count(output.shape) / rows;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t e = 0; e < elements; ++e) {
      std::uint32_t length = 0;
      if (data.size() - at < sizeof(length)) return internal_error("a BYTES element is cut off");
      std::memcpy(&length, data.data() + at, sizeof(length));
      if (data.size() - at - sizeof(length) < length) {
        return internal_error("a BYTES element is cut off");
      }
      at += sizeof(length) + length;
    }
    offsets.push_back(at);
  }
  return offsets;
}

}  // namespace

std::string join_key(const InferRequest& request) {
  std::vector<const InferInput*> inputs;
  for (const InferInput& input : request.inputs) inputs.push_back(&input);
  std::sort(inputs.begin(), inputs.end(),
            [](const InferInput* a, const InferInput* b) { return a->name < b->name; });
  std::string key;
  for (const InferInput* input : inputs) {
    for (std::size_t i = 1; i < input->shape.size(); ++i) {
      key.append(reinterpret_cast<const char*>(&input->shape[i]), sizeof(input->shape[i]));
    }
  }
  return key;
}

struct JoinedBatch::Memory {
  std::vector<std::unique_ptr<std::byte[]>> buffers;
};

struct JoinedBatch::Sink final : OutputSink {
  struct Output {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes = 0;
  };
  explicit Sink(std::size_t count) : outputs(count) {}
  Result<std::byte*> allocate(std::size_t position, const OutputDesc&, std::size_t bytes) override {
    outputs[position] = {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
    return outputs[position].data.get();
  }
  std::vector<Output> outputs;
};

JoinedBatch::JoinedBatch(std::span<const PendingPtr> members)
    : members_(members), uncancelled_(members.size()) {
  for (const PendingPtr& member : members) rows_ += member->batch_size;
  const InferRequest& first = members.front()->request;
  request_.model_name = first.model_name;
  request_.model_version = first.model_version;
  join_inputs();
  collect_outputs();
  outputs_ = std::make_shared<Sink>(request_.outputs.size());
  sink_ = outputs_;
  const auto deadline = [](const PendingPtr& member) { return member->request.deadline; };
  if (std::all_of(members.begin(), members.end(),
                  [&](const PendingPtr& member) { return deadline(member).has_value(); })) {
    for (const PendingPtr& member : members) {
      request_.deadline =
          std::max(request_.deadline.value_or(*deadline(member)), *deadline(member));
    }
  }
  if (std::any_of(members.begin(), members.end(),
                  [](const PendingPtr& member) { return member->request.rank_times != nullptr; })) {
    request_.rank_times = &rank_times_;
  }
  watch_cancellation();
}

JoinedBatch::~JoinedBatch() = default;

void JoinedBatch::join_inputs() {
  auto memory = std::make_shared<Memory>();
  for (const InferInput& first : members_.front()->request.inputs) {
    std::size_t bytes = 0;
    for (const PendingPtr& member : members_) {
      bytes += find_input(member->request, first.name).data.size();
    }
    auto buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::size_t at = 0;
    for (const PendingPtr& member : members_) {
      const auto data = find_input(member->request, first.name).data;
      if (!data.empty()) std::memcpy(buffer.get() + at, data.data(), data.size());
      at += data.size();
    }
    InferInput joined{first.name, first.dtype, first.shape, {buffer.get(), bytes}};
    joined.shape.front() = rows_;
    request_.inputs.push_back(std::move(joined));
    memory->buffers.push_back(std::move(buffer));
  }
  request_.owner = std::move(memory);
}

void JoinedBatch::collect_outputs() {
  for (const PendingPtr& member : members_) {
    for (const std::string& name : member->request.outputs) {
      if (std::find(request_.outputs.begin(), request_.outputs.end(), name) ==
          request_.outputs.end()) {
        request_.outputs.push_back(name);
      }
    }
  }
}

void JoinedBatch::watch_cancellation() {
  request_.cancel = cancel_.get_token();
  for (const PendingPtr& member : members_) {
    callbacks_.push_back(std::make_unique<OnCancel>(member->request.cancel, [this] {
      if (--uncancelled_ == 0) cancel_.request_stop();
    }));
  }
}

void JoinedBatch::share_rank_times() const {
  for (const PendingPtr& member : members_) {
    if (member->request.rank_times != nullptr) *member->request.rank_times = rank_times_;
  }
}

std::vector<Result<InferResult>> JoinedBatch::split(const InferResult& result) const {
  const auto rows = find_rows(result);
  std::vector<Result<InferResult>> results;
  std::int64_t row = 0;
  for (const PendingPtr& member : members_) {
    results.push_back(rows.ok() ? split_one(*member, row, result, *rows) : rows.status());
    row += member->batch_size;
  }
  return results;
}

Result<std::vector<JoinedBatch::RowOffsets>> JoinedBatch::find_rows(
    const InferResult& result) const {
  std::vector<RowOffsets> rows;
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    const OutputDesc& output = result.outputs[i];
    if (output.shape.empty() || output.shape.front() != rows_) {
      return internal_error("output '", output.name, "' of a batch of ", rows_, " has shape ",
                            output.shape, ", expected ", rows_, " as its first dimension");
    }
    const Sink::Output& data = outputs_->outputs[i];
    TUTTI_ASSIGN_OR_RETURN(RowOffsets offsets,
                           row_offsets(output, {data.data.get(), data.bytes}, rows_));
    rows.push_back(std::move(offsets));
  }
  return rows;
}

Result<InferResult> JoinedBatch::split_one(const PendingRequest& member, std::int64_t first_row,
                                           const InferResult& result,
                                           const std::vector<RowOffsets>& rows) const {
  InferResult own{{}, result.inputs_ready, result.outputs_started};
  const std::vector<std::string>& names = request_.outputs;
  for (std::size_t position = 0; position < member.request.outputs.size(); ++position) {
    const auto found = std::find(names.begin(), names.end(), member.request.outputs[position]);
    const auto index = static_cast<std::size_t>(found - names.begin());
    OutputDesc output = result.outputs[index];
    output.shape.front() = member.batch_size;
    const std::size_t begin = rows[index][static_cast<std::size_t>(first_row)];
    const std::size_t end = rows[index][static_cast<std::size_t>(first_row + member.batch_size)];
    TUTTI_ASSIGN_OR_RETURN(std::byte * to, member.sink->allocate(position, output, end - begin));
    const std::byte* from = outputs_->outputs[index].data.get();
    if (end > begin) std::memcpy(to, from + begin, end - begin);
    own.outputs.push_back(std::move(output));
  }
  return own;
}

}  // namespace tutti::server
