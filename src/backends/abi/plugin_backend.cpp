#include "backends/abi/plugin_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "backends/abi/artifact.h"
#include "backends/abi/error.h"
#include "backends/abi/node_text.h"

namespace tutti::abi {
namespace {

tutti_tensor describe(const TensorDesc& desc, const Tensor* constant) {
  tutti_tensor tensor{};
  tensor.dtype = desc.dtype == DType::kUndefined ? 0 : dtype_to_onnx(desc.dtype);
  tensor.rank = static_cast<std::int32_t>(desc.dims.size());
  tensor.dims = desc.dims.data();
  tensor.data = constant == nullptr ? nullptr : constant->data();
  return tensor;
}

class PluginKernel final : public Kernel {
 public:
  PluginKernel(const tutti_backend_api& api, tutti_kernel* kernel) : api_(api), kernel_(kernel) {}
  ~PluginKernel() override { api_.destroy_kernel(kernel_); }
  PluginKernel(const PluginKernel&) = delete;
  PluginKernel& operator=(const PluginKernel&) = delete;

  std::size_t workspace_bytes() const override { return api_.workspace_bytes(kernel_); }
  bool consumes_constant(std::size_t i) const override {
    return api_.consumes_constant(kernel_, i) != 0;
  }
  Status run(const KernelArgs& args) override {
    return called([&](tutti_error* error) {
      return api_.run_kernel(kernel_, args.inputs.data(), args.inputs.size(), args.outputs.data(),
                             args.outputs.size(), args.workspace, error);
    });
  }

 private:
  const tutti_backend_api& api_;
  tutti_kernel* kernel_;
};

class PluginBuffer final : public DeviceBuffer {
 public:
  PluginBuffer(const tutti_backend_api& api, tutti_buffer* buffer, std::size_t size)
      : api_(api), buffer_(buffer), size_(size) {}
  ~PluginBuffer() override { api_.free_buffer(buffer_); }
  PluginBuffer(const PluginBuffer&) = delete;
  PluginBuffer& operator=(const PluginBuffer&) = delete;
  void* data() override { return api_.buffer_data(buffer_); }
  std::size_t size() const override { return size_; }

 private:
  const tutti_backend_api& api_;
  tutti_buffer* buffer_;
  std::size_t size_;
};

class PluginRecording final : public Recording {
 public:
  PluginRecording(const tutti_backend_api& api, tutti_recording* recording)
      : api_(api), recording_(recording) {}
  ~PluginRecording() override { api_.destroy_recording(recording_); }
  PluginRecording(const PluginRecording&) = delete;
  PluginRecording& operator=(const PluginRecording&) = delete;
  Status replay() override {
    return called([&](tutti_error* error) { return api_.replay(recording_, error); });
  }

 private:
  const tutti_backend_api& api_;
  tutti_recording* recording_;
};

// The host's communicators as the plug-in calls them.
int gather(void* context, const void* mine, void* all, std::uint64_t bytes, tutti_error* error) {
  return guarded(error,
                 [&] { return static_cast<Communicator*>(context)->gather(mine, all, bytes); });
}
void abort_all(void* context, const tutti_error* reason) {
  static_cast<Communicator*>(context)->abort(to_status(*reason));
}
void add_sent(void* context, std::int64_t bytes) {
  static_cast<Communicator*>(context)->add_sent(bytes);
}

tutti_communicator describe(Communicator* communicator) {
  tutti_communicator out{};
  out.size = sizeof out;
  out.num_ranks = communicator == nullptr ? 1 : communicator->size();
  out.rank = communicator == nullptr ? 0 : communicator->rank();
  out.context = communicator;
  out.gather = gather;
  out.abort = abort_all;
  out.add_sent = add_sent;
  return out;
}

class PluginRank final : public RankDevice {
 public:
  PluginRank(const tutti_backend_api& api, tutti_rank* rank, const RankDeviceOptions& options)
      : api_(api),
        rank_(rank),
        communicators_(options.communicators),
        group_(options.group),
        is_host_memory_(api.is_host_memory(rank) != 0),
        can_record_(api.can_record(rank) != 0),
        records_exchanges_(api.records_exchanges(rank) != 0),
        has_clock_(api.has_clock(rank) != 0) {}
  ~PluginRank() override { api_.destroy_rank(rank_); }
  PluginRank(const PluginRank&) = delete;
  PluginRank& operator=(const PluginRank&) = delete;

