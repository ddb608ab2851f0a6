#include "backends/abi/export_backend.h"

#include <cstdio>

#include "backends/abi/artifact.h"
#include "backends/abi/error.h"
#include "backends/abi/node_text.h"
#include "ops/lowering.h"

using tutti::abi::guarded;

// The opaque types of the header, as this side knows them.
struct tutti_backend {
  std::unique_ptr<tutti::Backend> backend;
  std::string description;
  tutti::OpRegistry ops;
};

struct tutti_rank {
  const tutti::OpRegistry* ops = nullptr;
  std::unique_ptr<tutti::RankDevice> device;
};

// What the kernel was made from lives as long as it does.
struct tutti_kernel {
  std::unique_ptr<tutti::Graph> graph;
  tutti::SymbolMap symbols;
  std::vector<tutti::TensorDesc> inputs;
  std::vector<tutti::TensorDesc> outputs;
  std::vector<tutti::Tensor> tensors;
  std::vector<const tutti::Tensor*> constants;
  std::unique_ptr<tutti::Kernel> kernel;
};

struct tutti_buffer {
  std::unique_ptr<tutti::DeviceBuffer> buffer;
};

struct tutti_recording {
  std::unique_ptr<tutti::Recording> recording;
};

struct tutti_host_memory {
  std::shared_ptr<std::byte> memory;
};

struct tutti_device_memory {
  std::shared_ptr<std::byte> memory;
};

namespace tutti::abi {
namespace {

BackendFactory made_by = nullptr;
OfflineFactory made_offline_by = nullptr;

Result<TensorDesc> read_desc(const tutti_tensor& tensor) {
  TensorDesc desc;
  if (tensor.dtype == 0) return desc;
  TUTTI_ASSIGN_OR_RETURN(desc.dtype, dtype_from_onnx(tensor.dtype));
  desc.dims.assign(tensor.dims, tensor.dims + tensor.rank);
  return desc;
}

Tensor view(const TensorDesc& desc, const void* data) {
  return Tensor::view(desc.dtype, desc.dims, static_cast<const std::byte*>(data), nullptr);
}

// The host's communicator, seen from the plug-in. Only what a device backend needs crosses.
class HostCommunicator final : public Communicator {
 public:
  explicit HostCommunicator(const tutti_communicator& host) : host_(host) {}

  int rank() const override { return host_.rank; }
  int size() const override { return host_.num_ranks; }
  Status exchange(const ExchangePlan&, std::span<const void* const>,
                  std::span<void* const>) override {
    return unimplemented("a plug-in moves data itself");
  }
  Status all_reduce(const void*, void*, std::int64_t, DType, ReduceOp) override {
    return unimplemented("a plug-in moves data itself");
  }
  Status barrier() override {
    const char nothing = 0;
    std::vector<char> all(static_cast<std::size_t>(size()));
    return gather(&nothing, all.data(), 1);
  }
  Status gather(const void* mine, void* all, std::size_t bytes) override {
    return called(
        [&](tutti_error* error) { return host_.gather(host_.context, mine, all, bytes, error); });
  }
  void add_sent(std::int64_t bytes) override { host_.add_sent(host_.context, bytes); }
  void abort(const Status& reason) override {
    tutti_error error;
    report(reason.ok() ? internal_error("aborted without a reason") : reason, &error);
    host_.abort(host_.context, &error);
  }

