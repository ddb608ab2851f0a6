#include "backends/cpu/conv_onednn.h"

#include <algorithm>
#include <functional>

namespace tutti::cpu {
namespace {

using Desc = dnnl::memory::desc;
using OneDnnDims = dnnl::memory::dims;

constexpr std::size_t kFrom = 0;  // positions of a reorder's arguments
constexpr std::size_t kTo = 1;
constexpr std::size_t kReorderScratch = 2;

OneDnnCall make_reorder(const dnnl::engine& engine, const Desc& from, const Desc& to,
                        std::size_t* scratch_bytes) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc pd(engine, from, engine, to, attributes);
  OneDnnCall call(dnnl::reorder(pd), engine);
  call.add(DNNL_ARG_FROM, from);
  call.add(DNNL_ARG_TO, to);
  call.add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
  *scratch_bytes = std::max(*scratch_bytes, pd.scratchpad_desc().get_size());
  return call;
}

}  // namespace

Result<std::unique_ptr<SlicedConv>> SlicedConv::create(const ConvShape& shape, DType compute,
                                                       const Tensor* constant_weights,
                                                       ThreadPool* pool) {
  std::unique_ptr<SlicedConv> conv(new SlicedConv(shape, compute, pool));
  TUTTI_RETURN_IF_ERROR(guard_onednn([&] { return conv->prepare(constant_weights); }));
  return conv;
}

Status SlicedConv::prepare(const Tensor* constant_weights) {
  axis_ = slice_axis(s_);
  slices_ = cut_slices(s_, axis_, pool_->size());
  if (slices_.empty()) return unimplemented("windows that see padding alone");
  for (const ConvSlice& slice : slices_) {
    std::size_t kind = 0;
    while (kind < kinds_.size() && !kinds_[kind].slice.is_same_kind(slice)) ++kind;
    if (kind == kinds_.size()) TUTTI_RETURN_IF_ERROR(add_kind(slice, constant_weights));
    kind_of_slice_.push_back(kind);
  }
  for (const Kind& kind : kinds_) {
    worker_bytes_ =
        std::max(worker_bytes_, align64(kind.source_bytes) + align64(kind.target_bytes) +
                                    align64(kind.scratch_bytes));
  }
  if (s_.has_bias && compute_ != s_.dtype) {
    const Desc from({s_.out_channels}, onednn_type(s_.dtype), OneDnnDims{1});
    const Desc to({s_.out_channels}, onednn_type(compute_), OneDnnDims{1});
    convert_bias_.push_back(make_reorder(engine_, from, to, &pack_scratch_bytes_));
  }
  return {};
}

Desc SlicedConv::weights_as_they_lie() const {
  const std::int64_t out = s_.out_channels / s_.group;
  const std::int64_t in = s_.in_channels / s_.group;
  const std::int64_t size = element_count(s_.kernel);
  // [g, o, c, k..]; transposed convolutions have [g, c, o, k..] in memory.
  OneDnnDims dims{out, in};
  OneDnnDims strides =
      s_.is_transposed ? OneDnnDims{size, out * size} : OneDnnDims{in * size, size};
  if (s_.group > 1) {
    dims.insert(dims.begin(), s_.group);
    strides.insert(strides.begin(), out * in * size);
  }
  const Dims kernel_strides = contiguous_strides(s_.kernel);
  dims.insert(dims.end(), s_.kernel.begin(), s_.kernel.end());
  strides.insert(strides.end(), kernel_strides.begin(), kernel_strides.end());
  return Desc(dims, onednn_type(s_.dtype), strides);
}

Status SlicedConv::prepare_weights(const Desc& format, const Tensor* constant_weights) {
  weight_format_ = format;
  packs_weights_ = constant_weights != nullptr;
  if (packs_weights_) {
    TUTTI_ASSIGN_OR_RETURN(
        packed_, reorder_onednn(engine_, weights_as_they_lie(), constant_weights->data(), format));
  } else {
    pack_weights_.push_back(
        make_reorder(engine_, weights_as_they_lie(), format, &pack_scratch_bytes_));
  }
  return {};
}

