// A dense, row-major tensor in host memory that shares its storage.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/dims.h"
#include "base/dtype.h"
#include "base/status.h"

namespace tutti {

// What a kernel is told of an operand: element type and sizes, no data.
struct TensorDesc {
  DType dtype = DType::kUndefined;  // kUndefined: an optional operand that is absent
  Dims dims;

  std::int64_t element_count() const { return tutti::element_count(dims); }
  std::size_t byte_size() const {
    return static_cast<std::size_t>(element_count()) * dtype_size(dtype);
  }
  bool operator==(const TensorDesc&) const = default;
};

// Copies share storage. Weights point into a mapped file; everything else owns 64-byte aligned
// memory. Thread safety: reading from several threads is safe; writing is the owner's affair.
class Tensor {
 public:
  Tensor() = default;

  // Uninitialised memory, 64-byte aligned. Errors: sizes that are negative or overflow, no memory.
  static Result<Tensor> allocate(DType dtype, Dims dims);

  // Borrows `data`, which `owner` keeps alive. The caller has checked that it is large enough.
  static Tensor view(DType dtype, Dims dims, const std::byte* data,
                     std::shared_ptr<const void> owner);

  // Small tensors from C++ values; T's element type decides the dtype.
  template <class T>
  static Tensor of(Dims dims, std::span<const T> values);
  static Tensor scalar(DType dtype, double value);           // rank 0, converted to dtype
  static Tensor ints(std::span<const std::int64_t> values);  // rank 1, i64

  bool defined() const { return desc_.dtype != DType::kUndefined; }
  const TensorDesc& desc() const { return desc_; }
  DType dtype() const { return desc_.dtype; }
  const Dims& dims() const { return desc_.dims; }
  std::size_t rank() const { return desc_.dims.size(); }
  std::int64_t element_count() const { return desc_.element_count(); }
  std::size_t byte_size() const { return desc_.byte_size(); }

  const std::byte* data() const { return data_; }
  std::byte* mutable_data() { return const_cast<std::byte*>(data_); }

  template <class T>
  const T* data_as() const {
    return reinterpret_cast<const T*>(data_);
  }
  template <class T>
  T* mutable_data_as() {
    return reinterpret_cast<T*>(mutable_data());
  }

  // The same storage under other sizes with as many elements (the caller has checked).
  Tensor reshaped(Dims dims) const;

  // Every element as a number: for small tensors that hold axes, sizes or scalars.
  std::vector<std::int64_t> to_ints() const;
  std::vector<double> to_doubles() const;

 private:
  TensorDesc desc_;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::kInt16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kUInt8;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::kUInt16;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::kUInt32;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::kUInt64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

}  // namespace tutti
