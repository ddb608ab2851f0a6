#include "backends/cpu/onednn.h"

namespace tutti::cpu {

dnnl::memory::data_type onednn_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return dnnl::memory::data_type::f32;
    case DType::kBFloat16: return dnnl::memory::data_type::bf16;
    case DType::kFloat16: return dnnl::memory::data_type::f16;
    case DType::kInt32: return dnnl::memory::data_type::s32;
    default: return dnnl::memory::data_type::undef;
  }
}

bool is_fast_implementation(std::string_view implementation_name) {
  return implementation_name.find("ref") == std::string_view::npos;
}

std::size_t OneDnnCall::add(int argument, const dnnl::memory::desc& desc) {
  memories_.emplace_back(desc, engine_, static_cast<void*>(nullptr));
  arguments_.push_back({argument, memories_.back().get()});
  return memories_.size() - 1;
}

Status OneDnnCall::run() {
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status == dnnl_success) return {};
  return internal_error("[onednn] primitive failed with status ", static_cast<int>(status));
}

Result<AlignedBuffer> AlignedBuffer::allocate(std::size_t bytes) {
  AlignedBuffer out;
  TUTTI_ASSIGN_OR_RETURN(out.tensor_,
                         Tensor::allocate(DType::kUInt8, {static_cast<std::int64_t>(bytes)}));
  return out;
}

Result<AlignedBuffer> reorder_onednn(const dnnl::engine& engine, const dnnl::memory::desc& from,
                                     const void* source, const dnnl::memory::desc& to) {
  TUTTI_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::allocate(to.get_size()));
  TUTTI_RETURN_IF_ERROR(guard_onednn([&]() -> Status {
    dnnl::memory source_memory(from, engine, const_cast<void*>(source));
    dnnl::memory target_memory(to, engine, buffer.data());
    dnnl::stream stream(engine);
    dnnl::reorder(source_memory, target_memory).execute(stream, source_memory, target_memory);
    stream.wait();
    return {};
  }));
  return buffer;
}

}  // namespace tutti::cpu