Status SlicedConv::add_kind(const ConvSlice& slice, const Tensor* constant_weights) {
  OneDnnDims in{1, s_.in_channels};
  OneDnnDims out{1, s_.out_channels};
  OneDnnDims strides, dilations, pads_begin, pads_end;
  for (std::size_t i = 0; i < s_.rank(); ++i) {
    const bool is_cut = i == axis_;
    in.push_back(is_cut ? slice.in_end - slice.in_begin : s_.in[i]);
    out.push_back(is_cut ? slice.out_end - slice.out_begin : s_.out[i]);
    strides.push_back(s_.strides[i]);
    dilations.push_back(s_.dilations[i] - 1);
    pads_begin.push_back(is_cut ? slice.pad_begin : s_.pads_begin[i]);
    pads_end.push_back(is_cut ? slice.pad_end : s_.pads_end[i]);
  }
  const auto type = onednn_type(compute_);
  const auto any = dnnl::memory::format_tag::any;
  OneDnnDims weight_dims = weights_as_they_lie().get_dims();
  const Desc weights = kinds_.empty() ? Desc(weight_dims, type, any) : weight_format_;
  const Desc bias = s_.has_bias ? Desc({s_.out_channels}, type, OneDnnDims{1}) : Desc();
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::primitive primitive;
  Desc source, target, scratch;
  std::string implementation;
  const auto take = [&](const auto& pd, auto make) {
    if (!pd) return;
    implementation = pd.impl_info_str();
    source = pd.src_desc();
    target = pd.dst_desc();
    scratch = pd.scratchpad_desc();
    if (kinds_.empty()) weight_format_ = pd.weights_desc();
    primitive = make(pd);
  };
  const Desc in_any(in, type, any);
  const Desc out_any(out, type, any);
  if (s_.is_transposed) {
    take(dnnl::deconvolution_forward::primitive_desc(engine_, dnnl::prop_kind::forward_inference,
                                                     dnnl::algorithm::deconvolution_direct, in_any,
                                                     weights, bias, out_any, strides, dilations,
                                                     pads_begin, pads_end, attributes, true),
         [](const auto& pd) { return dnnl::deconvolution_forward(pd); });
  } else {
    take(dnnl::convolution_forward::primitive_desc(engine_, dnnl::prop_kind::forward_inference,
                                                   dnnl::algorithm::convolution_direct, in_any,
                                                   weights, bias, out_any, strides, dilations,
                                                   pads_begin, pads_end, attributes, true),
         [](const auto& pd) { return dnnl::convolution_forward(pd); });
  }
  if (!primitive || !is_fast_implementation(implementation)) {
    return unimplemented("no fast convolution of ", dtype_name(compute_),
                         " in oneDNN for this shape");
  }
  if (kinds_.empty()) TUTTI_RETURN_IF_ERROR(prepare_weights(weight_format_, constant_weights));

  // The slice inside the whole tensors.
  const auto view = [&](const OneDnnDims& dims, std::int64_t channels, const Dims& space) {
    Dims whole{s_.batch, channels};
    whole.insert(whole.end(), space.begin(), space.end());
    const Dims steps = contiguous_strides(whole);
    return Desc(dims, onednn_type(s_.dtype), OneDnnDims(steps.begin(), steps.end()));
  };
  Kind kind;
  kind.slice = slice;
  kind.source_bytes = source.get_size();
  kind.target_bytes = target.get_size();
  kind.scratch_bytes = scratch.get_size();
  for (int worker = 0; worker < pool_->size(); ++worker) {
    OneDnnCall conv(primitive, engine_);
    conv.add(DNNL_ARG_SRC, source);
    conv.add(DNNL_ARG_WEIGHTS, weight_format_);
    conv.add(DNNL_ARG_DST, target);
    conv.add(DNNL_ARG_SCRATCHPAD, scratch);
    if (s_.has_bias) conv.add(DNNL_ARG_BIAS, bias);
    kind.steps.push_back(
        {make_reorder(engine_, view(in, s_.in_channels, s_.in), source, &kind.scratch_bytes),
         std::move(conv),
         make_reorder(engine_, target, view(out, s_.out_channels, s_.out), &kind.scratch_bytes)});
  }
  kinds_.push_back(std::move(kind));
  return {};
}

