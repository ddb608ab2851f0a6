#include "runtime/backend.h"

namespace tutti {

Status RankDevice::copy(void* target, const void* source, std::size_t bytes) {
  std::vector<std::byte> host(bytes);
  TUTTI_RETURN_IF_ERROR(download(host.data(), source, bytes));
  return upload(target, host.data(), bytes);
}

Status RankDevice::begin_recording() { return unimplemented("this device does not record"); }

Result<std::unique_ptr<Recording>> RankDevice::end_recording() {
  return unimplemented("this device does not record");
}

Status RankDevice::mark(std::size_t /*i*/) { return unimplemented("this device has no clock"); }

Result<double> RankDevice::seconds_between(std::size_t /*from*/, std::size_t /*to*/) {
  return unimplemented("this device has no clock");
}

}  // namespace tutti