 private:
  const tutti_communicator host_;
};

template <class Make>
tutti_backend* create_with(Make&& make, tutti_error* error) {
  auto made = std::make_unique<tutti_backend>();
  const int failed = guarded(error, [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(made->backend, make());
    made->description = made->backend->describe();
    LoweringRegistry unused;
    register_all_ops(&made->ops, &unused);
    return {};
  });
  return failed != 0 ? nullptr : made.release();
}

tutti_backend* create_backend(tutti_error* error) { return create_with(made_by, error); }
tutti_backend* create_offline(const char* target, tutti_error* error) {
  return create_with([&] { return made_offline_by(target); }, error);
}

void destroy_backend(tutti_backend* backend) { delete backend; }
std::int32_t device_count(tutti_backend* backend) { return backend->backend->device_count(); }
const char* describe(tutti_backend* backend) { return backend->description.c_str(); }

tutti_rank* create_rank(tutti_backend* backend, const tutti_rank_options* given,
                        tutti_error* error) {
  auto made = std::make_unique<tutti_rank>();
  made->ops = &backend->ops;
  const int failed = guarded(error, [&]() -> Status {
    RankDeviceOptions options;
    options.device = given->device;
    options.rank = given->rank;
    options.threads = given->threads;
    for (std::uint64_t i = 0; i < given->num_axes; ++i) {
      options.axes.emplace_back(given->axis_names[i]);
      const tutti_communicator& host = given->communicators[i];
      options.communicators.push_back(
          host.num_ranks == 1 ? nullptr : std::make_shared<HostCommunicator>(host));
    }
    if (given->group->num_ranks > 1) {
      options.group = std::make_shared<HostCommunicator>(*given->group);
    }
    TUTTI_ASSIGN_OR_RETURN(made->device, backend->backend->create_rank(options));
    return {};
  });
  return failed != 0 ? nullptr : made.release();
}

void destroy_rank(tutti_rank* rank) { delete rank; }
std::int32_t is_host_memory(tutti_rank* rank) { return rank->device->is_host_memory() ? 1 : 0; }

Status read_node(const tutti_node& node, const OpRegistry& ops, tutti_kernel* made) {
  TUTTI_ASSIGN_OR_RETURN(made->graph, parse_node(node.text, ops));
  for (std::uint64_t i = 0; i < node.num_symbols; ++i) {
    made->symbols[node.symbol_names[i]] = node.symbol_values[i];
  }
  const Node& parsed = *made->graph->nodes().front();
  if (parsed.inputs().size() > node.num_inputs || parsed.outputs().size() != node.num_outputs) {
    return invalid_argument("the node's text has ", parsed.inputs().size(), " operands and ",
                            parsed.outputs().size(), " results, expected ", node.num_inputs,
                            " and ", node.num_outputs);
  }
  made->tensors.resize(node.num_inputs);
  for (std::uint64_t i = 0; i < node.num_inputs; ++i) {
    TUTTI_ASSIGN_OR_RETURN(TensorDesc desc, read_desc(node.inputs[i]));
    if (node.inputs[i].data != nullptr) made->tensors[i] = view(desc, node.inputs[i].data);
    made->constants.push_back(node.inputs[i].data != nullptr ? &made->tensors[i] : nullptr);
    made->inputs.push_back(std::move(desc));
  }
  for (std::uint64_t i = 0; i < node.num_outputs; ++i) {
    TUTTI_ASSIGN_OR_RETURN(TensorDesc desc, read_desc(node.outputs[i]));
    made->outputs.push_back(std::move(desc));
  }
  return {};
}

tutti_kernel* make_kernel(tutti_rank* rank, const tutti_node* node, tutti_error* error) {
  auto made = std::make_unique<tutti_kernel>();
  const int failed = guarded(error, [&]() -> Status {
    TUTTI_RETURN_IF_ERROR(read_node(*node, *rank->ops, made.get()));
    TUTTI_ASSIGN_OR_RETURN(
        made->kernel, rank->device->make_kernel({*made->graph->nodes().front(), made->inputs,
                                                 made->outputs, made->constants, made->symbols}));
    return {};
  });
  return failed != 0 ? nullptr : made.release();
}

void destroy_kernel(tutti_kernel* kernel) { delete kernel; }
std::uint64_t workspace_bytes(tutti_kernel* kernel) { return kernel->kernel->workspace_bytes(); }
std::int32_t consumes_constant(tutti_kernel* kernel, std::uint64_t i) {
  return kernel->kernel->consumes_constant(i) ? 1 : 0;
}
int run_kernel(tutti_kernel* kernel, const void* const* inputs, std::uint64_t num_inputs,
               void* const* outputs, std::uint64_t num_outputs, void* workspace,
               tutti_error* error) {
  return guarded(error, [&] {
    return kernel->kernel->run({{inputs, num_inputs}, {outputs, num_outputs}, workspace});
  });
}

tutti_buffer* allocate(tutti_rank* rank, std::uint64_t bytes, tutti_error* error) {
  auto made = std::make_unique<tutti_buffer>();
  const int failed = guarded(error, [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(made->buffer, rank->device->allocate(bytes));
    return {};
  });
  return failed != 0 ? nullptr : made.release();
}
void* buffer_data(tutti_buffer* buffer) { return buffer->buffer->data(); }
void free_buffer(tutti_buffer* buffer) { delete buffer; }

const void* place_constant(tutti_rank* rank, const tutti_tensor* tensor, tutti_error* error) {
  const void* place = nullptr;
  const int failed = guarded(error, [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(const TensorDesc desc, read_desc(*tensor));
    TUTTI_ASSIGN_OR_RETURN(place, rank->device->place_constant(view(desc, tensor->data)));
    return place != nullptr ? Status() : internal_error("a constant without a place");
  });
  return failed != 0 ? nullptr : place;
}

int upload(tutti_rank* rank, void* target, const void* host, std::uint64_t bytes,
           tutti_error* error) {
  return guarded(error, [&] { return rank->device->upload(target, host, bytes); });
}
int download(tutti_rank* rank, void* host, const void* source, std::uint64_t bytes,
             tutti_error* error) {
  return guarded(error, [&] { return rank->device->download(host, source, bytes); });
}
int copy(tutti_rank* rank, void* target, const void* source, std::uint64_t bytes,
         tutti_error* error) {
  return guarded(error, [&] { return rank->device->copy(target, source, bytes); });
}
int finish(tutti_rank* rank, tutti_error* error) {
  return guarded(error, [&] { return rank->device->finish(); });
}

std::int32_t can_record(tutti_rank* rank) { return rank->device->can_record() ? 1 : 0; }
int begin_recording(tutti_rank* rank, tutti_error* error) {
  return guarded(error, [&] { return rank->device->begin_recording(); });
}
tutti_recording* end_recording(tutti_rank* rank, tutti_error* error) {
  auto made = std::make_unique<tutti_recording>();
  const int failed = guarded(error, [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(made->recording, rank->device->end_recording());
    return {};
  });
  return failed != 0 ? nullptr : made.release();
}
int replay(tutti_recording* recording, tutti_error* error) {
  return guarded(error, [&] { return recording->recording->replay(); });
}
void destroy_recording(tutti_recording* recording) { delete recording; }

std::int32_t has_clock(tutti_rank* rank) { return rank->device->has_clock() ? 1 : 0; }
int mark(tutti_rank* rank, std::uint64_t i, tutti_error* error) {
  return guarded(error, [&] { return rank->device->mark(i); });
}
int seconds_between(tutti_rank* rank, std::uint64_t from, std::uint64_t to, double* seconds,
                    tutti_error* error) {
  return guarded(error, [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(*seconds, rank->device->seconds_between(from, to));
    return {};
  });
}

int read_input(tutti_rank* rank, const tutti_rows* given, tutti_error* error) {
  const RowCopy rows{given->target,        given->target_stride, given->source,
                     given->source_stride, given->row_bytes,     given->rows};
  return guarded(error, [&] { return rank->device->read_input(rows); });
}
int write_output(tutti_rank* rank, void* target, const void* source, std::uint64_t bytes,
                 tutti_error* error) {
  return guarded(error, [&] { return rank->device->write_output(target, source, bytes); });
}

std::int32_t records_exchanges(tutti_rank* rank) {
  return rank->device->records_exchanges() ? 1 : 0;
}
void drop_recording(tutti_rank* rank) { rank->device->drop_recording(); }

int check_device_memory(tutti_backend* backend, std::int32_t device, const void* data,
                        std::uint64_t bytes, tutti_error* error) {
  return guarded(error, [&] { return backend->backend->check_device_memory(device, data, bytes); });
}
int read_device_memory(tutti_backend* backend, void* host, std::int32_t device, const void* source,
                       std::uint64_t bytes, tutti_error* error) {
  return guarded(error,
                 [&] { return backend->backend->read_device_memory(host, device, source, bytes); });
}
int allocate_host(tutti_backend* backend, std::uint64_t bytes, tutti_host_memory** memory,
                  tutti_error* error) {
  return guarded(error, [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> made, backend->backend->allocate_host(bytes));
    *memory = made == nullptr ? nullptr : new tutti_host_memory{std::move(made)};
    return {};
  });
}
void* host_data(tutti_host_memory* memory) { return memory->memory.get(); }
void free_host(tutti_host_memory* memory) { delete memory; }

tutti_device_memory* open_device_memory(tutti_backend* backend, std::int32_t device,
                                        const void* handle, std::uint64_t handle_bytes,
                                        std::uint64_t bytes, tutti_error* error) {
  auto made = std::make_unique<tutti_device_memory>();
  const int failed = guarded(error, [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(
        made->memory, backend->backend->open_device_memory(
                          device, {static_cast<const std::byte*>(handle), handle_bytes}, bytes));
    return {};
  });
  return failed != 0 ? nullptr : made.release();
}
int allocate_device(tutti_backend* backend, std::int32_t device, std::uint64_t bytes,
                    tutti_device_memory** memory, tutti_error* error) {
  return guarded(error, [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> made,
                           backend->backend->allocate_device(device, bytes));
    *memory = made == nullptr ? nullptr : new tutti_device_memory{std::move(made)};
    return {};
  });
}
void* device_data(tutti_device_memory* memory) { return memory->memory.get(); }
void free_device(tutti_device_memory* memory) { delete memory; }
int write_device_memory(tutti_backend* backend, std::int32_t device, void* target, const void* host,
                        std::uint64_t bytes, tutti_error* error) {
  return guarded(
      error, [&] { return backend->backend->write_device_memory(device, target, host, bytes); });
}
int device_load(tutti_backend* backend, std::int32_t device, tutti_device_load* given,
                tutti_error* error) {
  return guarded(error, [&]() -> Status {
    TUTTI_ASSIGN_OR_RETURN(const DeviceLoad load, backend->backend->device_load(device));
    std::snprintf(given->uuid, sizeof given->uuid, "%s", load.uuid.c_str());
    given->memory_total_bytes = load.memory_total_bytes;
    given->memory_used_bytes = load.memory_used_bytes;
    given->utilization = load.utilization;
    given->power_watts = load.power_watts;
    given->power_limit_watts = load.power_limit_watts;
    given->energy_joules = load.energy_joules;
    return {};
  });
}

