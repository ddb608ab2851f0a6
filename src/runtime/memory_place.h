// Where the bytes of a request's tensors lie, when that is not the memory of this process.
#pragma once

#include <map>
#include <string>

namespace tutti {

struct MemoryPlace {
  enum class Kind { kHost, kDevice };
  Kind kind = Kind::kHost;
  int device = 0;  // kDevice: as the backend counts its devices
};

inline bool is_on_device(const MemoryPlace& place) {
  return place.kind == MemoryPlace::Kind::kDevice;
}

// By name of the input or output. What is not named lies in host memory.
using MemoryPlaces = std::map<std::string, MemoryPlace, std::less<>>;

}  // namespace tutti