  Result<std::unique_ptr<Kernel>> make_kernel(const KernelSpec& spec) override {
    const std::string text = node_text(spec.node);
    std::vector<tutti_tensor> inputs;
    std::vector<tutti_tensor> outputs;
    std::vector<const char*> names;
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
      inputs.push_back(describe(spec.inputs[i], spec.constants[i]));
    }
    for (const TensorDesc& desc : spec.outputs) outputs.push_back(describe(desc, nullptr));
    for (const auto& [name, value] : spec.symbols) {
      names.push_back(name.c_str());
      values.push_back(value);
    }
    tutti_node node{};
    node.size = sizeof node;
    node.text = text.c_str();
    node.inputs = inputs.data();
    node.num_inputs = inputs.size();
    node.outputs = outputs.data();
    node.num_outputs = outputs.size();
    node.symbol_names = names.data();
    node.symbol_values = values.data();
    node.num_symbols = names.size();
    tutti_kernel* kernel = nullptr;
    const Status status = called([&](tutti_error* error) {
      kernel = api_.make_kernel(rank_, &node, error);
      return kernel == nullptr ? 1 : 0;
    });
    if (!status.ok()) return status.with_context(str_cat(spec.node.describe(), " on ", api_.name));
    return std::unique_ptr<Kernel>(std::make_unique<PluginKernel>(api_, kernel));
  }

  Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) override {
    tutti_buffer* buffer = nullptr;
    TUTTI_RETURN_IF_ERROR(called([&](tutti_error* error) {
      buffer = api_.allocate(rank_, bytes, error);
      return buffer == nullptr ? 1 : 0;
    }));
    return std::unique_ptr<DeviceBuffer>(std::make_unique<PluginBuffer>(api_, buffer, bytes));
  }

  bool is_host_memory() const override { return is_host_memory_; }

  Result<const void*> place_constant(const Tensor& tensor) override {
    const void* place = nullptr;
    const tutti_tensor constant = describe(tensor.desc(), &tensor);
    TUTTI_RETURN_IF_ERROR(called([&](tutti_error* error) {
      place = api_.place_constant(rank_, &constant, error);
      return place == nullptr ? 1 : 0;
    }));
    return place;
  }

  Status upload(void* target, const void* host, std::size_t bytes) override {
    return called(
        [&](tutti_error* error) { return api_.upload(rank_, target, host, bytes, error); });
  }
  Status download(void* host, const void* source, std::size_t bytes) override {
    return called(
        [&](tutti_error* error) { return api_.download(rank_, host, source, bytes, error); });
  }
  Status copy(void* target, const void* source, std::size_t bytes) override {
    return called(
        [&](tutti_error* error) { return api_.copy(rank_, target, source, bytes, error); });
  }
  Status read_input(const RowCopy& copy) override {
    tutti_rows rows{};
    rows.size = sizeof rows;
    rows.target = copy.target;
    rows.target_stride = copy.target_stride;
    rows.source = copy.source;
    rows.source_stride = copy.source_stride;
    rows.row_bytes = copy.row_bytes;
    rows.rows = copy.rows;
    return called([&](tutti_error* error) { return api_.read_input(rank_, &rows, error); });
  }
  Status write_output(void* target, const void* source, std::size_t bytes) override {
    return called(
        [&](tutti_error* error) { return api_.write_output(rank_, target, source, bytes, error); });
  }
  Status finish() override {
    return called([&](tutti_error* error) { return api_.finish(rank_, error); });
  }

  bool can_record() const override { return can_record_; }
  bool records_exchanges() const override { return records_exchanges_; }
  Status begin_recording() override {
    return called([&](tutti_error* error) { return api_.begin_recording(rank_, error); });
  }
  Result<std::unique_ptr<Recording>> end_recording() override {
    tutti_recording* recording = nullptr;
    TUTTI_RETURN_IF_ERROR(called([&](tutti_error* error) {
      recording = api_.end_recording(rank_, error);
      return recording == nullptr ? 1 : 0;
    }));
    return std::unique_ptr<Recording>(std::make_unique<PluginRecording>(api_, recording));
  }