std::size_t SlicedConv::workspace_bytes() const {
  std::size_t bytes = worker_bytes_ * static_cast<std::size_t>(pool_->size());
  if (!packs_weights_) bytes += align64(weight_format_.get_size());
  if (!convert_bias_.empty())
    bytes += align64(static_cast<std::size_t>(s_.out_channels) * dtype_size(compute_));
  return bytes + align64(pack_scratch_bytes_);
}

Status SlicedConv::run(const void* x, const void* w, const void* bias, void* y, void* workspace) {
  use_one_onednn_thread();
  auto* next = static_cast<std::byte*>(workspace);
  const auto take = [&next](std::size_t bytes) {
    std::byte* const out = next;
    next += align64(bytes);
    return out;
  };
  std::byte* const scratch = take(worker_bytes_ * static_cast<std::size_t>(pool_->size()));
  std::byte* const pack_scratch = take(pack_scratch_bytes_);
  const void* weights = packed_.data();
  const auto reorder = [&](OneDnnCall& call, const void* from, std::byte* to) {
    call.set(kFrom, from);
    call.set(kTo, to);
    call.set(kReorderScratch, pack_scratch);
    return call.run();
  };
  if (!packs_weights_) {
    std::byte* const packed = take(weight_format_.get_size());
    TUTTI_RETURN_IF_ERROR(reorder(pack_weights_[0], w, packed));
    weights = packed;
  }
  if (!convert_bias_.empty()) {
    std::byte* const converted =
        take(static_cast<std::size_t>(s_.out_channels) * dtype_size(compute_));
    TUTTI_RETURN_IF_ERROR(reorder(convert_bias_[0], bias, converted));
    bias = converted;
  }
  const auto body = [&](std::int64_t begin, std::int64_t end, int worker) {
    use_one_onednn_thread();
    Status& status = failures_[static_cast<std::size_t>(worker)];
    for (std::int64_t item = begin; item < end && status.ok(); ++item) {
      status = run_slice(item, worker, static_cast<const std::byte*>(x), static_cast<std::byte*>(y),
                         weights, bias, scratch + worker_bytes_ * static_cast<std::size_t>(worker));
    }
  };
  for (Status& status : failures_) status = Status();
  pool_->parallel_for(s_.batch * static_cast<std::int64_t>(slices_.size()), 1, std::ref(body));
  for (const Status& status : failures_) TUTTI_RETURN_IF_ERROR(status);
  return {};
}

Status SlicedConv::run_slice(std::int64_t item, int worker, const std::byte* x, std::byte* y,
                             const void* weights, const void* bias, std::byte* scratch) {
  const auto count = static_cast<std::int64_t>(slices_.size());
  const auto index = static_cast<std::size_t>(item % count);
  const ConvSlice& slice = slices_[index];
  Kind& kind = kinds_[kind_of_slice_[index]];
  Steps& steps = kind.steps[static_cast<std::size_t>(worker)];
  const auto element = static_cast<std::int64_t>(dtype_size(s_.dtype));
  const auto rows_at = [&](std::int64_t channels, const Dims& space, std::int64_t row) {
    const Dims strides = contiguous_strides(space);
    return (item / count * channels * element_count(space) + row * strides[axis_]) * element;
  };
  std::byte* const source = scratch;
  std::byte* const target = source + align64(kind.source_bytes);
  std::byte* const rest = target + align64(kind.target_bytes);
  steps.to_blocked.set(kFrom, x + rows_at(s_.in_channels, s_.in, slice.in_begin));
  steps.to_blocked.set(kTo, source);
  steps.to_blocked.set(kReorderScratch, rest);
  TUTTI_RETURN_IF_ERROR(steps.to_blocked.run());
  steps.conv.set(0, source);
  steps.conv.set(1, weights);
  steps.conv.set(2, target);
  steps.conv.set(3, rest);
  if (s_.has_bias) steps.conv.set(4, bias);
  TUTTI_RETURN_IF_ERROR(steps.conv.run());
  steps.from_blocked.set(kFrom, target);
  steps.from_blocked.set(kTo, y + rows_at(s_.out_channels, s_.out, slice.out_begin));
  steps.from_blocked.set(kReorderScratch, rest);
  return steps.from_blocked.run();
}

}  // namespace tutti::cpu
