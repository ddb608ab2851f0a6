// The only file that includes cuDNN's front end: it is heavy to compile.
#include <cudnn_frontend.h>

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "backends/cuda/cudnn.h"
#include "backends/cuda/dynamic_library.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the front end finds the library's functions in it
}

namespace tutti::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using TensorPointer = std::shared_ptr<Tensor_attributes>;

constexpr std::int64_t kMaxWorkspace = std::int64_t{512} << 20;  // of a convolution
constexpr std::size_t kMaxEngines = 3;

// Building fails where the library has no engine.
Status to_status(fe::error_t error) {
  return error.is_good() ? Status() : unimplemented("cuda: cuDNN: ", error.get_message());
}

// The front end throws where it does not return.
template <class F>
auto guarded(F function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception& error) {
    return internal_error("cuda: cuDNN: ", error.what());
  }
}

fe::DataType_t type_of(DType dtype) {
  return dtype == DType::kFloat16    ? fe::DataType_t::HALF
         : dtype == DType::kBFloat16 ? fe::DataType_t::BFLOAT16
                                     : fe::DataType_t::FLOAT;
}

std::int64_t id_of(int address) { return address + 1; }

class EnginePlan final : public CudnnPlan {
 public:
  EnginePlan(std::shared_ptr<Graph> graph, std::int64_t index, std::string name)
      : graph_(std::move(graph)),
        index_(index),
        name_(std::move(name)),
        workspace_(static_cast<std::size_t>(
            std::max<std::int64_t>(graph_->get_workspace_size_plan_at_index(index), 0))) {}
  std::size_t workspace_bytes() const override { return workspace_; }
  std::string name() const override { return name_; }
  Status run(cudnnContext* handle, std::span<void* const> addresses, void* workspace) override {
    std::unordered_map<std::int64_t, void*> pack;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      if (addresses[i] != nullptr) pack.emplace(id_of(static_cast<int>(i)), addresses[i]);
    }
    return guarded([&]() -> Status {
      auto error = graph_->execute_plan_at_index(handle, pack, workspace, index_);
      if (error.is_good()) return {};
      return internal_error("cuda: cuDNN, engine ", name_, ": ", error.get_message());
    });
  }

 private:
  std::shared_ptr<Graph> graph_;
  std::int64_t index_;
  std::string name_;
  std::size_t workspace_;
};