  void drop_recording() override { api_.drop_recording(rank_); }

  bool has_clock() const override { return has_clock_; }
  Status mark(std::size_t i) override {
    return called([&](tutti_error* error) { return api_.mark(rank_, i, error); });
  }
  Result<double> seconds_between(std::size_t from, std::size_t to) override {
    double seconds = 0;
    TUTTI_RETURN_IF_ERROR(called([&](tutti_error* error) {
      return api_.seconds_between(rank_, from, to, &seconds, error);
    }));
    return seconds;
  }

 private:
  const tutti_backend_api& api_;
  tutti_rank* rank_;
  // The plug-in calls them.
  const std::vector<std::shared_ptr<Communicator>> communicators_;
  const std::shared_ptr<Communicator> group_;
  const bool is_host_memory_;
  const bool can_record_;
  const bool records_exchanges_;
  const bool has_clock_;
};

class PluginBackend final : public Backend {
 public:
  PluginBackend(std::unique_ptr<const tutti_backend_api> api, tutti_backend* backend)
      : table_(std::move(api)), api_(*table_), backend_(backend) {}
  ~PluginBackend() override { api_.destroy_backend(backend_); }
  PluginBackend(const PluginBackend&) = delete;
  PluginBackend& operator=(const PluginBackend&) = delete;

  std::string name() const override { return api_.name; }
  int device_count() const override { return api_.device_count(backend_); }
  std::string describe() const override { return api_.describe(backend_); }

  Result<std::unique_ptr<RankDevice>> create_rank(const RankDeviceOptions& options) override {
    std::vector<const char*> names;
    for (const std::string& axis : options.axes) names.push_back(axis.c_str());
    std::vector<tutti_communicator> communicators;
    for (std::size_t i = 0; i < options.axes.size(); ++i) {
      communicators.push_back(abi::describe(
          i < options.communicators.size() ? options.communicators[i].get() : nullptr));
    }
    tutti_rank_options given{};
    given.size = sizeof given;
    given.device = options.device;
    given.rank = options.rank;
    given.threads = options.threads;
    given.num_axes = names.size();
    given.axis_names = names.data();
    given.communicators = communicators.data();
    const tutti_communicator group = abi::describe(options.group.get());
    given.group = &group;
    tutti_rank* rank = nullptr;
    TUTTI_RETURN_IF_ERROR(called([&](tutti_error* error) {
      rank = api_.create_rank(backend_, &given, error);
      return rank == nullptr ? 1 : 0;
    }));
    return std::unique_ptr<RankDevice>(std::make_unique<PluginRank>(api_, rank, options));
  }

  Status check_device_memory(int device, const void* data, std::size_t bytes) override {
    return called([&](tutti_error* error) {
      return api_.check_device_memory(backend_, device, data, bytes, error);
    });
  }
  Status read_device_memory(void* host, int device, const void* source,
                            std::size_t bytes) override {
    return called([&](tutti_error* error) {
      return api_.read_device_memory(backend_, host, device, source, bytes, error);
    });
  }
  Result<std::shared_ptr<std::byte>> allocate_host(std::size_t bytes) override {
    tutti_host_memory* memory = nullptr;
    TUTTI_RETURN_IF_ERROR(called(
        [&](tutti_error* error) { return api_.allocate_host(backend_, bytes, &memory, error); }));
    if (memory == nullptr) return std::shared_ptr<std::byte>();
    const std::shared_ptr<tutti_host_memory> owner(memory, api_.free_host);
    return std::shared_ptr<std::byte>(owner, static_cast<std::byte*>(api_.host_data(memory)));
  }

