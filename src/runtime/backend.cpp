#include "runtime/backend.h"

namespace tutti {

Status RankDevice::copy(void* target, const void* source, std::size_t bytes) {
  std::vector<std::byte> host(bytes);
  TUTTI_RETURN_IF_ERROR(download(host.data(), source, bytes));
  return upload(target, host.data(), bytes);
}

Status RankDevice::read_input(const RowCopy& rows) {
  auto* target = static_cast<std::byte*>(rows.target);
  const auto* source = static_cast<const std::byte*>(rows.source);
  if (rows.row_bytes == rows.source_stride && rows.row_bytes == rows.target_stride) {
    return upload(target, source, rows.rows * rows.row_bytes);
  }
  for (std::size_t i = 0; i < rows.rows; ++i) {
    TUTTI_RETURN_IF_ERROR(
        upload(target + i * rows.target_stride, source + i * rows.source_stride, rows.row_bytes));
  }
  return {};
}

Status RankDevice::write_output(void* target, const void* source, std::size_t bytes) {
  return download(target, source, bytes);
}

Status RankDevice::begin_recording() { return unimplemented("this device does not record"); }

Result<std::unique_ptr<Recording>> RankDevice::end_recording() {
  return unimplemented("this device does not record");
}

Status RankDevice::mark(std::size_t /*i*/) { return unimplemented("this device has no clock"); }

Result<double> RankDevice::seconds_between(std::size_t /*from*/, std::size_t /*to*/) {
  return unimplemented("this device has no clock");
}

Status Backend::check_device_memory(int device, const void* /*data*/, std::size_t /*bytes*/) {
  return invalid_argument("it lies in the memory of device ", device, ", but the ", name(),
                          " backend reads and writes host memory only");
}

Status Backend::read_device_memory(void* /*host*/, int device, const void* /*source*/,
                                   std::size_t /*bytes*/) {
  return check_device_memory(device, nullptr, 0);
}

Result<std::shared_ptr<std::byte>> Backend::allocate_host(std::size_t /*bytes*/) {
  return std::shared_ptr<std::byte>();
}

Result<std::shared_ptr<std::byte>> Backend::open_device_memory(
    int /*device*/, std::span<const std::byte> /*handle*/, std::size_t /*bytes*/) {
  return unimplemented("the ", name(), " backend has no device memory that processes share");
}

Result<std::shared_ptr<std::byte>> Backend::allocate_device(int /*device*/, std::size_t /*bytes*/) {
  return std::shared_ptr<std::byte>();
}

Status Backend::write_device_memory(int device, void* /*target*/, const void* /*host*/,
                                    std::size_t /*bytes*/) {
  return check_device_memory(device, nullptr, 0);
}

Result<DeviceLoad> Backend::device_load(int /*device*/) {
  return unimplemented("the ", name(), " backend does not know the load of its devices");
}

}  // namespace tutti