std::shared_ptr<Graph> make_graph(DType dtype, int arch) {
  auto graph = std::make_shared<Graph>();
  graph->set_io_data_type(type_of(dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(arch)
      // A kernel outlives the recordings that it is in, and holds its plan.
      .set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
  return graph;
}

TensorPointer add_input(Graph& graph, int address, DType dtype, const Dims& dims,
                        const Dims& strides) {
  return graph.tensor(
      Tensor_attributes()
          .set_uid(id_of(address))
          .set_dim(dims)
          .set_stride(strides)
          .set_data_type(dtype == DType::kInt32 ? fe::DataType_t::INT32 : type_of(dtype)));
}

void set_output(const TensorPointer& tensor, int address, DType dtype, const Dims& dims,
                const Dims& strides) {
  tensor->set_output(true)
      .set_uid(id_of(address))
      .set_dim(dims)
      .set_stride(strides)
      .set_data_type(type_of(dtype));
}

std::shared_ptr<Graph> describe(const CudnnAttention& a, int arch) {
  using A = CudnnAttention;
  auto graph = make_graph(a.dtype, arch);
  const auto operand = [&](int address, std::int64_t heads, std::int64_t tokens, std::int64_t size,
                           const std::array<std::int64_t, 3>& strides) {
    return add_input(*graph, address, a.dtype, {a.batch, heads, tokens, size},
                     {strides[0], strides[1], strides[2], 1});
  };
  const TensorPointer q = operand(A::kQ, a.heads, a.queries, a.qk_size, a.q);
  const TensorPointer k = operand(A::kK, a.kv_heads, a.keys, a.qk_size, a.k);
  const TensorPointer v = operand(A::kV, a.kv_heads, a.keys, a.v_size, a.v);
  fe::graph::SDPA_attributes attributes;
  attributes.set_name("attention").set_attn_scale(a.scale).set_generate_stats(a.has_statistics);
  // The other one is as fast and takes less (cuDNN 9.19).
  attributes.set_implementation(fe::AttentionImplementation_t::COMPOSITE);
  if (!a.bias.empty()) {
    attributes.set_bias(add_input(*graph, A::kBias, a.dtype, a.bias, contiguous_strides(a.bias)));
  }
  if (a.has_lengths) {
    const Dims dims{a.batch, 1, 1, 1};
    const Dims strides{1, 1, 1, 1};
    attributes.set_padding_mask(true)
        .set_seq_len_q(add_input(*graph, A::kQueryLengths, DType::kInt32, dims, strides))
        .set_seq_len_kv(add_input(*graph, A::kKeyLengths, DType::kInt32, dims, strides));
  }
  if (a.mask != CausalMask::kNone) {
    const bool is_top_left = a.mask == CausalMask::kTopLeft;
    attributes
        .set_diagonal_alignment(is_top_left ? fe::DiagonalAlignment_t::TOP_LEFT
                                            : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(is_top_left ? static_cast<int>(a.offset) : 0);
  }
  const auto outputs = graph->sdpa(q, k, v, attributes);
  set_output(outputs.at(0), A::kOut, a.dtype, {a.batch, a.heads, a.queries, a.v_size},
             {a.out[0], a.out[1], a.out[2], 1});
  if (a.has_statistics) {
    const Dims dims{a.batch, a.heads, a.queries, 1};
    set_output(outputs.at(1), A::kStatistics, DType::kFloat32, dims, contiguous_strides(dims));
  }
  return graph;
}

Dims strides_of(const Dims& dims, bool is_channels_last) {
  if (!is_channels_last) return contiguous_strides(dims);
  Dims strides(dims.size(), 1);
  std::int64_t step = dims[1];
  for (std::size_t d = dims.size(); d-- > 2;) {
    strides[d] = step;
    step *= dims[d];
  }
  strides[0] = step;
  return strides;
}

std::shared_ptr<Graph> describe(const CudnnConvolution& c, int arch) {
  using C = CudnnConvolution;
  auto graph = make_graph(c.dtype, arch);
  const auto strides = [&](const Dims& dims) { return strides_of(dims, c.is_channels_last); };
  const TensorPointer x = add_input(*graph, C::kX, c.dtype, c.x, strides(c.x));
  const TensorPointer w = add_input(*graph, C::kW, c.dtype, c.w, strides(c.w));
  const auto set = [&](auto attributes) {
    attributes.set_pre_padding(c.before)
        .set_post_padding(c.after)
        .set_stride(c.strides)
        .set_dilation(c.dilations);
    return attributes;
  };
  TensorPointer y = c.is_transposed
                        ? graph->conv_dgrad(x, w, set(fe::graph::Conv_dgrad_attributes()))
                        : graph->conv_fprop(x, w, set(fe::graph::Conv_fprop_attributes()));
  if (c.has_bias) {
    y->set_dim(c.y).set_stride(strides(c.y));
    Dims dims(c.y.size(), 1);
    dims[1] = c.y[1];
    const TensorPointer bias = add_input(*graph, C::kBias, c.dtype, dims, strides(dims));
    y = graph->pointwise(y, bias,
                         fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  set_output(y, C::kY, c.dtype, c.y, strides(c.y));
  return graph;
}

class Handle final : public CudnnHandle {
 public:
  explicit Handle(cudnnHandle_t handle) : handle_(handle) {}
  ~Handle() override { (void)fe::detail::destroy_handle(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cudnnContext* get() const override { return handle_; }

 private:
  cudnnHandle_t handle_;
};

class Library final : public Cudnn {
 public:
  Library(int device, int arch) : device_(device), arch_(arch) {}

  Status open() {
    // The front end opens the run time by that name again.
    TUTTI_RETURN_IF_ERROR(DynamicLibrary::open("libcudart.so.13").status());
    TUTTI_ASSIGN_OR_RETURN(library_, DynamicLibrary::open("libcudnn.so.9"));
    fe::cudnn_dlhandle = library_->handle();
    TUTTI_ASSIGN_OR_RETURN(builder_, create_handle(nullptr));
    return {};
  }

  std::string version() const override {
    const std::size_t number = fe::detail::get_backend_version();
    return str_cat(number / 10000, ".", number / 100 % 100, ".", number % 100);
  }

  Result<std::shared_ptr<CudnnHandle>> create_handle(cudaStream_t stream) override {
    TUTTI_RETURN_IF_ERROR(activate(device_));
    return guarded([&]() -> Result<std::shared_ptr<CudnnHandle>> {
      cudnnHandle_t handle = nullptr;
      cudnnStatus_t status = fe::detail::create_handle(&handle);
      if (status == CUDNN_STATUS_SUCCESS) {
        auto made = std::make_shared<Handle>(handle);
        status = fe::detail::set_stream(handle, stream);
        if (status == CUDNN_STATUS_SUCCESS) return std::shared_ptr<CudnnHandle>(std::move(made));
      }
      return internal_error("cuda: cudnnCreate: ", fe::detail::get_error_string(status));
    });
  }

  Result<std::shared_ptr<CudnnPlan>> attention(const CudnnAttention& attention) override {
    const std::lock_guard lock(mutex_);
    const auto known = attentions_.find(attention);
    if (known != attentions_.end()) return known->second;
    auto made = guarded([&] { return build_attention(attention); });
    return attentions_.emplace(attention, std::move(made)).first->second;
  }

  std::vector<std::shared_ptr<CudnnPlan>> convolution(const CudnnConvolution& convolution,
                                                      const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const auto key = std::make_pair(convolution, name);
    const auto known = convolutions_.find(key);
    if (known != convolutions_.end()) return known->second;
    auto made = guarded([&] { return build_convolution(convolution, name); });
    std::vector<std::shared_ptr<CudnnPlan>> plans;
    if (made.ok()) plans = *std::move(made);
    return convolutions_.emplace(key, std::move(plans)).first->second;
  }

 private:
  using Plans = std::vector<std::shared_ptr<CudnnPlan>>;

  Status prepare(Graph& graph, const std::vector<fe::HeurMode_t>& heuristics) {
    TUTTI_RETURN_IF_ERROR(activate(device_));
    TUTTI_RETURN_IF_ERROR(to_status(graph.validate()));
    TUTTI_RETURN_IF_ERROR(to_status(graph.build_operation_graph(builder_->get())));
    return to_status(graph.create_execution_plans(heuristics));
  }

  static std::string engine_name(const Graph& graph, std::int64_t index) {
    std::string name;
    (void)graph.get_plan_name_at_index(index, name);
    return name;
  }

  Result<std::shared_ptr<CudnnPlan>> build_attention(const CudnnAttention& attention) {
    const auto graph = describe(attention, arch_);
    TUTTI_RETURN_IF_ERROR(prepare(*graph, {fe::HeurMode_t::A}));
    Status status = unimplemented("cuda: cuDNN has no engine for this attention");
    for (std::int64_t i = 0; i < graph->get_execution_plan_count(); ++i) {
      status = to_status(graph->build_plan_at_index(i));
      if (!status.ok()) continue;
      return std::shared_ptr<CudnnPlan>(
          std::make_shared<EnginePlan>(graph, i, engine_name(*graph, i)));
    }
    return status;
  }

  Result<Plans> build_convolution(const CudnnConvolution& convolution, const std::string& only) {
    using Note = fe::NumericalNote_t;
    const auto graph = describe(convolution, arch_);
    TUTTI_RETURN_IF_ERROR(prepare(*graph, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
    std::vector<Note> notes = {Note::NONDETERMINISTIC, Note::REDUCED_PRECISION_REDUCTION,
                               Note::WINOGRAD_TILE_6x6, Note::WINOGRAD_TILE_13x13};
    if (convolution.dtype == DType::kFloat32) {
      notes.insert(notes.end(), {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS});
    }
    graph->deselect_numeric_notes(notes);
    graph->deselect_workspace_greater_than(kMaxWorkspace);
    Plans plans;
    std::set<std::string> names;
    for (std::int64_t i = 0; i < graph->get_execution_plan_count(); ++i) {
      const std::string name = engine_name(*graph, i);
      if ((!only.empty() && name != only) || !names.insert(name).second) continue;
      if (graph->build_plan_at_index(i).is_bad()) continue;
      plans.push_back(std::make_shared<EnginePlan>(graph, i, name));
      if (plans.size() == kMaxEngines) break;
    }
    return plans;
  }

  const int device_;
  const int arch_;
  std::shared_ptr<DynamicLibrary> library_;
  std::shared_ptr<CudnnHandle> builder_;  // under mutex_ but for open()
  std::mutex mutex_;
  // Under mutex_; refusals too.
  std::map<CudnnAttention, Result<std::shared_ptr<CudnnPlan>>> attentions_;
  std::map<std::pair<CudnnConvolution, std::string>, Plans> convolutions_;
};

}  // namespace

Result<std::unique_ptr<Cudnn>> Cudnn::create(int device, int arch) {
  auto library = std::make_unique<Library>(device, arch);
  TUTTI_RETURN_IF_ERROR(guarded([&] { return library->open(); }));
  return std::unique_ptr<Cudnn>(std::move(library));
}

}  // namespace tutti::cuda