  Result<std::shared_ptr<std::byte>> open_device_memory(int device,
                                                        std::span<const std::byte> handle,
                                                        std::size_t bytes) override {
    if (api_.open_device_memory == nullptr) {
      return Backend::open_device_memory(device, handle, bytes);
    }
    tutti_device_memory* memory = nullptr;
    TUTTI_RETURN_IF_ERROR(called([&](tutti_error* error) {
      memory =
          api_.open_device_memory(backend_, device, handle.data(), handle.size(), bytes, error);
      return memory == nullptr ? 1 : 0;
    }));
    return owned(memory);
  }
  Result<std::shared_ptr<std::byte>> allocate_device(int device, std::size_t bytes) override {
    if (api_.allocate_device == nullptr) return Backend::allocate_device(device, bytes);
    tutti_device_memory* memory = nullptr;
    TUTTI_RETURN_IF_ERROR(called([&](tutti_error* error) {
      return api_.allocate_device(backend_, device, bytes, &memory, error);
    }));
    return memory == nullptr ? std::shared_ptr<std::byte>() : owned(memory);
  }
  Status write_device_memory(int device, void* target, const void* host,
                             std::size_t bytes) override {
    if (api_.write_device_memory == nullptr) {
      return Backend::write_device_memory(device, target, host, bytes);
    }
    return called([&](tutti_error* error) {
      return api_.write_device_memory(backend_, device, target, host, bytes, error);
    });
  }
  Result<DeviceLoad> device_load(int device) override {
    if (api_.device_load == nullptr) return Backend::device_load(device);
    tutti_device_load load{};
    load.size = sizeof load;
    TUTTI_RETURN_IF_ERROR(called(
        [&](tutti_error* error) { return api_.device_load(backend_, device, &load, error); }));
    return DeviceLoad{load.uuid,         load.memory_total_bytes, load.memory_used_bytes,
                      load.utilization,  load.power_watts,        load.power_limit_watts,
                      load.energy_joules};
  }
  void offer(const Artifact& artifact) override {
    if (api_.offer_artifact == nullptr || artifact.backend != name()) return;
    const tutti_artifact given = view_of(artifact);
    api_.offer_artifact(backend_, &given);
  }
  std::vector<Artifact> artifacts() override {
    struct Taker {
      std::string backend;
      std::vector<Artifact> taken;
    } taker{name(), {}};
    if (api_.list_artifacts == nullptr) return {};
    api_.list_artifacts(backend_, &taker, [](void* context, const tutti_artifact* artifact) {
      auto* to = static_cast<Taker*>(context);
      to->taken.push_back(to_artifact(to->backend, *artifact));
    });
    return std::move(taker.taken);
  }

 private:
  std::shared_ptr<std::byte> owned(tutti_device_memory* memory) const {
    const std::shared_ptr<tutti_device_memory> owner(memory, api_.free_device);
    return {owner, static_cast<std::byte*>(api_.device_data(memory))};
  }

  const std::unique_ptr<const tutti_backend_api> table_;
  const tutti_backend_api& api_;
  tutti_backend* backend_;
};

// Up to here a table of this version reaches at least; what came later may be missing.
constexpr std::size_t kFirstSize = offsetof(tutti_backend_api, open_device_memory);

}  // namespace

Result<std::unique_ptr<Backend>> make_plugin_backend(const tutti_backend_api* api,
                                                     const std::string& target) {
  if (api == nullptr || api->abi != TUTTI_BACKEND_ABI) {
    return unimplemented("the plug-in has backend ABI ", api == nullptr ? 0U : api->abi,
                         ", expected ", TUTTI_BACKEND_ABI);
  }
  if (api->size < kFirstSize) {
    return unimplemented("the plug-in's table has ", api->size, " bytes, expected at least ",
                         kFirstSize);
  }
  auto table = std::make_unique<tutti_backend_api>();
  std::memcpy(table.get(), api, std::min<std::size_t>(api->size, sizeof *table));
  if (!target.empty() && table->create_offline == nullptr) {
    return unimplemented("the ", api->name, " plug-in makes no kernels without a device");
  }
  tutti_backend* backend = nullptr;
  TUTTI_RETURN_IF_ERROR(called([&](tutti_error* error) {
    backend = target.empty() ? table->create_backend(error)
                             : table->create_offline(target.c_str(), error);
    return backend == nullptr ? 1 : 0;
  }));
  return std::unique_ptr<Backend>(std::make_unique<PluginBackend>(std::move(table), backend));
}

}  // namespace tutti::abi