void offer_artifact(tutti_backend* backend, const tutti_artifact* given) {
  (void)guarded(nullptr, [&] {
    backend->backend->offer(to_artifact(backend->backend->name(), *given));
    return Status();
  });
}
void list_artifacts(tutti_backend* backend, void* context,
                    void (*give)(void* context, const tutti_artifact* artifact)) {
  (void)guarded(nullptr, [&] {
    for (const Artifact& artifact : backend->backend->artifacts()) {
      const tutti_artifact view = view_of(artifact);
      give(context, &view);
    }
    return Status();
  });
}

}  // namespace

const tutti_backend_api* export_backend(const char* name, BackendFactory factory,
                                        OfflineFactory offline) {
  static const tutti_backend_api api = [&] {
    made_by = factory;
    made_offline_by = offline;
    tutti_backend_api table{};
    table.abi = TUTTI_BACKEND_ABI;
    table.size = sizeof table;
    table.name = name;
    table.create_backend = create_backend;
    table.destroy_backend = destroy_backend;
    table.device_count = device_count;
    table.describe = describe;
    table.create_rank = create_rank;
    table.destroy_rank = destroy_rank;
    table.is_host_memory = is_host_memory;
    table.make_kernel = make_kernel;
    table.destroy_kernel = destroy_kernel;
    table.workspace_bytes = workspace_bytes;
    table.consumes_constant = consumes_constant;
    table.run_kernel = run_kernel;
    table.allocate = allocate;
    table.buffer_data = buffer_data;
    table.free_buffer = free_buffer;
    table.place_constant = place_constant;
    table.upload = upload;
    table.download = download;
    table.copy = copy;
    table.finish = finish;
    table.can_record = can_record;
    table.begin_recording = begin_recording;
    table.end_recording = end_recording;
    table.replay = replay;
    table.destroy_recording = destroy_recording;
    table.has_clock = has_clock;
    table.mark = mark;
    table.seconds_between = seconds_between;
    table.read_input = read_input;
    table.write_output = write_output;
    table.records_exchanges = records_exchanges;
    table.drop_recording = drop_recording;
    table.check_device_memory = check_device_memory;
    table.read_device_memory = read_device_memory;
    table.allocate_host = allocate_host;
    table.host_data = host_data;
    table.free_host = free_host;
    table.open_device_memory = open_device_memory;
    table.allocate_device = allocate_device;
    table.device_data = device_data;
    table.free_device = free_device;
    table.write_device_memory = write_device_memory;
    table.device_load = device_load;
    table.create_offline = offline == nullptr ? nullptr : create_offline;
    table.offer_artifact = offer_artifact;
    table.list_artifacts = list_artifacts;
    return table;
  }();
  return &api;
}

}  // namespace tutti::abi
