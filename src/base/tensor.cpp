#include "base/tensor.h"

#include <cstdlib>
#include <cstring>

#include "base/dispatch.h"

namespace tutti {

Result<Tensor> Tensor::allocate(DType dtype, Dims dims) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t bytes, checked_byte_size(dtype, dims));
  constexpr std::size_t kAlign = 64;
  const std::size_t padded = (static_cast<std::size_t>(bytes) + kAlign - 1) / kAlign * kAlign;
  void* memory = std::aligned_alloc(kAlign, padded == 0 ? kAlign : padded);
  if (memory == nullptr) {
    return Status(StatusCode::kResourceExhausted, str_cat("no memory for ", bytes, " bytes"));
  }
  Tensor tensor;
  tensor.desc_ = {dtype, std::move(dims)};
  tensor.data_ = static_cast<const std::byte*>(memory);
  tensor.owner_ =
      std::shared_ptr<const void>(memory, [](const void* p) { std::free(const_cast<void*>(p)); });
  return tensor;
}

Tensor Tensor::view(DType dtype, Dims dims, const std::byte* data,
                    std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.desc_ = {dtype, std::move(dims)};
  tensor.data_ = data;
  tensor.owner_ = std::move(owner);
  return tensor;
}

template <class T>
Tensor Tensor::of(Dims dims, std::span<const T> values) {
  Tensor tensor = *allocate(DTypeOf<T>::value, std::move(dims));
  if (!values.empty()) std::memcpy(tensor.mutable_data(), values.data(), values.size_bytes());
  return tensor;
}

#define TUTTI_TENSOR_OF(T) template Tensor Tensor::of<T>(Dims, std::span<const T>);
TUTTI_TENSOR_OF(float)
TUTTI_TENSOR_OF(double)
TUTTI_TENSOR_OF(Half)
TUTTI_TENSOR_OF(BFloat16)
TUTTI_TENSOR_OF(std::int8_t)
TUTTI_TENSOR_OF(std::int16_t)
TUTTI_TENSOR_OF(std::int32_t)
TUTTI_TENSOR_OF(std::int64_t)
TUTTI_TENSOR_OF(std::uint8_t)
TUTTI_TENSOR_OF(std::uint16_t)
TUTTI_TENSOR_OF(std::uint32_t)
TUTTI_TENSOR_OF(std::uint64_t)
TUTTI_TENSOR_OF(bool)
#undef TUTTI_TENSOR_OF

Tensor Tensor::ints(std::span<const std::int64_t> values) {
  return of<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

namespace {

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class Out>
std::vector<Out> convert_all(const Tensor& tensor) {
  std::vector<Out> out;
  out.reserve(static_cast<std::size_t>(tensor.element_count()));
  const Status status = dispatch_dtype(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* data = tensor.data_as<T>();
    for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
      out.push_back(static_cast<Out>(static_cast<ComputeType<T>>(data[i])));
    }
    return Status();
  });
  if (!status.ok()) out.clear();
  return out;
}

}  // namespace

Tensor Tensor::scalar(DType dtype, double value) {
  Tensor tensor = *allocate(dtype, {});
  const Status status = dispatch_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    *tensor.mutable_data_as<T>() = from_double<T>(value);
    return Status();
  });
  return status.ok() ? tensor : Tensor();
}

Tensor Tensor::reshaped(Dims dims) const {
  Tensor tensor = *this;
  tensor.desc_.dims = std::move(dims);
  return tensor;
}

std::vector<std::int64_t> Tensor::to_ints() const { return convert_all<std::int64_t>(*this); }
std::vector<double> Tensor::to_doubles() const { return convert_all<double>(*this); }

}  // namespace tutti
