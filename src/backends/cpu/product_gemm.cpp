#include "backends/cpu/product_gemm.h"

#include <algorithm>

namespace tutti::cpu {
namespace {

using Desc = dnnl::memory::desc;

void append_activation(const std::string& name, dnnl::post_ops* ops) {
  using dnnl::algorithm;
  if (name == "relu") ops->append_eltwise(algorithm::eltwise_relu, 0, 0);
  if (name == "gelu") ops->append_eltwise(algorithm::eltwise_gelu_erf, 0, 0);
  if (name == "gelu_tanh") ops->append_eltwise(algorithm::eltwise_gelu_tanh, 0, 0);
  if (name == "silu") ops->append_eltwise(algorithm::eltwise_swish, 1, 0);
  if (name == "sigmoid") ops->append_eltwise(algorithm::eltwise_logistic, 0, 0);
  if (name == "tanh") ops->append_eltwise(algorithm::eltwise_tanh, 0, 0);
}

}  // namespace

Result<std::unique_ptr<Gemm>> Gemm::create(const GemmSpec& spec) {
  std::unique_ptr<Gemm> gemm(new Gemm(spec));
  TUTTI_RETURN_IF_ERROR(gemm->add_height(std::min(spec.rows, spec.block_rows)));
  if (const std::int64_t rest = spec.rows % spec.block_rows;
      spec.rows > spec.block_rows && rest != 0) {
    TUTTI_RETURN_IF_ERROR(gemm->add_height(rest));
  }
  return gemm;
}

Status Gemm::add_height(std::int64_t rows) {
  return guard_onednn([&]() -> Status {
    const auto type = onednn_type(spec_.dtype);
    const Desc a({rows, spec_.k}, type, dnnl::memory::dims{spec_.k, 1});
    const Desc c({rows, spec_.columns}, type, dnnl::memory::dims{spec_.c_stride, 1});
    const Desc b_plain({spec_.k, spec_.columns}, type,
                       spec_.transpose_b ? dnnl::memory::dims{1, spec_.b_stride}
                                         : dnnl::memory::dims{spec_.b_stride, 1});
    const Desc b_any({spec_.k, spec_.columns}, type, dnnl::memory::format_tag::any);
    const Desc bias = spec_.has_bias
                          ? Desc({1, spec_.columns}, type, dnnl::memory::dims{spec_.columns, 1})
                          : Desc();
    dnnl::post_ops ops;
    append_activation(spec_.activation, &ops);
    if (spec_.has_residual) ops.append_binary(dnnl::algorithm::binary_add, c);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(ops);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    // The first implementation in oneDNN's order that is not its reference code.
    const auto describe = [&](const Desc& b) {
      return dnnl::matmul::primitive_desc(engine_, a, b, bias, c, attributes, true);
    };
    const auto is_usable = [](const dnnl::matmul::primitive_desc& pd) {
      return static_cast<bool>(pd) && is_fast_implementation(pd.impl_info_str());
    };
    dnnl::matmul::primitive_desc pd;
    std::size_t packed = kAbsent;
    if (spec_.constant_b != nullptr) {
      // The rest of the rows should take the format that the full blocks have.
      if (!packed_.empty()) {
        pd = describe(packed_format_[0]);
        if (is_usable(pd)) packed = 0;
      }
      if (packed == kAbsent) {
        pd = describe(b_any);
        if (!is_usable(pd))
          return unimplemented("no fast matrix product for ", dtype_name(spec_.dtype));
        const Desc format = pd.weights_desc();
        TUTTI_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                               reorder_onednn(engine_, b_plain, spec_.constant_b, format));
        packed = packed_.size();
        packed_.push_back(std::move(buffer));
        packed_format_.push_back(format);
      }
    } else {
      pd = describe(b_plain);
      if (!is_usable(pd))
        return unimplemented("no fast matrix product for ", dtype_name(spec_.dtype));
    }
    packed_of_height_.push_back(packed);
    const dnnl::matmul primitive(pd);
    std::vector<Call>& calls = calls_.emplace_back();
    for (int worker = 0; worker < spec_.workers; ++worker) {
      Call call{OneDnnCall(primitive, engine_)};
      call.a = call.call.add(DNNL_ARG_SRC, a);
      call.b = call.call.add(DNNL_ARG_WEIGHTS, pd.weights_desc());
      call.c = call.call.add(DNNL_ARG_DST, c);
      call.scratch = call.call.add(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
      if (spec_.has_bias) call.bias = call.call.add(DNNL_ARG_BIAS, bias);
      if (spec_.has_residual) {
        const int position = spec_.activation.empty() ? 0 : 1;
        call.residual = call.call.add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(position) | DNNL_ARG_SRC_1, c);
      }
      if (packed != kAbsent) call.call.set(call.b, packed_[packed].data());
      calls.push_back(std::move(call));
    }
    scratch_bytes_ = std::max(scratch_bytes_, align64(pd.scratchpad_desc().get_size()));
    return {};
  });
}

Status Gemm::run(int worker, std::int64_t block, const void* a, const void* b, const void* bias,
                 const void* residual, void* c, void* scratch) {
  const std::int64_t row = block * spec_.block_rows;
  const bool is_last = calls_.size() > 1 && block + 1 == blocks();
  Call& call = calls_[is_last ? 1 : 0][static_cast<std::size_t>(worker)];
  const auto size = static_cast<std::int64_t>(dtype_size(spec_.dtype));
  const auto at = [size](const void* p, std::int64_t element) {
    return static_cast<const std::byte*>(p) + element * size;
  };
  call.call.set(call.a, at(a, row * spec_.k));
  if (!packs_b()) call.call.set(call.b, b);
  call.call.set(call.c, at(c, row * spec_.c_stride));
  call.call.set(call.scratch, scratch);
  if (call.bias != kAbsent) call.call.set(call.bias, bias);
  if (call.residual != kAbsent) call.call.set(call.residual, at(residual, row * spec_.c_stride));
  use_one_onednn_thread();
  return call.call.run();
}

}  // namespace tutti::cpu
