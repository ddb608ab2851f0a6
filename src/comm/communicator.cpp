#include "comm/communicator.h"

namespace tutti {

std::int64_t Region::byte_size() const {
  std::int64_t bytes = run;
  for (const std::int64_t size : sizes) bytes *= size;
  return bytes;
}

std::int64_t ExchangePlan::sent_bytes(int self) const {
  std::int64_t bytes = 0;
  for (std::size_t peer = 0; peer < send.size(); ++peer) {
    if (static_cast<int>(peer) == self) continue;
    for (const Region& region : send[peer]) bytes += region.byte_size();
  }
  return bytes;
}

}  // namespace tutti
